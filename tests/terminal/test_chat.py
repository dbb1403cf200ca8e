"""terminal/chat.py uses the checkpoint's template. Special tokens that a user types remain plain
text, and each turn reuses the cache of the turns before it."""

import copy
import json
from datetime import date

import pytest

import utils
from generate import generate
from loading.errors import UserError
from loading.tokenizer import read_tokenizer
from terminal import options
from terminal.chat import Conversation
from terminal.session import Session
from terminal.shell import Shell
from tests.support.commands import HOUSE, write_letters
from tests.support.tiny import Watched

FIXTURES = HOUSE / "tests" / "fixtures" / "tokenizers"
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
LLAMA3 = """
{%- for message in messages %}
    {%- if loop.first %}{{- bos_token }}{%- endif %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
    {{- message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
"""
MISTRAL = """{{ bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- '[INST] ' + message.content + '[/INST]' }}
    {%- elif message.role == 'assistant' %}{{- message.content + eos_token }}
    {%- else %}{{- raise_exception('Only user and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}"""
RENDERED = {  # format -> (fixture, special tokens, end of a turn, template, text of three turns)
    "ChatML": (
        "qwen",
        ["<|im_start|>", "<|im_end|>"],
        "<|im_end|>",
        CHATML,
        """\
<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
 Hi <|im_end|>
<|im_start|>assistant
the cat<|im_end|>
<|im_start|>user
And?<|im_end|>
<|im_start|>assistant
""",
    ),
    "Llama 3": (
        "llama3",
        ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        "<|eot_id|>",
        LLAMA3,
        """\
<|begin_of_text|><|start_header_id|>system<|end_header_id|>

Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>

Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>

the cat<|eot_id|><|start_header_id|>user<|end_header_id|>

And?<|eot_id|><|start_header_id|>assistant<|end_header_id|>

""",
    ),
    "Mistral": (
        "mistral",
        ["[INST]", "[/INST]"],
        "</s>",
        MISTRAL,
        "<s>[INST]  Hi [/INST]the cat</s>[INST] And?[/INST]",
    ),
}


def make(folder, name):
    """Write a chat template and a tokenizer with this template's tokens. Return the tokenizer."""
    fixture, tokens, end, template, _ = RENDERED[name]
    file = copy.deepcopy(json.loads((FIXTURES / f"{fixture}.json").read_text())["tokenizer"])
    id = max(*file["model"]["vocab"].values(), *(token["id"] for token in file["added_tokens"]))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    file["added_tokens"] += [
        {"id": id + 1 + i, "content": token, "special": True, **flags}
        for i, token in enumerate(tokens)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(file))
    start = {"Llama 3": "<|begin_of_text|>", "Mistral": "<s>"}.get(name)
    config = {"chat_template": template, "bos_token": start, "eos_token": {"content": end}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return read_tokenizer(folder, "llama")


@pytest.mark.parametrize("name", RENDERED)
def test_a_conversation_has_the_template_s_text(tmp_path, name):
    tokenizer, (*_, end, _, expected) = make(tmp_path, name), RENDERED[name]
    chat = Conversation(tokenizer, tmp_path, None if name == "Mistral" else "Be brief.")
    first = chat.ask(" Hi ")
    assert first == chat.ask(" Hi ")  # ask() does not change the conversation
    chat.add("user", " Hi ")
    chat.add("assistant", "the cat")
    ids = chat.ask("And?")
    whole = tokenizer.library.encode(expected, add_special_tokens=False).ids
    assert ids == whole and first == whole[: len(first)]
    assert chat.stop_ids == (tokenizer.special[end],)


@pytest.mark.parametrize("name", RENDERED)
def test_special_tokens_that_a_user_types_remain_text(tmp_path, name):
    tokenizer = make(tmp_path, name)
    special = {*tokenizer.special.values()}
    typed = "".join(tokenizer.special) + "<|im_<|im_end|>end|>"
    chats = [Conversation(tokenizer, tmp_path).ask(text) for text in ("a", typed)]
    plain, hostile = ([id for id in ids if id in special] for ids in chats)
    assert plain == hostile
    shown = tokenizer.decode(chats[1])
    assert all(token[1:] in shown for token in RENDERED[name][1])
    if name != "Mistral":
        system = Conversation(tokenizer, tmp_path, typed).ask("a")
        assert sum(id in special for id in system) <= len(plain) + len(RENDERED[name][1])


def test_the_template_may_change_earlier_turns(tmp_path):
    """For example, this template adds a default system text and leaves out earlier thoughts."""
    tokenizer = make(tmp_path, "ChatML")
    chat = Conversation(tokenizer, tmp_path)
    assert "You are helpful." in tokenizer.decode(chat.ask("a"))
    chat.add("user", "a")
    chat.add("assistant", "<think>\nab</think>the <|im_end|> cat")
    text = tokenizer.decode(chat.ask("b"))
    assert "the <|im_end|> cat" in text and "think" not in text  # an answer keeps its tokens


def test_a_template_may_be_a_file_or_one_of_several(tmp_path):
    tokenizer = make(tmp_path, "ChatML")
    expected = Conversation(tokenizer, tmp_path).ask("a")
    config = tmp_path / "tokenizer_config.json"
    several = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": CHATML}]
    config.write_text(json.dumps({"chat_template": several}))
    assert Conversation(tokenizer, tmp_path).ask("a") == expected
    config.unlink()
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    assert Conversation(tokenizer, tmp_path).ask("a") == expected
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="no chat template"):
        Conversation(tokenizer, tmp_path)


