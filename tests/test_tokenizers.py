"""loading/tokenizer_json.py and loading/pieces.py: the library's own ids and texts for each dialect
of tokenizer.json; files that are damaged, or ask for what is not known.

The fixtures are small files of each dialect. To check published tokenizers too, name a folder of
them in the environment variable TOKENWISE_MODERN_FILES: each of its folders holds tokenizer.json,
the vectors.json and decode.json that the library makes of it, and perhaps tokenizer.model.
"""

import copy
import json
import math
import os
import re
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import score
import utils
from encoder import MARKS
from loading.errors import UserError
from loading.tokenizers import read_tokenizer
from server import Server
from tests.commands import HOUSE, write_letters
from tests.tiny import FunctionModel

FIXTURES = HOUSE / "tests" / "fixtures"
FOUND = {path.stem: json.loads(path.read_text()) for path in (FIXTURES / "tokenizers").iterdir()}
FILES = os.environ.get("TOKENWISE_MODERN_FILES")
PUBLISHED = "gpt-neox", "qwen2.5", "qwen3", "smollm2", "tinyllama"
BYTES, PIECES = "llama3", "llama2"  # a fixture of each kind


def write(folder, file):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def read(tmp_path_factory):
    """A function: the name of a fixture -> its tokenizer."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return lambda name: read_tokenizer(write(folder / name, FOUND[name]["tokenizer"]))


@pytest.fixture(scope="module", params=PUBLISHED)
def published(request):
    """A published tokenizer, and the folder with its vectors."""
    if not FILES:
        pytest.skip("NOT RUN: published tokenizers, see the beginning of test_tokenizers.py")
    folder = Path(FILES, request.param)
    return read_tokenizer(folder), folder


def streamed(tokenizer, ids):
    stream = tokenizer.stream()
    return "".join([*map(stream.feed, ids), stream.finish()])


# --- the library's ids and texts ------------------------------------------------------------------


def check_ids(tokenizer, vectors):
    end = next(text for text in ("</s>", "<|end|>", "<|endoftext|>") if text in tokenizer.special)
    for vector in vectors:
        text, ids = vector["text"], vector["ids_with_special"]
        assert tokenizer.encode(text, special=True) == ids
        rest = tokenizer.encode(text, special=True, first=False)  # as after another text
        after = tokenizer.encode(end + text, special=True)
        assert after == [*tokenizer.start, tokenizer.special[end], *rest]


def check_texts(tokenizer, vectors):
    """Whole and streamed. The library shows MARKS and BOS; here they are not part of a text."""
    silent = {text: id for text, id in tokenizer.special.items()
              if text in MARKS or id in tokenizer.start}  # fmt: skip
    strips = getattr(tokenizer, "strips", False)
    for vector in vectors:
        ids, expected = vector["ids"], vector["decoded"]
        for text in silent:
            expected = expected.replace(text, "")
        if strips and ids[:1] and ids[0] in silent.values():
            expected = expected.removeprefix(" ")
        ids = [*tokenizer.start, *ids]
        assert tokenizer.decode(ids) == streamed(tokenizer, ids) == expected


@pytest.mark.parametrize("name", FOUND)
def test_ids_are_those_of_the_library(read, name):
    check_ids(read(name), FOUND[name]["texts"])


@pytest.mark.parametrize("name", FOUND)
def test_texts_are_those_of_the_library(read, name):
    check_texts(read(name), FOUND[name]["texts"] + FOUND[name]["ids"])


def test_published_tokenizers(published):
    tokenizer, folder = published
    check_ids(tokenizer, json.loads((folder / "vectors.json").read_text()))
    check_texts(tokenizer, json.loads((folder / "vectors.json").read_text()))
    if (folder / "decode.json").exists():
        check_texts(tokenizer, json.loads((folder / "decode.json").read_text()))


def test_a_sentencepiece_model_gives_the_same(tmp_path):
    """tokenizer.model, by its library, and tokenizer.json."""
    if not FILES:
        pytest.skip("NOT RUN: tokenizer.model, see the beginning of test_tokenizers.py")
    folder = Path(FILES, "tinyllama")
    shutil.copy(folder / "tokenizer.model", tmp_path)
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.special == {"<unk>": 0, "<s>": 1, "</s>": 2} and tokenizer.start == [1]
    check_ids(tokenizer, json.loads((folder / "vectors.json").read_text()))
    check_texts(tokenizer, json.loads((folder / "decode.json").read_text()))
    (tmp_path / "added_tokens.json").write_text('{"<|end|>": 32000}')
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.encode("a<|end|>", special=True) == [*tokenizer.encode("a"), 32000]


# --- what the models and the terminal rely on -----------------------------------------------------


@pytest.mark.parametrize("name", ["llama3", "qwen", "llama2", "gemma"])
@given(text=st.text())
def test_any_text_comes_back(read, name, text):
    """In its normal form; \u2581 stands for a space in pieces."""
    tokenizer = read(name)
    ids = tokenizer.encode(text)
    if name == "qwen":
        text = unicodedata.normalize("NFC", text)
    elif name in ("llama2", "gemma"):
        text = text.replace("\u2581", " ")
    assert tokenizer.decode(ids) == streamed(tokenizer, ids) == text
    assert tokenizer.start == ids[: len(tokenizer.start)]
    assert not {*tokenizer.special.values()} & {*ids[len(tokenizer.start) :]}


def test_bos_is_added_once_and_only_where_a_text_begins(read):
    for name, bos in (BYTES, "<|begin|>"), (PIECES, "<s>"):
        tokenizer = read(name)
        assert tokenizer.encode("") == tokenizer.start == [tokenizer.special[bos]]
        assert tokenizer.encode("", first=False) == []
        assert tokenizer.encode("the cat") == [
            *tokenizer.start,
            *tokenizer.encode("the cat", first=False),
        ]
        assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"


def test_a_text_may_be_decoded_in_parts(read):
    """The space that encode puts before a text is left out there, and only there."""
    tokenizer = read(PIECES)
    ids = tokenizer.encode("the cat sat")
    assert tokenizer.decode(ids[:2]) == "the " and tokenizer.decode(ids[1:2]) == " the "
    for i in range(2, len(ids)):
        assert tokenizer.decode(ids[:i]) + tokenizer.decode(ids[i:]) == "the cat sat"


@pytest.mark.parametrize("name", [BYTES, PIECES])
def test_the_score_begins_after_bos(read, name):
    tokenizer = read(name)
    [bos], ids = tokenizer.start, tokenizer.encode("the cat sat", first=False)
    path = [bos, *ids]

    def logits(so_far):  # [n_vocab]: P of the right token is n / (n + 1) after n tokens
        right = np.arange(tokenizer.n_vocab) == path[len(so_far)]
        assert list(so_far) == path[: len(so_far)]
        others = 1 / (tokenizer.n_vocab - 1)
        return np.log(np.where(right, len(so_far), others).astype(np.float32))

    model = FunctionModel(logits, tokenizer.n_vocab)
    model.has_source = False
    found = score.score(tokenizer, model, "the cat sat")
    assert found["ids"] == ids
    assert np.exp(found["logprobs"]) == pytest.approx([n / (n + 1) for n in range(1, len(path))])
    assert found["bits_per_byte"] == pytest.approx(math.log2(len(path)) / 11)


# --- GPT-2 and BART with tokenizer.json only ------------------------------------------------------


def only_json(folder, **flags):
    """Replace vocab.json and merges.txt by what transformers 5 saves in their place."""
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = (folder / "merges.txt").read_text().splitlines()[1:]
    special = [token for token in vocab if token.startswith("<") and len(token) > 1]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    file = {
        "model": {"type": "BPE", "vocab": vocab, "merges": [pair.split(" ") for pair in merges]},
        "added_tokens": [plain | {"content": token, "id": vocab[token], "special": True,
                                  "lstrip": token == "<mask>"} for token in special],
        "pre_tokenizer": by_bytes, "decoder": by_bytes,
        "post_processor": roberta if "<mask>" in vocab else by_bytes,
    }  # fmt: skip
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    return write(folder, file)


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_a_folder_saved_by_transformers_5(console, tmp_path, name):
    pair = write_letters(tmp_path / "pair")
    if name == "bart":
        pair = shutil.copytree(FIXTURES / "seq2seq" / "bart", tmp_path / "bart")
    saved = only_json(shutil.copytree(pair, tmp_path / "saved"))
    words = "the cat", "a <mask> b</s>", "--tokens", 12
    keys = "text", "prompt_ids", "ids", "stop_reason"
    rows = [[[row[key] for key in keys] for row in console.json(*words, model=folder)]
            for folder in (pair, saved)]  # fmt: skip
    assert rows[0] == rows[1]
    assert utils.load(pair)[0].special == utils.load(saved)[0].special


@pytest.mark.parametrize("has_json", [True, False])
def test_a_hub_that_has_only_tokenizer_json(monkeypatch, tmp_path, has_json):
    made = only_json(write_letters(tmp_path / "made"))
    names = [path.name for path in made.iterdir() if has_json or path.name != "tokenizer.json"]
    files = {f"/o/n/resolve/main/{name}": (made / name).read_bytes() for name in names}
    with Server(files) as server:
        monkeypatch.setenv("TOKENWISE_HUB", server.url)
        if has_json:
            tokenizer, _ = utils.load("o/n", tmp_path / "models")
            assert tokenizer.encode("the cat") == utils.load(made)[0].encode("the cat")
        else:
            with pytest.raises(UserError, match="no tokenizer that can be read, vocab.json merges"):
                utils.load("o/n", tmp_path / "models")


# --- damaged files, and what is not known ---------------------------------------------------------

UNKNOWN = [  # (the place in the file, what it is changed to, what the message names)
    (["model", "type"], "Unigram", "model is 'Unigram'"),
    (["model", "type"], "WordPiece", "model is 'WordPiece'"),
    (["model", "dropout"], 0.1, "BPE has dropout = 0.1"),
    (["model", "continuing_subword_prefix"], "##", "continuing_subword_prefix = '##'"),
    (["model", "end_of_word_suffix"], "</w>", "end_of_word_suffix = '</w>'"),
    (["model", "new_in_2030"], True, "new_in_2030 = True"),
    (["normalizer"], {"type": "Lowercase"}, "normalizer is 'Lowercase', known are NFC"),
    (["normalizer"], {"type": "Prepend", "prepend": "x"}, "Prepend has prepend = 'x'"),
    (["normalizer"], {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}, "'NFKC'"),
    (
        ["normalizer"],
        {"type": "Replace", "pattern": {"Regex": " "}, "content": "\u2581"},
        "pattern",
    ),
    (["pre_tokenizer"], {"type": "Whitespace"}, "pre_tokenizer is 'Whitespace'"),
    (["pre_tokenizer"], {"type": "ByteLevel", "add_prefix_space": True}, "add_prefix_space = True"),
    (
        ["pre_tokenizer"],
        {"type": "Digits", "individual_digits": False},
        "individual_digits = False",
    ),
    (
        ["pre_tokenizer"],
        {"type": "Digits", "individual_digits": True},
        "does not end with ByteLevel",
    ),
    (["pre_tokenizer"], None, "pre_tokenizer"),
    (["pre_tokenizer", "pretokenizers", 0, "behavior"], "Contiguous", "Contiguous"),
    (["pre_tokenizer", "pretokenizers", 0, "invert"], True, "'invert': True"),
    (["pre_tokenizer", "pretokenizers", 0, "pattern"], {"Regex": "("}, "'Regex': '('"),
    (["pre_tokenizer", "pretokenizers", 0, "pattern"], {"Regex": "(a)|b"}, "'Regex': '(a)|b'"),
    (["pre_tokenizer", "pretokenizers", 0, "pattern"], {"Regex": r"\h"}, r"{'Regex': '\\h'}"),
    (["pre_tokenizer", "pretokenizers", 0, "pattern"], {"Regex": "[a-z&&[^t]]"}, "&&[^t]]'"),
    (["pre_tokenizer", "pretokenizers", 0, "behavior"], "long " * 999, "'long long"),
    (["post_processor", "processors", 1, "single"], [], "makes [] of a text"),
    (["post_processor", "processors", 1, "single"], [{"Sequence": {"id": "A"}}] * 2, "makes [{"),
    (["post_processor"], {"type": "RobertaProcessing", "sep": ["<|end|>", 1]}, "RobertaProcessing"),
    (["decoder"], {"type": "WordPiece"}, "decoder is 'WordPiece'"),
    (["decoder"], None, "neither bytes as symbols nor byte_fallback"),
    (["added_tokens", 0, "single_word"], True, "'<|end|>' is single_word"),
]


def changed(file, place, value):
    """A copy of a file with another value at a place."""
    file = copy.deepcopy(file)
    part = file
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return file


@pytest.mark.parametrize("place, value, words", UNKNOWN)
def test_what_is_not_known_is_refused_by_name(tmp_path, place, value, words, name=BYTES):
    folder = write(tmp_path, changed(FOUND[name]["tokenizer"], place, value))
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        read_tokenizer(folder)
    assert "\n" not in str(caught.value) and "tokenizer.json" in str(caught.value)
    assert len(str(caught.value)) < 500


UNKNOWN_PIECES = [
    (["pre_tokenizer"], {"type": "Metaspace", "replacement": "_"}, "replacement = '_'"),
    (["pre_tokenizer"], {"type": "Metaspace", "split": True}, "split = True"),
    (["pre_tokenizer"], {"type": "Metaspace", "prepend_scheme": "first"}, "True by default"),
    (["pre_tokenizer"], {"type": "ByteLevel"}, "ByteLevel"),
    (["model", "byte_fallback"], False, "neither bytes as symbols nor byte_fallback"),
    (["decoder", "decoders", 3, "start"], 2, "Strip has start = 2"),
    (["added_tokens", 2, "normalized"], True, "normalizer changes the token '</s>'"),
    (["decoder"], {"type": "ByteLevel"}, "bytes are unk_token"),
    (["post_processor", "single"], [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
     "ends a text with </s>"),
]  # fmt: skip


@pytest.mark.parametrize("place, value, words", UNKNOWN_PIECES)
def test_what_is_not_known_of_pieces(tmp_path, place, value, words):
    test_what_is_not_known_is_refused_by_name(tmp_path, place, value, words, PIECES)


DAMAGED = [
    (["model"], None), (["model"], []), (["model", "vocab"], []), (["model", "vocab"], {}),
    (["model", "vocab", "a"], "1"), (["model", "vocab", "a"], 1.0), (["model", "vocab", "a"], True),
    (["model", "vocab", "a"], 0), (["model", "vocab", "a"], -1), (["model", "vocab", "a"], 10**12),
    (["model", "vocab", ""], 400), (["model", "vocab", "\ud800"], 400),
    (["model", "vocab", "字"], 346), (["model", "merges"], None),
    (["model", "merges"], ["a"]), (["model", "merges"], ["a b c"]), (["model", "merges"], [["a"]]),
    (["model", "merges"], [["a", 1]]), (["model", "merges"], [["a", "字"]]),
    (["model", "merges"], [["q", "q"]]), (["model", "merges"], [7]),
    (["added_tokens"], {}), (["added_tokens"], [1]), (["added_tokens", 0, "id"], "1"),
    (["added_tokens", 0, "id"], None), (["added_tokens", 0, "id"], 999),
    (["added_tokens", 0, "id"], 7), (["added_tokens", 0, "content"], ""),
    (["added_tokens", 0, "lstrip"], 1), (["added_tokens", 1, "content"], "<|end|>"),
    (["added_tokens", 0, "content"], "a"), (["added_tokens", 0, "content"], 1),
    (["added_tokens", 0, "content"], "\udfff"), (["normalizer"], 5), (["pre_tokenizer"], "NFC"),
    (["pre_tokenizer", "pretokenizers"], None), (["pre_tokenizer", "type"], ["Sequence"]),
    (["decoder", "type"], {}), (["post_processor", "processors", 1, "single"], 3),
    (["post_processor", "processors", 1, "special_tokens"], {}),
    (["post_processor", "processors", 1, "special_tokens", "<|begin|>", "ids"], [999]),
    (["post_processor", "processors", 1, "special_tokens", "<|begin|>", "ids"], "ids"),
]  # fmt: skip


@pytest.mark.parametrize("place, value", DAMAGED)
def test_damaged_files(tmp_path, place, value):
    folder = write(tmp_path, changed(FOUND[BYTES]["tokenizer"], place, value))
    with pytest.raises(UserError, match="tokenizer.json") as caught:
        read_tokenizer(folder)
    assert "\n" not in str(caught.value)


def test_added_tokens_whose_ids_are_not_the_vocabulary_s_or_not_in_turn(tmp_path):
    """The library passes over the ids of the file."""
    file = copy.deepcopy(FOUND[PIECES]["tokenizer"])
    for token, other in ("<s>", "</s>"), ("</s>", "<s>"):
        assert file["model"]["vocab"][token] == (id := 1 + (token == "</s>"))
        file["added_tokens"][id] |= {"content": token, "id": file["model"]["vocab"][other]}
    with pytest.raises(UserError, match="the token '<s>' is 2, not 1"):
        read_tokenizer(write(tmp_path, file))
    file["model"]["vocab"]["<s>"] = 2**70  # no character has this number
    with pytest.raises(UserError, match="the token '<s>' is 2, not 1180591620717411303"):
        read_tokenizer(write(tmp_path, file))
    file = copy.deepcopy(FOUND[BYTES]["tokenizer"])
    file["added_tokens"].reverse()
    with pytest.raises(UserError, match=r"the token '<\|begin\|>' is 302, not 301"):
        read_tokenizer(write(tmp_path, file))


def test_an_added_token_that_occurs_twice(tmp_path):
    file = copy.deepcopy(FOUND[BYTES]["tokenizer"])
    file["added_tokens"].append(file["added_tokens"][0] | {"lstrip": True})
    with pytest.raises(UserError, match="an added token occurs twice"):
        read_tokenizer(write(tmp_path, file))


def test_use_regex_is_true_where_it_is_absent(tmp_path, read):
    file = copy.deepcopy(FOUND["gpt2"]["tokenizer"])
    assert file["pre_tokenizer"].pop("use_regex") is True
    vectors = FOUND["gpt2"]["texts"]
    check_ids(read_tokenizer(write(tmp_path, file)), vectors)


def test_anchors_are_those_of_lines(tmp_path):
    """As for the library: a pattern that starts a word at each line's a, and ends one after it."""
    file = changed(FOUND["gaps"]["tokenizer"], ["pre_tokenizer", "pretokenizers", 0, "pattern"],
                   {"Regex": "^a|a$"})  # fmt: skip
    tokenizer = read_tokenizer(write(tmp_path, file))
    assert tokenizer.words("aat\nat\ntaa\nb", True) == ["a", "at\n", "a", "t\nta", "a", "\nb"]


