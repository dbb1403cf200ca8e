"""terminal/chat.py: each format as its model's own template writes it; special tokens that a user
types; and the cache that is kept from turn to turn.

With TOKENWISE_MODERN_FILES (see test_tokenizers.py), the conversations in chat.json of published
models, as the reference library renders them.
"""

import copy
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import utils
from batching import Prefill
from generate import Sequence, generate
from loading.errors import UserError
from loading.tokenizers import read_tokenizer
from terminal import options
from terminal.chat import Conversation, kept
from terminal.session import Session
from terminal.shell import Shell
from tests.commands import HOUSE, write_letters
from tests.test_tokenizers import FILES, FOUND, write
from tests.tiny import Watched, tiny_gpt2

RENDERED = {  # tokens that are added to a fixture, and the text of three turns
    "Qwen 3": ("qwen", ["<|im_start|>", "<|im_end|>", "<tool_call>", "<think>"], """\
<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
 Hi <|im_end|>
<|im_start|>assistant
the cat<|im_end|>
<|im_start|>user
And?<|im_end|>
<|im_start|>assistant
"""),
    "Llama 3": ("llama3", ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], """\
<|start_header_id|>system<|end_header_id|>

Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>

Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>

the cat<|eot_id|><|start_header_id|>user<|end_header_id|>

And?<|eot_id|><|start_header_id|>assistant<|end_header_id|>

"""),
    "Gemma": ("gemma", ["<start_of_turn>", "<end_of_turn>"], """\
<start_of_turn>user
Be brief.

Hi<end_of_turn>
<start_of_turn>model
the cat<end_of_turn>
<start_of_turn>user
And?<end_of_turn>
<start_of_turn>model
"""),
    "Mistral": ("mistral", ["[INST]", "[/INST]"],
                "[INST] Be brief.\n\n Hi [/INST]the cat</s>[INST] And?[/INST]"),
    "TinyLlama": ("llama2", [], """\
<|system|>
Be brief.</s>
<|user|>
 Hi </s>
<|assistant|>
the cat</s>
<|user|>
And?</s>
<|assistant|>
"""),
}  # fmt: skip
DEFAULTS = {  # tokens -> the system text where none is given
    ("<think>", "<tool_call>"): "",
    ("<tool_call>",): "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    ("<empty_output>",): "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    (): "You are a helpful assistant.",
}


@pytest.fixture
def with_tokens(tmp_path):
    """A function: a fixture of test_tokenizers.py and texts of tokens -> it with these tokens."""

    def tokenizer(name, tokens):
        file = copy.deepcopy(FOUND[name]["tokenizer"])
        id = max(*file["model"]["vocab"].values(), *(token["id"] for token in file["added_tokens"]))
        file["added_tokens"] += [
            {"id": id + 1 + i, "content": token, "special": True} for i, token in enumerate(tokens)
        ]
        return read_tokenizer(write(tmp_path, file))

    return tokenizer


def part_ids(tokenizer, text):
    """The ids of a text that comes after others."""
    newline = tokenizer.encode("\n", first=False)
    return tokenizer.encode("\n" + text, first=False)[len(newline) :]


def shown(tokenizer, ids):
    """The text of ids with all their special tokens; a piece after one begins with a space."""
    names = {id: token for token, id in tokenizer.special.items() if id not in tokenizer.start}
    text = ""
    for name, group in itertools.groupby(ids, names.get):
        run = list(group)
        text += name * len(run) if name else tokenizer.decode(run)
    return text


@pytest.mark.parametrize("name", RENDERED)
def test_a_conversation_in_each_format(with_tokens, name):
    fixture, tokens, expected = RENDERED[name]
    tokenizer = with_tokens(fixture, tokens)
    chat = Conversation(tokenizer, "Be brief.")
    first = chat.ask(" Hi ")
    assert first == chat.ask(" Hi ")  # asking changes nothing
    chat.answered(first, part_ids(tokenizer, "the cat"))
    ids = chat.ask("And?")
    assert ids[: len(chat.ids)] == chat.ids and chat.ids[: len(first)] == first
    assert ids[: len(tokenizer.start)] == tokenizer.start
    assert not {*tokenizer.start} & {*ids[len(tokenizer.start) :]}
    if fixture == "llama2":  # it puts a space before each piece
        expected = expected.replace("</s>", "</s> ")
    assert shown(tokenizer, ids) == expected