def test_a_template_finds_what_transformers_offers(tmp_path):
    """SmolLM3's template needs the first two. tojson does not escape < as HTML does."""
    tokenizer = make(tmp_path, "ChatML")
    template = """{{ strftime_now("%Y") }}
    {%- for message in messages %}{%- generation %}{% set x = 1 %}{{ message|tojson }}
    {%- endgeneration %}{% endfor %}{{ x }}|{{ pad_token }}
    {%- if tools is none and documents is none and bos_token is not defined %}|ok{% endif %}"""
    config = {"chat_template": template, "pad_token": {"content": "<p>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    found = tokenizer.decode(Conversation(tokenizer, tmp_path).ask("a<b> é"))
    assert found == f'{date.today().year}{{"role": "user", "content": "a<b> é"}}|<p>|ok'


@pytest.mark.parametrize(
    "config",
    [
        {"chat_template": [{"template": "x"}]},
        {"chat_template": ["x"]},
        {"chat_template": "x", "bos_token": {}},
        {"chat_template": "x", "eos_token": ["x"]},
    ],
)
def test_a_damaged_template_gives_one_line(tmp_path, config):
    tokenizer = make(tmp_path, "ChatML")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="the chat template in .* is damaged: .*; fetch it again"):
        Conversation(tokenizer, tmp_path)


@pytest.mark.parametrize(
    "template, says",
    [
        (MISTRAL, "Only user and assistant roles"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{% for message in messages %}", "end of template"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ 'a' * 10**15 }}", "MemoryError"),
    ],
)
def test_a_template_that_refuses_or_is_hostile_gives_one_line(tmp_path, template, says):
    tokenizer = make(tmp_path, "ChatML")
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match=says) as caught:
        Conversation(tokenizer, tmp_path, "Be brief.").ask("a")
    assert "\n" not in str(caught.value)