def test_white_space_that_a_token_takes_is_unicode_s(read):
    """Python's strip takes the separators \x1c to \x1f too, the library does not."""
    tokenizer = read("bart")
    mask = tokenizer.special["<mask>"]
    for white in " \n\t\x0b\x85\xa0\u2003\u2028\u3000":
        assert tokenizer.encode(f"a{white * 2}<mask>", special=True)[1:] == [mask]
    for other in "\x1c\x1d\x1e\x1f\u180e\u200b\ufeff":
        ids = tokenizer.encode(f"a{other} <mask>", special=True)
        assert ids == [*tokenizer.encode(f"a{other}"), mask]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"model": 1, "model": 2}', "[" * 100000,
                                  '{"normalizer": ' + '{"type": "Sequence", "normalizers": [' * 900
                                  + "]}" * 900 + "}"])  # fmt: skip
def test_files_that_are_not_a_tokenizer(tmp_path, text):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match="tokenizer.json"):
        read_tokenizer(tmp_path)


def test_a_byte_piece_is_missing(tmp_path):
    file = copy.deepcopy(FOUND[PIECES]["tokenizer"])
    file["model"]["vocab"]["<0xZZ>"] = file["model"]["vocab"].pop("<0xFF>")
    with pytest.raises(UserError, match="byte pieces have no id, such as <0xFF>"):
        read_tokenizer(write(tmp_path, file))


def test_a_huge_added_token(tmp_path):
    file, text = copy.deepcopy(FOUND[BYTES]["tokenizer"]), "long " * 10**5
    file["added_tokens"][0]["content"] = text
    tokenizer = read_tokenizer(write(tmp_path, file))
    end = file["added_tokens"][0]["id"]
    assert tokenizer.encode(f"a{text}a", special=True, first=False)[1:-1] == [end]
    assert tokenizer.decode([end]) == text