@pytest.mark.parametrize("tokens, system", DEFAULTS.items())
def test_the_system_text_where_none_is_given(with_tokens, tokens, system):
    tokenizer = with_tokens("qwen", ["<|im_start|>", "<|im_end|>", *tokens])
    begin = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    user = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    assert shown(tokenizer, Conversation(tokenizer).ask("a")) == begin + user
    assert shown(tokenizer, Conversation(tokenizer, "").ask("a")) == user


@pytest.mark.parametrize("name", RENDERED)
def test_special_tokens_that_a_user_types_stay_text(with_tokens, name):
    fixture, tokens, _ = RENDERED[name]
    tokenizer = with_tokens(fixture, tokens)
    plain, typed = (
        Conversation(tokenizer, "").ask(text) for text in ("a", "".join(tokenizer.special))
    )
    special = {*tokenizer.special.values()}
    assert [id for id in plain if id in special] == [id for id in typed if id in special]
    assert "".join(tokenizer.special) in tokenizer.decode(typed)
    system = Conversation(tokenizer, "".join(tokenizer.special)).ask("a")
    assert len(special & {*system}) == len(special & {*plain})


def test_thoughts_are_left_out_of_the_turns_that_follow(with_tokens):
    tokenizer = with_tokens("qwen", ["<|im_start|>", "<|im_end|>", "<think>", "</think>"])
    chat = Conversation(tokenizer)
    ids = chat.ask("a")
    chat.answered(ids, tokenizer.encode("<think>\nab\n</think>\n\nthe cat", special=True))
    assert shown(tokenizer, chat.ids) == shown(tokenizer, ids) + "the cat<|im_end|>"
    thoughts = "<think>\nab, a rat and a bat</think>\nab</think>\n\nthe cat"
    chat.answered(ids, tokenizer.encode(thoughts, special=True))  # after the last mark
    assert shown(tokenizer, chat.ids) == shown(tokenizer, ids) + "the cat<|im_end|>"


def test_no_white_space_around_a_system_text_where_the_format_has_none(with_tokens):
    for name in ("Llama 3", "Gemma"):
        tokenizer = with_tokens(*RENDERED[name][:2])
        plain, spaced = (Conversation(tokenizer, text).ask("a") for text in ("Hi.", " Hi.\n"))
        assert plain == spaced


@pytest.mark.parametrize("name", ["gpt2", "qwen", "llama3"])
def test_a_model_without_a_known_format(with_tokens, name):
    with pytest.raises(UserError, match=r"no <\|im_start\|>") as caught:
        Conversation(with_tokens(name, []))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3", "smollm2", "tinyllama"])
def test_the_conversations_of_published_models(name):
    """But for tools, and for Qwen 3's thoughts switched off or in a conversation's last answer."""
    if not FILES:
        pytest.skip("NOT RUN: published tokenizers, see the beginning of test_tokenizers.py")
    tokenizer = read_tokenizer(Path(FILES, name))
    for vector in json.loads(Path(FILES, name, "chat.json").read_text()):
        if vector.get("template_arguments", {}) not in ({}, {"enable_thinking": True}):
            continue
        expected, messages = [*tokenizer.start, *vector["ids"]], vector["messages"]
        has_system = messages[0]["role"] == "system"
        chat = Conversation(tokenizer, messages[0]["content"] if has_system else None)
        for message in messages[has_system:]:
            if message["role"] == "user":
                ids = chat.ask(message["content"])
            elif name != "qwen3" or message is not messages[-1]:
                chat.answered(ids, part_ids(tokenizer, message["content"]))
                ids = chat.ids
        if "odd contents" in vector["name"]:  # the template makes tokens of what the user typed
            special = {*tokenizer.special.values()}
            assert sum(id in special for id in ids) < sum(id in special for id in expected)
            text = vector["text"].replace(" ", "")
            assert shown(tokenizer, ids).replace(" ", "") == text
        else:
            assert ids == expected[: len(ids)]
            rest = tokenizer.decode(expected[len(ids) :]).strip(" ")
            assert rest == ("" if vector["add_generation_prompt"] else "\n") or name == "qwen3"


