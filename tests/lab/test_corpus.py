"""The programs of training/ read a corpus, learn its tokens, train a model and measure it."""

import gzip

import pytest

import utils
from tests.support.commands import python
from training.corpus import read_documents, without_overlap


@pytest.mark.parametrize("opening", [r"(Chap)?(ter|Part) 1", "^Chapter|^Part", "(?i)(ch|p).+ 1$"])
def test_a_document_begins_at_each_line_that_matches(tmp_path, opening):
    parts = ["Preface", *(f"{name} 1\nA Part 1." for name in ("Chapter", "Part", "Chapter"))]
    (tmp_path / "book.txt").write_text("\n".join(parts), encoding="utf-8")
    assert read_documents([tmp_path / "book.txt"], opening) == parts


def test_a_document_that_is_held_out_or_repeated_is_dropped():
    documents = ["One day.", "A cat!", "one day", "Ann"]
    assert without_overlap(documents, ["a cat", "Anna"]) == ["One day.", "Ann"]


@pytest.mark.parametrize("place", [0, 200])
def test_a_long_document_is_dropped_if_a_part_is_held_out(place):
    words = [f"w{i * i}" for i in range(100)]
    long = " ".join(words)
    assert without_overlap([long, "One day."], ["Here " + long[place : place + 200]]) == [
        "One day."
    ]
    assert without_overlap([long], [long[120:200]]) == [long]


@pytest.mark.parametrize("bad", ["no.txt", "latin.txt", "("])
def test_what_cannot_be_read_is_one_line(tmp_path, bad):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "book.txt").write_bytes(b"\xef\xbb\xbfA caf\xc3\xa9")
    assert read_documents([tmp_path / "book.txt"]) == ["A café"]  # without its byte order mark
    paths = [tmp_path / name for name in ("book.txt", bad) if name != "("]
    with pytest.raises(SystemExit) as error:
        read_documents(paths, bad)
    assert bad in error.value.code and "\n" not in error.value.code


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_the_programs_train_a_model_that_knows_its_text_by_heart(architecture, tmp_path):
    pytest.importorskip("torch", reason="NOT RUN: pip install -r training/requirements.txt")
    texts = [f"The {a} saw a {b} and a {c}." for a in "xyzw" for b in "pqrst" for c in "klm"]
    (tmp_path / "text.txt").write_text("<|endoftext|>".join(texts), encoding="utf-8")
    sizes = ["--n-embd", 32, "--n-head", 2, "--n-layer", 1, "--n-ctx", 32, "--n-inner", 64]
    how = ["--architecture", architecture, "--epochs", 20, "--batch", 128, "--dropout", 0]
    how += ["--muon-lr", 0.1, "--adam-lr", 0.02]
    text = tmp_path / "text.txt"
    python("-m", "training.train_lm", tmp_path, text, "--merges", 6, *sizes, *how)
    assert (tmp_path / "merges.txt").read_text("utf-8").split("\n")[1] == "Ġ a"  # the most common
    bits = float(python("-m", "training.evaluate", tmp_path, text).stdout.split()[0])
    assert 0 < bits < 0.4  # what is random takes log2(4 * 5 * 3) bits of 22 bytes: 0.27


@pytest.mark.slow
def test_a_t5_learns_its_tokenizer_with_transformers_5(tmp_path):
    pytest.importorskip("torch", reason="NOT RUN: pip install -r training/requirements.txt")
    with gzip.open(tmp_path / "pairs.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{i} cats\t{i} Katzen\n" for i in range(1010))
    sizes = ["--n-vocab", 40, "--d-model", 16, "--d-kv", 8, "--num-heads", 2, "--num-layers", 1]
    sizes += ["--epochs", 1]
    python("-m", "training.train_t5", tmp_path / "m", tmp_path / "pairs.gz", *sizes)
    tokenizer, model = utils.load(tmp_path / "m")
    ids = tokenizer.encode("7 cats")
    assert ids[-1:] == [1] == [*model.stop_ids] and tokenizer.decode(ids[:-1]) == "7 cats"
    assert model.read(ids)([0]).shape == (1, tokenizer.n_vocab)
