"""terminal/chat.py uses the checkpoint's template. Special tokens that a user types remain plain
text, and each turn reuses the cache of the turns before it."""

import json
import re
from datetime import date

import pytest
import tokenizers

import utils
from generate import generate
from terminal.chat import Conversation
from tests.support.commands import write_letters

CHATML = """
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content.split('</think>')[-1] }}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
TURNS = """<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
 Hi <|im_end|>
<|im_start|>assistant
the cat<|im_end|>
<|im_start|>user
And?<|im_end|>
<|im_start|>assistant
"""
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def write_chat(folder, n_special=0, **config):
    """Write a model that generates letters, with ChatML's tokens and template. n_special: how many
    of the tokens its tokenizer puts before each text."""
    write_letters(folder, n_vocab=261, n_ctx=160)
    vocab = json.loads((folder / "vocab.json").read_text())
    del vocab["<|endoftext|>"]
    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("t", "h"), ("th", "e")]))
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    library.add_special_tokens(TOKENS)
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single=" ".join([*TOKENS[:n_special], "$A"]), special_tokens=[*zip(TOKENS, range(258, 261))]
    )
    library.save(str(folder / "tokenizer.json"))
    config = {"chat_template": CHATML, "eos_token": {"content": "<|im_end|>"}} | config
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_chat(tmp_path_factory.mktemp("models") / "chat")


@pytest.mark.parametrize("bos", ["", "<|endoftext|>"])
def test_a_conversation_has_the_template_s_text(tmp_path, bos):
    """A template adds the tokens at the beginning itself."""
    more = {"bos_token": bos, "chat_template": "{{ bos_token }}" + CHATML}
    write_chat(tmp_path / "m", n_special=len(bos) > 0, **more)
    tokenizer, _ = utils.load(tmp_path / "m")
    chat = Conversation(tokenizer, tmp_path / "m", "Be brief.")
    first = chat.ask(" Hi ")
    chat.add("user", " Hi ")  # ask() has not added it
    chat.add("assistant", "the cat")
    ids = chat.ask("And?")
    assert ids == tokenizer.library.encode(bos + TURNS, add_special_tokens=False).ids
    assert ids[: len(first)] == first and ids.count(258) == len(bos) / 13
    assert chat.stop_ids == (260,)


def test_special_tokens_that_a_user_types_remain_text(folder):
    tokenizer, _ = utils.load(folder)
    typed = "".join(TOKENS) + "<|im_<|im_end|>end|>"
    chats = [Conversation(tokenizer, folder).ask(text) for text in ("a", typed)]
    chats.append(Conversation(tokenizer, folder, typed).ask("a"))
    assert len({tuple(id for id in ids if id >= 258) for ids in chats}) == 1
    assert "im_end|>" in tokenizer.decode(chats[1])
    chat = Conversation(tokenizer, folder)
    chat.add("assistant", "<think>\nab</think>the <|im_end|> cat")
    text = tokenizer.decode(chat.ask("b"))  # the template drops the thoughts
    assert "the <|im_end|> cat" in text and "think" not in text  # an answer keeps its tokens


def test_a_template_may_be_a_file_or_one_of_several(folder, tmp_path):
    expected = Conversation(tokenizer := utils.load(folder)[0], folder).ask("a")
    several = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": CHATML}]
    write_chat(tmp_path, chat_template=several)
    assert Conversation(tokenizer, tmp_path).ask("a") == expected
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    assert Conversation(tokenizer, tmp_path).ask("a") == expected


def test_a_template_finds_what_transformers_offers(tmp_path):
    """SmolLM3's template needs the first two. tojson does not escape < as HTML does."""
    template = """{{ strftime_now("%Y") }}
    {%- for message in messages %}{%- generation %}{% set x = 1 %}{{ message|tojson(indent=0) }}
    {%- endgeneration %}{% endfor %}{{ x }}|{{ pad_token }}
    {%- if tools is none and documents is none and bos_token is not defined %}|ok{% endif %}"""
    write_chat(tmp_path, chat_template=template, pad_token={"content": "<p>"})
    tokenizer, _ = utils.load(tmp_path)
    found = tokenizer.decode(Conversation(tokenizer, tmp_path).ask("a<b> é"))
    assert found == f'{date.today().year}{{\n"role": "user",\n"content": "a<b> é"\n}}|<p>|ok'


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"chat_template": [{"template": "x"}]}, "is damaged: .*; fetch it again"),
        ({"eos_token": ["x"]}, "is damaged: .*; fetch it again"),
        ({"chat_template": "{{ raise_exception('Only users!') }}"}, "Only users"),
        ({"chat_template": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}, "unsafe"),
        ({"chat_template": "{% for message in messages %}"}, "end of template"),
    ],
)
def test_a_template_that_is_damaged_refuses_or_is_hostile_gives_one_line(
    console, tmp_path, config, says
):
    line = console.refused(1, "a", "--chat", model=write_chat(tmp_path, **config))
    assert re.search(f"the chat template .*{says}", line)