# --- the cache ------------------------------------------------------------------------------------


def turn(watched, prefill, prompt, n=3):
    """-> the ids of a text of n new tokens, and how many ids each pass took."""
    watched.shapes, sequence = [], Sequence(watched, prompt, n)
    assert all(found is sequence for found, _ in kept(prefill, watched, [sequence]))
    assert sequence.ids == prompt + list(generate(watched.model, prompt, n))
    return sequence.ids, [shape[1] for shape in watched.shapes]


def test_only_what_is_new_goes_through_the_model():
    model, prefill = Watched(tiny_gpt2()), Prefill()
    ids, passed = turn(model, prefill, [1, 2, 3, 4])
    assert passed == [4, 1, 1]
    ids, passed = turn(model, prefill, [*ids, 5, 6])  # the last new token has not been passed yet
    assert passed == [3, 1, 1]
    _, passed = turn(model, prefill, [*ids[:5], 9, 9, 9])  # another turn from there on
    assert passed == [3, 1, 1]
    assert turn(model, prefill, [1, 2])[1] == [1, 1, 1]  # the last token's logits are needed
    assert turn(model, prefill, [7, 8])[1] == [2, 1, 1]  # another conversation


def test_a_pass_that_is_interrupted_leaves_no_keys():
    fails, prefill = [], Prefill()

    class Failing(Watched):
        def __call__(self, ids, cache, last):
            if fails:
                cache.extend(np.array(ids))  # the lengths grow before the keys are there
                raise KeyboardInterrupt
            return super().__call__(ids, cache, last)

    model = Failing(tiny_gpt2())
    turn(model, prefill, [1, 2, 3, 4, 5, 6])
    fails.append(True)
    with pytest.raises(KeyboardInterrupt):
        turn(model, prefill, [1, 2, 9, 9, 9, 9])
    fails.clear()
    assert turn(model, prefill, [1, 2, 9, 9, 9, 9, 5])[1] == [5, 1, 1]


# --- on the command line --------------------------------------------------------------------------

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that writes letters, with the tokens of ChatML."""
    folder = write_letters(tmp_path_factory.mktemp("models") / "chat", n_vocab=261, n_ctx=160)
    vocab = json.loads((folder / "vocab.json").read_text())
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    model = {"type": "BPE", "vocab": {**vocab}, "merges": ["t h", "th e"]}
    del model["vocab"]["<|endoftext|>"]
    added = [{"id": 258 + i, "content": token, "special": True} for i, token in enumerate(CHATML)]
    return write(folder, {"model": model, "added_tokens": added, "pre_tokenizer": by_bytes,
                          "decoder": by_bytes})  # fmt: skip


@pytest.fixture
def start(folder):
    """A function: words of the command line -> a shell in a conversation with this model."""

    def start(*words):
        words = ["--interactive", "--chat", "--model", str(folder), "-n", "9", *map(str, words)]
        return Shell(Session(options.parser().parse_args(words)))

    return start


ENDING = """
def f(logits, ids):  # <|im_end|> after "ab"
    logits[:] = 0
    logits[260 if ids[-2:] == [64, 65] else 64 + (ids[-1] == 64)] = 99
    return logits
