"""For each dialect of tokenizer.json, loading/tokenizer.py returns the same ids and texts as the
library `tokenizers`. It streams text and refuses damaged files. GPT-2's two files are tested in
tests/centre/test_encoder.py. The fixtures are small files in each dialect. TOKENWISE_MODERN_FILES
may be a folder of published tokenizers, NAME/tokenizer.json, with the library's results beside."""

import copy
import hashlib
import json
import os
from pathlib import Path

import pytest

import encoder
from loading.errors import UserError
from loading.tokenizer import MARKS, read_tokenizer
from tests.fixtures.make_tokenizers import STRIP, metaspace, sequence
from tests.support.checkpoints import FIXTURES, FOLDERS, ROOT, write_tokenizer

FOUND = {path.stem: json.loads(path.read_text()) for path in (FIXTURES / "tokenizers").iterdir()}
PUBLISHED = "gpt-neox", "qwen2.5", "qwen3", "smollm2", "tinyllama"
BYTES, PIECES = "llama3", "llama2"  # fixtures: byte-level tokens, and pieces of text
MODELS = {name: read_tokenizer(FOLDERS[name], name[:5]) for name in ("t5", "bart", "mbart")}


def write(folder, file):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def read(tmp_path_factory):
    """Return a function that reads a fixture's tokenizer, given the fixture's name."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return lambda name: read_tokenizer(write(folder / name, FOUND[name]["tokenizer"]), "llama")


def streamed(tokenizer, ids):
    stream = tokenizer.stream()
    return "".join([*map(stream.feed, ids), stream.finish()])


@pytest.mark.parametrize("name", [*FOUND, *PUBLISHED])
def test_ids_and_texts_equal_the_library_s(read, name):
    if name in FOUND:
        tokenizer, texts, ids = read(name), FOUND[name]["texts"], FOUND[name]["ids"]
    elif files := os.environ.get("TOKENWISE_MODERN_FILES"):
        tokenizer = read_tokenizer(Path(files, name), "llama")
        found = {p.stem: json.loads(p.read_text()) for p in Path(files, name).glob("*.json")}
        texts, ids = found["vectors"], found.get("decode", [])
    else:
        pytest.skip("NOT RUN: published tokenizers, see the beginning of test_tokenizers.py")
    for vector in texts:
        assert tokenizer.encode(vector["text"], special=True) == vector["ids_with_special"]
        assert tokenizer.plain_ids(vector["text"], special=True) == vector["ids"]
    silent = {*tokenizer.start, *(id for t, id in tokenizer.special.items() if MARKS.fullmatch(t))}
    for vector in texts + ids:
        whole, expected = [*tokenizer.start, *vector["ids"]], vector["decoded"]
        if silent & {*vector["ids"]}:  # the library decodes them, too
            shown = [id for id in vector["ids"] if id not in silent]
            expected = tokenizer.library.decode(shown, skip_special_tokens=False)
        assert tokenizer.decode(whole) == streamed(tokenizer, whole) == expected


def test_en_de_has_the_ids_that_it_was_trained_on():
    """The library `sentencepiece` encodes the held-out sentences as ids with the same digest."""
    tokenizer = read_tokenizer(ROOT / "models" / "en-de", "t5")
    lines = (ROOT / "models" / "en-de" / "held_out.tsv").read_text(encoding="utf-8").splitlines()
    ids = [tokenizer.plain_ids(text) for line in lines for text in line.split("\t")]
    digest = "36f1351abbbf8ad63b5ff5795edd0e8569d71d36f68154c7d72ecff468e58337"
    assert hashlib.sha256(json.dumps(ids).encode()).hexdigest() == digest


@pytest.mark.parametrize("name", ["qwen", "llama2", "t5"])
def test_a_lone_surrogate_becomes_a_replacement_character(read, name):
    tokenizer = MODELS.get(name) or read(name)
    assert tokenizer.encode("a\ud83d the") == tokenizer.encode("a\ufffd the")


# --- encoding and decoding ------------------------------------------------------------------------


def test_a_stream_decodes_few_ids_again(read, monkeypatch):
    """The time to stream a text must be proportional to its length."""
    tokenizer, lengths = read(PIECES), []
    decode = tokenizer.decode
    monkeypatch.setattr(tokenizer, "decode", lambda ids: lengths.append(len(ids)) or decode(ids))
    streamed(tokenizer, tokenizer.encode("the cat sat on the mat " * 50))
    assert max(lengths) <= 3


BY_BYTE, STRIPS = (FOUND[name]["tokenizer"]["decoder"] for name in (BYTES, PIECES))
FORMS = [(BYTES, BY_BYTE), (BYTES, sequence("decoders", BY_BYTE)), (BYTES, None), (PIECES, STRIPS)]
FORMS += [(PIECES, decoder) for decoder in (metaspace("first"), metaspace("never"), None)]


@pytest.mark.parametrize("no_start", [{}, {"post_processor": None}])
@pytest.mark.parametrize("name, decoder", FORMS)
def test_a_token_has_the_library_s_text_everywhere(tmp_path, name, decoder, no_start):
    """At the beginning of a text and after its first n ids, which are the prompt."""
    file = FOUND[name]["tokenizer"] | {"decoder": decoder} | no_start
    file = json.loads(json.dumps(file).replace("\\u2581", "_"))  # any character may be the space
    tokenizer = read_tokenizer(write(tmp_path, file), "llama")
    start, ids = tokenizer.start, tokenizer.plain_ids("the ☃ cat")
    text = tokenizer.library.decode(ids)
    assert tokenizer.decode(start + ids) == streamed(tokenizer, start + ids) == text
    assert not any(map(tokenizer.token_bytes, start))
    known = [tokenizer.library.decode(ids[:n]) for n in range(len(ids))]
    for n in (n for n in range(bool(no_start), len(ids)) if not known[n].endswith("\ufffd")):
        stream, rest = tokenizer.stream(), text[len(known[n]) :]
        before = "".join(map(stream.feed, start + ids[:n]))
        n_known = len(before + stream.finish())
        whole = before + "".join(map(stream.feed, ids[n:])) + stream.finish()
        assert whole[n_known:] == rest
        assert n == 0 or b"".join(map(tokenizer.token_bytes, ids[n:])).decode() == rest


WORDS, STOPS = {"type": "WordPiece", "prefix": "##", "cleanup": True}, STRIP | {"stop": 1}


@pytest.mark.parametrize("step", [WORDS, STOPS])
def test_other_decoders_are_refused_by_name(tmp_path, step):
    for decoder in (step, sequence("decoders", step)):
        file = FOUND[PIECES]["tokenizer"] | {"decoder": decoder}
        with pytest.raises(UserError, match=f"decoder .*{step['type']}.*; use another model"):
            read_tokenizer(write(tmp_path, file), "llama")


@pytest.mark.parametrize("id", [-1, 10**6])
def test_an_unknown_id_is_an_error_that_names_it(read, id):
    for tokenizer in (read(BYTES), read(PIECES)):
        with pytest.raises(ValueError, match=f"no token {id} in a vocabulary of"):
            tokenizer.decode([id])


# --- special tokens -------------------------------------------------------------------------------


SENTINELS = "the <extra_id_0> sat <extra_id_1> on"
PARSED = [  # (model, source, the tokens that transformers 5.23 returns)
    ("t5", SENTINELS, "▁th e <extra_id_0> ▁ s at <extra_id_1> ▁o n </s>"),
    ("t5", "a</s>b", "▁ a </s> ▁b </s>"),
    ("t5", "<pad>the <unk> cat ", "<pad> ▁th e <unk> ▁ c at </s>"),
    ("mbart", "the cat <mask> on", "▁th e ▁ c at <mask> ▁o n </s> en_XX"),
    ("mbart", "<pad>the <unk> cat", "<pad> ▁th e <unk> ▁ c at </s> en_XX"),
    ("mbart", "en_XX the cat", "en_XX ▁th e ▁ c at </s> en_XX"),
    ("bart", "a</s>b <s> c", "<s> a </s> b Ġ <s> Ġ c </s>"),
    ("bart", "a <mask> b", "<s> a <mask> Ġ b </s>"),  # <mask> removes the space before it
]


@pytest.mark.parametrize("name, text, tokens", PARSED)
def test_special_tokens_are_found_in_a_source_as_transformers_finds_them(name, text, tokens):
    tokenizer = MODELS[name]
    assert [tokenizer.tokens[id] for id in tokenizer.encode(text)] == tokens.split(" ")


@pytest.mark.parametrize("name", MODELS)
def test_special_tokens_in_an_answer_are_not_text(name):
    tokenizer = MODELS[name]
    special = tokenizer.special
    marks = [special[mark] for mark in ("<s>", "<pad>", "</s>", "en_XX") if mark in special]
    between = [token for pair in zip(tokenizer.encode("the cat"), marks * 9) for token in pair]
    assert tokenizer.decode(marks) == ""
    assert tokenizer.decode(between) == streamed(tokenizer, between) == "the cat"


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("text", ["<č>", "[日本]", "<0x41>"])
def test_a_token_that_only_tokenizer_config_lists_is_decoded_to_itself(tmp_path, text, special):
    """Most of these texts are in GPT-2's byte alphabet."""
    n = read_tokenizer(write(tmp_path, FOUND[BYTES]["tokenizer"]), "llama").n_vocab
    settings = {"added_tokens_decoder": {n: {"content": text, "special": special}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = read_tokenizer(tmp_path, "llama")
    ids = tokenizer.encode(f"a{text}b", special=True)
    assert tokenizer.decode(ids) == streamed(tokenizer, ids) == f"a{text}b"
    assert n in ids and tokenizer.token_bytes(n) == text.encode()
    assert (n in tokenizer.encode(f"a{text}b")) == (text not in tokenizer.special) != special
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings).replace(str(n), "999"))
    with pytest.raises(ValueError, match="the added token .* cannot have the id 999"):
        read_tokenizer(tmp_path, "llama")