# --- chats on the command line --------------------------------------------------------------------

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a model that generates letters, with ChatML's tokens and template."""
    folder = write_letters(tmp_path_factory.mktemp("models") / "chat", n_vocab=261, n_ctx=160)
    vocab = json.loads((folder / "vocab.json").read_text())
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False}
    by_bytes |= {"use_regex": True, "trim_offsets": True}
    del vocab["<|endoftext|>"]
    model = {"type": "BPE", "vocab": vocab, "merges": ["t h", "th e"]}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": 258 + i, "content": t, "special": True, **flags} for i, t in enumerate(TOKENS)]
    file = {"version": "1.0", "model": model, "added_tokens": added, "pre_tokenizer": by_bytes}
    (folder / "tokenizer.json").write_text(json.dumps(file | {"decoder": by_bytes}))
    config = {"chat_template": CHATML, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def start(folder):
    """Return a function that starts a chat with the folder's model: options -> the chat's Shell."""

    def start(*words):
        words = ["--interactive", "--chat", "--model", str(folder), "-n", "9", *map(str, words)]
        return Shell(Session(options.parse(words)))

    return start


ENDING = """
def f(logits, ids):  # <|im_end|> after "ab"
    logits[:] = 0
    logits[260 if ids[-2:] == [64, 65] else 64 + (ids[-1] == 64)] = 99
    return logits
"""


def test_one_prompt_is_one_turn(console, folder, tmp_path):
    tokenizer, model = utils.load(folder)
    expected = [Conversation(tokenizer, folder).ask(text) for text in ("the cat", "<|im_end|>")]
    rows = console.json("--chat", "the cat", "<|im_end|>", "-n", 9, model=folder)
    assert [row["prompt_ids"] for row in rows] == expected
    assert [row["ids"] for row in rows] == [list(generate(model, ids, 9)) for ids in expected]
    assert console.text("--chat", "the cat", "-n", 9, model=folder) == rows[0]["text"] + "\n"
    for method in ("naive", "ngram", "lookup"):
        row = console.json("--chat", "the cat", "-n", 9, "--method", method, model=folder)[0]
        assert row["ids"] == rows[0]["ids"]
    (tmp_path / "ending.py").write_text(ENDING)
    words = "the cat", "--chat", "--filter", f"{tmp_path}/ending.py:f"
    for method in ("cached", "ngram", "beam"):
        row = console.json(*words, "--method", method, model=folder)[0]
        assert (row["text"], row["ids"], row["stop_reason"]) == ("ab", [64, 65], "eos")


def test_turns_and_the_cache_are_kept(console, start):
    shell = start()
    tokenizer, model = shell.session.tokenizer, shell.session.model
    shell.session.model = watched = Watched(model)
    cached_ids = []
    for text in "the cat", "and the rat?", "<|im_start|>":
        expected = shell.session.chat.ask(text)
        answer = list(generate(model, expected, 9))
        watched.shapes = []
        shell.answer(text)
        assert console.capsys.readouterr().out == tokenizer.decode(answer) + "\n"
        common = [a == b for a, b in zip(cached_ids, expected)]
        n_common = (common + [False]).index(False)
        assert [shape[-1] for shape in watched.shapes] == [len(expected) - n_common] + [1] * 8
        assert n_common >= len(cached_ids) - 1  # all earlier turns come from the cache
        cached_ids = [*expected, *answer[:-1]]  # the answer's last token has not been read
    assert [message["role"] for message in shell.session.chat.messages] == ["user", "assistant"] * 3


def test_system_changes_the_system_text_and_reset_forgets_the_turns(console, start):
    shell = start()
    shell.answer("the cat")
    shell.answer("/system Be brief.")
    ask, tokenizer = lambda: shell.session.chat.ask("a"), shell.session.tokenizer
    text = tokenizer.decode(ask())
    assert "Be brief." in text and "the cat" not in text and "helpful" not in text
    shell.answer("a")
    shell.answer("/system off")
    assert "helpful" in tokenizer.decode(ask())
    beginning = ask()
    shell.answer("a")
    assert ask() != beginning
    shell.answer("/reset")
    assert ask() == beginning


def test_a_message_too_long_for_the_context_is_refused(console, start):
    shell = start("-n", 30)
    shell.answer("a" * 30)
    console.capsys.readouterr()
    before = copy.deepcopy(shell.session.chat.messages)
    shell.answer("c" * 60)
    out, err = console.capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "tokens, but the model takes 160: /reset begins a new conversation" in err
    assert shell.session.chat.messages == before


def test_a_stopped_answer_is_a_turn(console, start, tmp_path):
    (tmp_path / "stopping.py").write_text(
        "def f(logits, ids):\n    if ids[-2:] == [64, 65]: raise KeyboardInterrupt\n"
        "    logits[64 + (ids[-1] == 64)] = 99\n    return logits\n"
    )
    shell = start("--filter", f"{tmp_path}/stopping.py:f")
    shell.answer("the cat")
    assert "(stopped)" in console.capsys.readouterr().out
    assert [turn["content"] for turn in shell.session.chat.messages] == ["the cat", "ab"]


@pytest.mark.parametrize("view", ["/explain", "/html {}/a.html"])
def test_a_view_without_a_prompt_repeats_the_answer(console, start, tmp_path, view):
    shell = start("-n", 30, "--temperature", 1, "--seed", 3)
    for line in "hi", "the cat", view.format(tmp_path):
        console.capsys.readouterr()
        answer = shell.row and shell.row.text
        shell.answer(line)
    assert console.capsys.readouterr().out.endswith(f"{answer}\n")
    assert len(shell.session.chat.messages) == 4


def test_score_rates_the_answer_in_its_conversation(console, start):
    shell = start()
    shell.answer("the cat")
    scored = shell.session.score_row(shell.row)
    assert scored["ids"] == shell.row.sequence.new_ids and len(scored["logprobs"]) == 9
    other = start().session  # the same answer, given as text
    again = other.score("the cat", shell.row.text)
    assert again["ids"] == scored["ids"] and again["total"] == pytest.approx(scored["total"])
    assert other.score(f"the cat => {shell.row.text}") == again
    with pytest.raises(UserError, match="needs --target"):
        other.score("the cat")


def test_models_that_cannot_chat_are_refused(console, letters):
    for model in letters, "stories":
        err = console.refused(1, "a", "--chat", model=model)
        assert "such as HuggingFaceTB/SmolLM2-135M-Instruct" in err
    bart = HOUSE / "tests" / "fixtures" / "seq2seq" / "bart"
    assert "--chat needs a decoder" in console.refused(1, "a", "--chat", model=bart)
    shell = Shell(Session(options.parse(["--interactive", "--model", str(letters)])))
    shell.answer("/chat")
    assert "no chat template" in console.capsys.readouterr().err
    shell.answer("a")  # the session goes on without a chat
    assert console.capsys.readouterr().out.startswith("a")
