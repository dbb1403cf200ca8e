"""Loading encoder-decoders: their folders, the hub's repositories, and their tokenizers."""

import io
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import utils
from loading.errors import UserError
from loading.tokenizers import mbart_tokenizer, t5_tokenizer

HERE = Path(__file__).parent
FOLDERS = HERE / "fixtures" / "seq2seq"


@pytest.fixture
def folder(tmp_path):
    """A function: name -> a copy of that fixture, which a test may damage."""

    def copied(name):
        return Path(shutil.copytree(FOLDERS / name, tmp_path / name))

    return copied


def logits(folder):
    _, model = utils.load(folder)
    return model.condition([[5, 6, 7]])([9, 8])


def refused(call, words):
    """One line that has these words, and nothing but the user's error."""
    with pytest.raises(UserError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def change(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


# ------------------------------------------------------------------------------------ the folders


@pytest.mark.parametrize("name", ["t5-gated-untied", "bart", "mbart"])
def test_weights_are_mapped_not_copied(name):
    def check(part):
        for value in part.values() if isinstance(part, dict) else part:
            if isinstance(value, np.ndarray):
                assert not value.flags.owndata and not value.flags.writeable
                assert value.flags.c_contiguous and value.dtype == np.float32
            else:
                check(value)

    check(utils.load(FOLDERS / name)[1].params)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_other_names_for_the_same_arrays(folder, name):
    copy = folder(name)
    expected, path = logits(copy), copy / "model.safetensors"
    tensors = load_file(path)
    if name == "bart":
        assert all(key.startswith("model.") for key in tensors if key != "final_logits_bias")
    tensors = {key.removeprefix("model."): array for key, array in tensors.items()}
    shared = tensors.pop("shared.weight")  # some files keep but one of its names
    tensors |= {
        "encoder.version": np.ones(1, np.float32),
        "decoder.version": np.ones(1, np.float32),
    }
    tensors["decoder.embed_tokens.weight"] = tensors["encoder.embed_tokens.weight"] = shared
    if name == "t5":
        unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        tensors |= {"lm_head.weight": shared, unused: np.zeros((32, 4), np.float32)}
    save_file(tensors, path)
    np.testing.assert_array_equal(logits(copy), expected)


def test_the_bias_of_the_logits_may_be_missing(folder):
    copy = folder("bart")
    tensors = load_file(copy / "model.safetensors")
    bias = tensors.pop("final_logits_bias")
    expected = logits(copy)
    save_file(tensors, copy / "model.safetensors")
    np.testing.assert_allclose(logits(copy), expected - bias[:, :265], atol=1e-5)


def test_generation_defaults_come_from_config_where_there_is_no_other_file(folder):
    copy = folder("bart-forced")
    (copy / "generation_config.json").unlink()
    change(copy / "config.json", forced_bos_token_id=0, num_beams=5, max_length=30, min_length=4)
    _, model = utils.load(copy)
    assert model.generation_config["num_beams"] == 5 and model.start_ids == [2]
    wanted = {"max_length": 30, "min_length": 4, "forced_bos_token_id": 0, "forced_eos_token_id": 2}
    assert wanted.items() <= model.generation_config.items()


@pytest.mark.parametrize(
    "name, entries, words",
    [
        ("t5", {"num_heads": 0}, "num_heads = 0"),
        ("t5", {"num_layers": 10**8}, "num_layers = 100000000"),
        ("t5", {"num_layers": 3}, "8 arrays are missing: encoder.block.2.layer.0"),
        ("t5", {"d_kv": 5}, r"q.weight has the shape \[16, 16\], expected \[20, 16\]"),
        ("t5", {"feed_forward_proj": "gated-tanh"}, "feed_forward_proj = 'gated-tanh'"),
        ("t5", {"feed_forward_proj": "gated-gelu"}, "missing: decoder.*wi_0"),
        ("t5", {"relative_attention_num_buckets": 6}, "6 buckets"),
        ("t5", {"layer_norm_epsilon": "small"}, "layer_norm_epsilon = 'small'"),
        ("t5", {"vocab_size": True}, "vocab_size = True"),
        ("bart", {"decoder_attention_heads": 3}, "not a multiple"),
        ("bart", {"activation_function": "snake"}, "activation_function is snake"),
        ("bart", {"max_position_embeddings": None}, "max_position_embeddings = None"),
        ("bart", {"vocab_size": 250}, "shape"),
        ("mbart", {"model_type": "bart"}, "needs encoder.json"),
        ("mbart", {"model_type": "pegasus"}, "model_type is pegasus"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_in_one_line(folder, name, entries, words):
    copy = folder(name)
    change(copy / "config.json", **entries)
    refused(lambda: utils.load(copy), words)


@pytest.mark.parametrize(
    "entries",
    [{"eos_token_id": 999}, {"decoder_start_token_id": "x"}, {"forced_bos_token_id": -1}],
    ids=str,
)
def test_ids_outside_of_the_vocabulary_are_refused(folder, entries):
    copy = folder("bart")
    change(copy / "generation_config.json", **entries)
    refused(lambda: utils.load(copy), next(iter(entries)))


@pytest.mark.parametrize("name, file", [("t5", "spiece.model"), ("bart", "vocab.json"),
                                        ("mbart", "sentencepiece.bpe.model")])  # fmt: skip
def test_a_tokenizer_that_is_missing_or_damaged_is_told(folder, name, file):
    copy = folder(name)
    whole = (copy / file).read_bytes()
    for data in (b"", b"nonsense", whole[: len(whole) // 2]):
        (copy / file).write_bytes(data)
        refused(lambda: utils.load(copy), "tokenizer .* damaged")
    (copy / file).unlink()
    refused(lambda: utils.load(copy), "tokenizer")


def test_a_config_that_tells_no_start_of_an_answer_is_refused(folder):
    copy = folder("t5")
    for file in ("config.json", "generation_config.json"):
        change(copy / file, decoder_start_token_id=None, pad_token_id=None)
    refused(lambda: utils.load(copy), "no decoder_start_token_id")


def test_the_wrong_kind_of_pieces_is_told(folder):
    copy = folder("mbart")
    shutil.copy(FOLDERS / "t5" / "spiece.model", copy / "sentencepiece.bpe.model")
    refused(lambda: utils.load(copy), "mBART")


# ----------------------------------------------------------------------------------- the tokenizers

T5 = t5_tokenizer(FOLDERS / "t5" / "spiece.model", 144)
MBART = mbart_tokenizer(FOLDERS / "mbart" / "sentencepiece.bpe.model", 67)
each_kind = pytest.mark.parametrize("pieces", [T5, MBART], ids=["t5", "mbart"])
TEXT = "the cat sat on the mat. where is the dog?"


@each_kind
def test_text_comes_back(pieces):
    assert pieces.decode(pieces.encode(TEXT)) == TEXT
    assert pieces.encode("") == [] and pieces.decode([]) == ""


def test_ids_are_the_pieces_places_and_fairseq_s_one_behind():
    assert [T5.tokens[id] for id in (0, 1, 2)] == ["<pad>", "</s>", "<unk>"]
    assert MBART.tokens[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    theirs = MBART.processor.encode("the cat")
    assert MBART.encode("the cat") == [id + 1 for id in theirs]
    assert MBART.encode("§")[-1] == 3 and T5.encode("§")[-1] == 2  # the unknown
    assert "⁇" in MBART.decode([3])


@pytest.mark.parametrize("pieces", [T5, MBART], ids=["t5", "mbart"])
def test_any_iterable_can_be_decoded(pieces):
    ids = pieces.encode("a b c")
    assert pieces.decode(iter(ids)) == pieces.decode(ids) != ""


def test_sentinels_and_languages():
    assert T5.encode("the <extra_id_0>", special=True)[-1] == T5.n_vocab - 1 == 139
    assert T5.decode([40, 139]).endswith("<extra_id_99><extra_id_0>")
    assert 139 not in T5.encode("the <extra_id_0>")
    few = t5_tokenizer(FOLDERS / "t5" / "spiece.model", 40)
    assert few.special == {"<pad>": 0, "</s>": 1, "<unk>": 2} and few.n_vocab == 40
    languages = MBART.languages
    assert len(languages) == 25 and (languages["ar_AR"], languages["en_XX"]) == (41, 44)
    assert MBART.n_vocab == 67 and MBART.special["<mask>"] == 66
    fifty = mbart_tokenizer(FOLDERS / "mbart-50" / "sentencepiece.bpe.model", 94).languages
    assert len(fifty) == 52 and list(fifty)[:25] == list(languages)
    cat = MBART.encode("the cat")
    assert MBART.decode([44, *cat, 2]) == "the cat"  # neither the language nor </s> is text


@each_kind
@given(text=st.text())
def test_any_text_can_be_encoded(pieces, text):
    ids = pieces.encode(text)
    assert all(0 <= id < pieces.n_vocab for id in ids)
    assert set(pieces.encode(text + "\udc80")) <= set(range(pieces.n_vocab))


@each_kind
@given(data=st.data())
def test_a_stream_is_the_decoded_text(pieces, data):
    ids = data.draw(st.lists(st.integers(0, pieces.n_vocab - 1), max_size=12))
    stream = pieces.stream()
    fed = [stream.feed(id) for id in ids]
    assert "".join([*fed, stream.finish()]) == pieces.decode(ids)


@each_kind
def test_a_stream_shows_what_is_certain_at_once(pieces):
    stream = pieces.stream()
    fed = [stream.feed(id) for id in pieces.encode(TEXT)]
    assert "".join(fed) == TEXT and stream.finish() == ""


def test_characters_of_several_pieces_appear_whole(tmp_path):
    """Some models fall back on single bytes for what no piece is."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEXT] * 9), model_writer=made, vocab_size=290, byte_fallback=True,
        normalization_rule_name="identity", minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    (tmp_path / "spiece.model").write_bytes(made.getvalue())
    pieces = t5_tokenizer(tmp_path / "spiece.model", 300)
    ids = pieces.encode("the €")
    stream = pieces.stream()
    fed = [stream.feed(id) for id in ids]
    assert len(ids) > 4 and fed[-3:] == ["", "", "€"] and "".join(fed) == "the €"
    stream = pieces.stream()
    broken = "".join([*map(stream.feed, ids[:-1]), stream.finish()])
    assert broken == pieces.decode(ids[:-1]) and broken.endswith("\ufffd")


@each_kind
@pytest.mark.parametrize("id", [-1, 10**6])
def test_an_unknown_id_is_an_error_that_names_it(pieces, id):
    with pytest.raises(ValueError, match=f"{id} .* {pieces.n_vocab}"):
        pieces.decode([id])


def test_the_official_t5_tokenizer():
    """Ids, and decoded texts, on official vectors; they need the official file."""
    where = os.environ.get("TOKENWISE_T5_FILES")
    if not where:
        pytest.skip("set TOKENWISE_T5_FILES to a folder with t5-small's spiece.model to test it")
    pieces = t5_tokenizer(Path(where) / "spiece.model", 32128)
    vectors = json.loads((HERE / "t5_vectors.json").read_text(encoding="utf-8"))
    if (Path(where) / "t5-vectors.json").is_file():
        vectors = json.loads((Path(where) / "t5-vectors.json").read_text(encoding="utf-8"))
    assert len(vectors) >= 60
    for text, ids, *_ in vectors:
        assert [*pieces.encode(text), 1] == ids, text
        assert pieces.decode(ids) == pieces.processor.decode([id for id in ids if id < 32000])
    house = "translate English to German: The house is wonderful."
    assert pieces.encode(house) == [13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5]
    assert pieces.decode([644, 4598, 229, 19250, 5, 1]) == "Das Haus ist wunderbar."
    rng = random.Random(0)
    for _ in range(300):
        ids = [rng.randrange(pieces.n_vocab) for _ in range(6)]
        stream = pieces.stream()
        assert "".join([*map(stream.feed, ids), stream.finish()]) == pieces.decode(ids)