def test_an_end_token_that_a_file_adds_is_left_out(tmp_path):
    """Otherwise, every prompt would end with this token. A source does end with it."""
    file = copy.deepcopy(FOUND[PIECES]["tokenizer"])
    template = file["post_processor"]
    template["single"].append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    template["special_tokens"]["</s>"] = {"id": "</s>", "ids": [2], "tokens": ["</s>"]}
    tokenizer = read_tokenizer(write(tmp_path, file), "llama")
    assert tokenizer.start == [1] and 2 not in tokenizer.encode("the cat")
    reader = read_tokenizer(tmp_path, "t5")
    assert reader.encode("the cat") == [*tokenizer.encode("the cat"), 2]


# --- tokenizer files, and GPT-2's two -------------------------------------------------------------


def test_truncation_and_padding_in_a_file_are_ignored(tmp_path):
    write(tmp_path, FOUND[BYTES]["tokenizer"])
    plain = read_tokenizer(tmp_path, "llama")
    library = copy.deepcopy(plain.library)
    library.enable_truncation(2)
    library.enable_padding(length=99)
    library.save(str(tmp_path / "tokenizer.json"))
    limited = read_tokenizer(tmp_path, "llama")
    assert limited.encode("the cat sat") == plain.encode("the cat sat")


def test_add_prefix_space_counts_for_the_classes_that_obey_it(tmp_path):
    write(tmp_path, FOUND["gpt2"]["tokenizer"])
    with_space = read_tokenizer(tmp_path, "gpt2").encode(" the")
    for kind, obeys in (None, True), ("GPT2Tokenizer", True), ("PreTrainedTokenizerFast", False):
        settings = {"add_prefix_space": True, "tokenizer_class": kind}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        assert (read_tokenizer(tmp_path, "gpt2").encode("the") == with_space) == obeys


