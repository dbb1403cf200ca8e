"""encoder.py computes exactly GPT-2's ids. It encodes any text, decodes any bytes, knows special
tokens and streams text. Damaged files are refused.

Most tests use a small vocabulary. The official ids are tested with only the merges that they need.
To also test them with all merges, put encoder.json and vocab.bpe from
https://openaipublic.blob.core.windows.net/gpt-2/models/124M/ into a folder and set
TOKENWISE_GPT2_FILES to the name of this folder.
"""

import json
import os
import pickle
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

import encoder
from encoder import BYTE_TO_CHAR, Tokenizer
from loading.errors import UserError
from loading.tokenizer import read_gpt2_tokenizer
from tests.support.checkpoints import FIXTURES, write_tokenizer

VECTORS = json.loads((FIXTURES / "gpt2_vectors.json").read_text(encoding="utf-8"))
KNOWN = [
    ("", []),
    ("hello <|endoftext|>", [31373, 1279, 91, 437, 1659, 5239, 91, 29]),
    ("0" * 17, [8269, 10535, 830]),
    (
        "Hello!! I'm Andrej Karpathy. It's 2022. w00t :D 🤗",
        [15496, 3228, 314, 1101, 10948, 73, 509, 5117, 10036, 13, 632, 338, 33160, 13, 266, 405]
        + [83, 1058, 35, 12520, 97, 245],
    ),
    ("don't DON'T", [9099, 470, 23917, 6, 51]),
    ("²½ ٣ Ⅷ", [31185, 23141, 18923, 96, 2343, 227, 100]),
]