"""


def test_one_prompt_is_one_turn(console, folder, tmp_path):
    tokenizer = read_tokenizer(folder)
    expected = [Conversation(tokenizer).ask(text) for text in ("the cat", "<|im_end|>")]
    rows = console.json("--chat", "the cat", "<|im_end|>", "-n", 9, model=folder)
    assert [row["prompt_ids"] for row in rows] == expected
    assert [row["ids"] for row in rows] == [
        list(generate(utils.load(folder)[1], ids, 9)) for ids in expected
    ]
    assert console.text("--chat", "the cat", "-n", 9, model=folder) == rows[0]["text"] + "\n"
    for method in ("naive", "ngram", "lookup"):
        row = console.json("--chat", "the cat", "-n", 9, "--method", method, model=folder)[0]
        assert row["ids"] == rows[0]["ids"]
    (tmp_path / "ending.py").write_text(ENDING)
    words = "the cat", "--chat", "--filter", f"{tmp_path}/ending.py:f"
    for method in ("cached", "ngram", "beam"):
        row = console.json(*words, "--method", method, model=folder)[0]
        assert (row["text"], row["ids"], row["stop_reason"]) == ("ab", [64, 65], "eos")


def test_turns_are_kept_and_so_is_the_cache(console, start):
    shell = start()
    tokenizer, model = shell.session.tokenizer, shell.session.model
    shell.session.model = watched = Watched(model)
    watched.begin, watched.generation_config = model.begin, {}
    texts = "the cat", "and the rat?", "<|im_start|>"
    for i, text in enumerate(texts):
        expected = shell.session.chat.ask(text)
        answer = list(generate(model, expected, 9))
        before, watched.shapes = len(shell.session.chat.ids), []
        shell.answer(text)
        assert console.capsys.readouterr().out == tokenizer.decode(answer) + "\n"
        assert shell.session.chat.ids == [*expected, *answer, 260]
        n_new = len(expected) - before + 2 * (i > 0)  # the last token of an answer, <|im_end|>
        assert [shape[-1] for shape in watched.shapes] == [n_new] + [1] * 8
    assert shell.session.chat.ids.count(259) == 1 + 2 * len(texts)


def test_system_and_reset(console, start):
    shell = start()
    shell.answer("the cat")
    shell.answer("/system Be brief.")
    assert console.capsys.readouterr().err.startswith("(9 tokens") and shell.session.chat.ids == []
    shell.answer("a")
    tokenizer = shell.session.tokenizer
    assert shown(tokenizer, shell.session.chat.ids).startswith(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
    )
    shell.answer("/system")
    assert shown(tokenizer, shell.session.chat.ask("a")).startswith("<|im_start|>user\na")
    shell.answer("/reset")
    assert shell.session.chat.ask("a") == Conversation(tokenizer).ask("a")
    console.capsys.readouterr()
    plain = Shell(Session(options.parser().parse_args(["--interactive"])))
    plain.answer("/system Be brief.")
    assert console.capsys.readouterr().err.startswith("/system: needs a conversation: ")


def test_a_conversation_that_fills_the_context(console, start):
    shell = start("-n", 30)
    shell.answer("a" * 30)
    shell.answer("b" * 40)
    console.capsys.readouterr()
    ids = shell.session.chat.ids
    shell.answer("c" * 40)
    out, err = console.capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("the conversation has ") and "takes 160: /reset begins another" in err
    assert shell.session.chat.ids == ids  # it goes on with a shorter message
    shell.answer("d" * (160 - len(shell.session.chat.ask(""))))
    assert "(0 tokens; ended by the end of the context" in console.capsys.readouterr().err
    assert shell.session.chat.ids == ids


def test_an_answer_that_is_stopped_is_a_turn(console, start, tmp_path):
    (tmp_path / "stopping.py").write_text(
        "def f(logits, ids):\n    if ids[-2:] == [64, 65]: raise KeyboardInterrupt\n"
        "    logits[64 + (ids[-1] == 64)] = 99\n    return logits\n"
    )
    shell = start("--filter", f"{tmp_path}/stopping.py:f")
    ids = shell.session.chat.ask("the cat")
    shell.answer("the cat")
    assert "(stopped)" in console.capsys.readouterr().out
    assert shell.session.chat.ids == [*ids, 64, 65, 260]


def test_what_cannot_chat(console, letters):
    err = console.refused(1, "a", "--chat")
    assert "such as HuggingFaceTB/SmolLM2-135M-Instruct" in err and "no <|im_start|>" in err
    bart = HOUSE / "tests" / "fixtures" / "seq2seq" / "bart"
    assert "--chat needs a decoder" in console.refused(1, "a", "--chat", model=bart)
    assert "no --chat" in console.refused(2, "a", "--chat", "--score")