def test_a_text_that_the_library_cannot_encode_is_one_line(tmp_path):
    panic = {"type": "Replace", "pattern": {"String": ""}, "content": "x"}
    file = FOUND["gpt2"]["tokenizer"] | {"added_tokens": [], "normalizer": panic}
    tokenizer = read_tokenizer(write(tmp_path, file), "llama")
    with pytest.raises(UserError, match="tokenizer.json cannot encode it: .*; try another"):
        tokenizer.encode("the")


LOST = json.dumps(FOUND[PIECES]["tokenizer"]).replace('tokens": {"<s>"', 'tokens": {"<t>"')


@pytest.mark.parametrize("text", ["{", '{"model": {"type": "Nonsense"}}', LOST])
def test_files_that_are_not_a_tokenizer_are_refused(tmp_path, text):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match="tokenizer.json is damaged: .*; fetch or save"):
        read_tokenizer(tmp_path, "t5")


def test_ids_with_gaps_are_refused(tmp_path):
    file = copy.deepcopy(FOUND[BYTES]["tokenizer"])
    file["model"]["vocab"]["the longest of tokens"] = 400
    with pytest.raises(ValueError, match="ids are not 0 to"):
        read_tokenizer(write(tmp_path, file), "llama")


def test_gpt2_s_two_files_are_read_for_gpt2_and_its_tokenizer_class(tmp_path):
    write_tokenizer(tmp_path)
    ids = read_tokenizer(tmp_path, "gpt2").encode("the cat")
    for config in (None, '{"tokenizer_class": "Qwen2Tokenizer"}'):
        if config:
            (tmp_path / "tokenizer_config.json").write_text(config)
        with pytest.raises(UserError, match="has no tokenizer.json; transformers writes it"):
            read_tokenizer(tmp_path, "qwen2")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    assert read_tokenizer(tmp_path, "llama").encode("the cat") == ids


CHANGED = {  # what encoder.py does not do
    "prefix": lambda file: file["pre_tokenizer"].update(add_prefix_space=True),
    "marks": lambda file: file["added_tokens"][0].update(content="<pad>"),
    "whole words": lambda file: file["model"].update(ignore_merges=True),
}


@pytest.mark.parametrize("change", ["nothing", *CHANGED])
def test_encoder_py_reads_gpt2_s_tokenizer_json_if_that_is_the_same(tmp_path, change):
    file = copy.deepcopy(FOUND["gpt2"]["tokenizer"])
    merges = [x if isinstance(x, str) else " ".join(x) for x in file["model"]["merges"]]
    CHANGED.get(change, str)(file)
    vocab = file["model"]["vocab"] | {file["added_tokens"][0]["content"]: 298}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("\n".join(merges), encoding="utf-8")
    write(tmp_path, file)
    tokenizer, library = read_tokenizer(tmp_path, "gpt2"), read_tokenizer(tmp_path, "llama")
    assert isinstance(tokenizer, encoder.Tokenizer) == (change == "nothing")
    assert (tokenizer.tokens, tokenizer.special) == (library.tokens, library.special)
    for text in [vector["text"] for vector in FOUND["gpt2"]["texts"]]:
        for special in False, True:
            assert tokenizer.encode(text, special) == library.encode(text, special)
