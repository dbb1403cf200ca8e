"""terminal/chat.py: each format as its model's own template writes it; special tokens that a user
types; and the cache that is kept from turn to turn.

With TOKENWISE_MODERN_FILES (see test_tokenizers.py), the conversations in chat.json of published
models, as the reference library renders them.
"""

import copy
import itertools
import json
from pathlib import Path

import pytest

from generate import Sequence, generate
from loading.errors import UserError
from loading.tokenizers import read_tokenizer
from terminal.chat import Conversation, KeptCache
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
    for name, run in itertools.groupby(ids, names.get):
        text += name * len(list(run)) if name else tokenizer.decode(run)
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


def turn(model, kept, prompt, n=3):
    """-> the ids of a text of n new tokens, and how many ids each pass took."""
    watched, sequence = Watched(model), Sequence(model, prompt, n)
    assert all(found is sequence for found, _ in kept(watched, [sequence]))
    assert sequence.ids == prompt + list(generate(model, prompt, n))
    return sequence.ids, [shape[1] for shape in watched.shapes]


def test_only_what_is_new_goes_through_the_model():
    model = tiny_gpt2()
    kept = KeptCache(model)
    ids, passed = turn(model, kept, [1, 2, 3, 4])
    assert passed == [4, 1, 1]
    ids, passed = turn(model, kept, [*ids, 5, 6])  # the last new token has not been passed yet
    assert passed == [3, 1, 1]
    _, passed = turn(model, kept, [*ids[:5], 9, 9, 9])  # another turn from there on
    assert passed == [3, 1, 1]
    assert turn(model, kept, [1, 2])[1] == [1, 1, 1]  # the last token's logits are needed
    assert turn(model, kept, [7, 8])[1] == [2, 1, 1]  # another conversation


def test_a_pass_that_is_interrupted_leaves_no_keys():
    model, fails = tiny_gpt2(), []

    class Failing(Watched):
        def __call__(self, ids, cache, last):
            logits = super().__call__(ids, cache, last)
            if fails:
                raise KeyboardInterrupt
            return logits

    kept = KeptCache(model)
    ids, _ = turn(model, kept, [1, 2, 3, 4, 5, 6])
    fails.append(True)
    with pytest.raises(KeyboardInterrupt):
        list(kept(Failing(model), [Sequence(model, [1, 2, 9, 9, 9, 9], 3)]))
    assert turn(model, kept, [*ids, 5])[1] == [len(ids) - 1, 1, 1]