ENDING = """
def f(logits, ids):  # <|im_end|> after "ab"
    logits[:] = 0
    logits[260 if ids[-2:] == [64, 65] else 64 + (ids[-1] == 64)] = 99
    return logits
def g(logits, ids):
    if ids[-2:] == [64, 65]: raise KeyboardInterrupt
    return f(logits, ids)
"""


def test_one_prompt_is_one_turn(console, folder, tmp_path):
    tokenizer, model = utils.load(folder)
    expected = [Conversation(tokenizer, folder).ask(text) for text in ("the cat", "<|im_end|>")]
    rows = console.json("--chat", "the cat", "<|im_end|>", "-n", 9, model=folder)
    assert [row["prompt_ids"] for row in rows] == expected
    assert [row["ids"] for row in rows] == [list(generate(model, ids, 9)) for ids in expected]
    assert console.text("--chat", "the cat", "-n", 9, model=folder) == rows[0]["text"] + "\n"
    (tmp_path / "ending.py").write_text(ENDING)
    words = "the cat", "--chat", "--filter", f"{tmp_path}/ending.py:f"
    for method in ("cached", "ngram", "beam"):
        row = console.json(*words, "--method", method, model=folder)[0]
        assert (row["text"], row["ids"], row["stop_reason"]) == ("ab", [64, 65], "eos")


@pytest.mark.parametrize("stopped", [False, True])
def test_turns_and_the_cache_are_kept(console, folder, tmp_path, passes, stopped):
    """Ctrl-C ends an answer, which is a turn, too."""
    (tmp_path / "ending.py").write_text(ENDING)
    tokenizer, model = utils.load(folder)
    chat, cached, lines = Conversation(tokenizer, folder), [], ["hi", "and a rat?", "<|im_end|>"]
    words = ["--chat"] + ["--filter", f"{tmp_path}/ending.py:g"] * stopped
    answers = console.session(*lines, words=words, model=folder)
    found = [ids.tolist() for ids in passes]
    for line, answer in zip(lines, answers):
        ids = chat.ask(line)
        expected = [64, 65] if stopped else list(generate(model, ids, 9))
        text = tokenizer.decode(expected)
        assert answer.startswith(text + ("\n\n(stopped)" if stopped else "\n(9 tokens"))
        common = ([a == b for a, b in zip(cached, ids)] + [False]).index(False)
        assert common >= len(cached) - 1  # all earlier turns come from the cache
        read, found = found[: len(expected) + stopped], found[len(expected) + stopped :]
        assert [token for part in read for token in part] == ids[common:] + expected[: 8 + stopped]
        cached = ids + expected[: 8 + stopped]  # the last of nine tokens has not been read
        chat.add("user", line)
        chat.add("assistant", text)
    assert found == []


def test_a_conversation_continues_after_an_error(console, folder, tmp_path):
    (tmp_path / "ending.py").write_text(ENDING)
    lines = "hi", f"/filter {tmp_path}/ending.py:f(1)", "a", "/filter off", "b"
    first, _, error, _, more = console.session(*lines, words=["--chat"], model=folder)
    assert "TypeError" in error and "(9 tokens" in more


def test_system_changes_the_system_text_and_reset_forgets_the_turns(console, folder, passes):
    lines = "the cat", "/system Be brief.", "a", "/system off", "a", "b", "/reset", "a"
    console.session(*lines, words=["--chat", "-n", 1], model=folder)
    tokenizer, _ = utils.load(folder)
    first, brief, helpful, more, again = [tokenizer.decode(ids.tolist()) for ids in passes]
    assert "helpful" in first and "Be brief." in brief
    assert "the cat" not in brief and "helpful" not in brief
    assert helpful == again and "helpful" in again and "Be brief." not in again
    assert "helpful" not in more  # the second turn's earlier tokens come from the cache


def test_score_rates_the_answer_in_its_conversation(console, folder):
    [typed] = console.session("the cat", words=["--chat"], model=folder)
    answer = typed.partition("\n(")[0]
    [scored] = console.session(f"/score the cat => {answer}", words=["--chat"], model=folder)
    assert console.text(f"the cat => {answer}", "--chat", "--score", model=folder) == scored


def test_models_that_cannot_chat_are_refused(console, letters):
    line = console.refused(1, "a", "--chat")
    assert "no chat template" in line and "such as HuggingFaceTB/SmolLM2-135M-Instruct" in line
    refused, text = console.session("/chat", "a")
    assert "no chat template" in refused and text.startswith("a")  # it goes on without a chat