TINY_MERGES = [
    *[("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("Ġ", "hello")],
    *[("a", "a"), ("aa", "aa"), ("a", "b"), ("b", "a"), ("ab", "ab"), ("Ã", "©"), ("ð", "Ł")],
]


def build(merges, special=()):
    """Return a tokenizer whose ids are in GPT-2's order: bytes, merges, special tokens."""
    tokens = [*BYTE_TO_CHAR.values(), *("".join(pair) for pair in merges), *special]
    return Tokenizer({token: id for id, token in enumerate(dict.fromkeys(tokens))}, merges)


TINY = build(TINY_MERGES, ["<|endoftext|>"])


@pytest.mark.parametrize("text, ids", [*KNOWN, *VECTORS["pairs"]])
def test_ids_equal_gpt2_s(text, ids):
    """The tokenizer has only the merges that the tested texts need. The other merges would change
    nothing, because none is ever the best merge in these texts."""
    merges = [tuple(pair.split(" ")) for pair in VECTORS["merges"]]
    tokens = [*sorted(BYTE_TO_CHAR.values()), *map("".join, merges)]  # as in GPT-2, by character
    few = Tokenizer({token: id for id, token in enumerate(tokens)}, merges)
    official = [*range(256), *(256 + rank for rank in VECTORS["merges"].values())]
    found = few.encode(text)
    assert [official[id] for id in found] == ids
    assert few.decode(found) == text


OFFICIAL = os.environ.get("TOKENWISE_GPT2_FILES")


@pytest.mark.skipif(not OFFICIAL, reason="NOT RUN: all merges, see the beginning of this file")
def test_ids_equal_gpt2_s_with_the_official_files(tmp_path):
    shutil.copy(f"{OFFICIAL}/encoder.json", tmp_path / "vocab.json")
    shutil.copy(f"{OFFICIAL}/vocab.bpe", tmp_path / "merges.txt")
    tokenizer = read_gpt2_tokenizer(tmp_path)
    assert (tokenizer.n_vocab, tokenizer.special) == (50257, {"<|endoftext|>": 50256})
    for text, ids in [*KNOWN, *VECTORS["pairs"]]:
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == text


def test_text_is_split_into_words():
    words = ["It", "'s", " we", "'ll", " I", "'", "LL", "\n\n", " naïve", "_", "é", " ²½", "ª"]
    words += ["\x1c", "b", "\x00", " ", " c", "  "]  # in GPT-2's pattern, \x1c is not a space
    assert encoder.gpt2_words("".join(words)) == words


def test_merges_are_learnt_by_count_and_then_in_the_order_of_the_text():
    found = encoder.learn({"ba": 1, "ab": 1, "aaa": 1, "cd": 2}, 9)  # until no pair is left
    assert ["+".join(pair) for pair in found] == ["a+a", "c+d", "b+a", "a+b", "aa+a"]


def test_a_learnt_tokenizer_has_the_bytes_and_then_each_merged_token_once():
    tokenizer = encoder.learn_tokenizer("aaa aaa aaa", 9)
    assert tokenizer.tokens[:256] == sorted(BYTE_TO_CHAR.values())
    assert tokenizer.tokens[256:] == ["aa", "aaa", "Ġaaa"]


def test_a_long_word_is_encoded():
    word = "hellobaah" * 6000
    assert TINY.decode(TINY.encode(word)) == word


@given(st.lists(st.text()), st.sampled_from(["\ud800", "\udbff", "\udc00", "\udfff"]))
def test_lone_surrogates_become_replacement_characters(parts, surrogate):
    assert TINY.decode(TINY.encode(surrogate.join(parts))) == "\ufffd".join(parts)
    assert pickle.loads(pickle.dumps(TINY)).decode(TINY.encode("\ud83e\udd17")) == "🤗"


def streamed(tokenizer, ids):
    stream = tokenizer.stream()
    return [*(stream.feed(id) for id in ids), stream.finish()]


@given(st.lists(st.integers(0, TINY.n_vocab - 1)))
def test_a_stream_of_any_ids_equals_decode(ids):
    assert "".join(streamed(TINY, ids)) == TINY.decode(ids)


def test_a_stream_shows_a_character_with_its_last_byte():
    ids = TINY.encode("é🤗!")  # 🤗 is three tokens: one of two bytes, and two of one byte
    assert streamed(TINY, ids) == ["é", "", "", "🤗", "!", ""]
    assert streamed(TINY, ids[:3]) == ["é", "", "", "\ufffd"]


@pytest.mark.parametrize("id", [-1, TINY.n_vocab])
def test_an_unknown_id_is_an_error(id):
    message = f"no token {id} in a vocabulary of {TINY.n_vocab} tokens"
    with pytest.raises(ValueError, match=message):
        TINY.decode([0, id])
    with pytest.raises(ValueError, match=message):
        TINY.stream().feed(id)


def test_special_tokens_are_plain_text_by_default():
    text = "hello<|endoftext|> hello"
    end = TINY.end_of_text
    assert end == TINY.vocab["<|endoftext|>"] == TINY.n_vocab - 1
    assert end not in TINY.encode(text) and end not in TINY.encode("<|endoftext|>")
    hello, space_hello = TINY.encode("hello"), TINY.encode(" hello")
    assert TINY.encode(text, special=True) == [*hello, end, *space_hello]
    assert TINY.encode("<|endoftext|>" * 2, special=True) == [end, end]
    assert TINY.decode(TINY.encode(text)) == TINY.decode(TINY.encode(text, special=True)) == text


def test_the_longest_special_token_wins():
    tokenizer = build([], ["<a>", "<a>>", "[.*]", "<é>"])
    ids = tokenizer.encode("<a>><a>[.*]<é>", special=True)
    assert ids == [tokenizer.special[text] for text in ("<a>>", "<a>", "[.*]", "<é>")]
    assert tokenizer.decode(ids) == "<a>><a>[.*]<é>"


ADDED = {"content": "<Ġ>", "special": True, "lstrip": False, "rstrip": False, "single_word": False}


@pytest.mark.parametrize(
    "file, content",
    [
        ("added_tokens.json", {"<Ġ>": TINY.n_vocab}),
        ("tokenizer_config.json", {"added_tokens_decoder": {TINY.n_vocab: ADDED}}),
    ],
)
def test_added_tokens_follow_the_vocabulary(tmp_path, file, content):
    write_tokenizer(tmp_path, TINY.vocab, TINY.merges)
    (tmp_path / file).write_text(json.dumps(content))
    read = read_gpt2_tokenizer(tmp_path)
    assert read.n_vocab == TINY.n_vocab + 1
    ids = read.encode("<Ġ>hello", special=True)
    assert ids == [TINY.n_vocab, TINY.vocab["hello"]]
    assert read.decode(ids) == "<Ġ>hello"
    for text in ('{"a new one": 10000}', '["hello"]', "nonsense"):
        (tmp_path / "added_tokens.json").write_text(text)
        with pytest.raises((ValueError, UserError)):
            read_gpt2_tokenizer(tmp_path)


@pytest.mark.parametrize("key", ["add_prefix_space", "add_bos_token", "lstrip", "special"])
def test_settings_for_which_the_two_files_have_no_place_are_refused(tmp_path, key):
    write_tokenizer(tmp_path, TINY.vocab, TINY.merges)
    added = ADDED | {key: not ADDED.get(key)}
    settings = {key: True, "added_tokens_decoder": {TINY.n_vocab: added}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    name = key if key.startswith("add") else "<Ġ>"
    with pytest.raises(UserError, match=f"'{name}' needs tokenizer.json; transformers writes it"):
        read_gpt2_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "name, damage, words",
    [
        ("vocab.json", lambda text: text[:-9], "vocab.json is damaged"),
        ("vocab.json", lambda text: text.replace(": 7,", ": 8,"), "ids are not 0 to"),
        ("vocab.json", lambda text: text.replace('"hell"', '"hall"'), "no id, such as 'hell'"),
        ("merges.txt", lambda text: text[: text.index("\nĠ hello")], "makes 'Ġhello'"),
        ("merges.txt", lambda text: text.replace("he ll\n", "hel l\n"), "such as 'hel'"),
        ("merges.txt", lambda text: text.replace("h e\n", "he\n"), r"\('he',\) is not a pair"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, damage, words):
    write_tokenizer(tmp_path, TINY.vocab, TINY.merges)
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert damage(text) != text
    (tmp_path / name).write_text(damage(text), encoding="utf-8")
    with pytest.raises((ValueError, UserError), match=words):
        read_gpt2_tokenizer(tmp_path)
