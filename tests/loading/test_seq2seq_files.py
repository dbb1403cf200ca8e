"""Encoder-decoders and their tokenizers are loaded. Damaged or unsupported folders are refused."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import utils
from loading.errors import UserError
from loading.tokenizer import read_tokenizer
from tests.support.checkpoints import ROOT
from tests.support.tiny import arrays

HERE = Path(__file__).parents[1]
FOLDERS = HERE / "fixtures" / "seq2seq"


@pytest.fixture
def folder(tmp_path):
    """Return a function that copies a fixture, given its name. A test may damage the copy."""

    def copied(name):
        return Path(shutil.copytree(FOLDERS / name, tmp_path / name))

    return copied


def logits(folder):
    _, model = utils.load(folder)
    return model.read([5, 6, 7])([9, 8])


def assert_refused(folder, words):
    """Assert that loading raises a UserError with a message of one line that matches `words`."""
    with pytest.raises(UserError, match=words) as caught:
        utils.load(folder)
    assert "\n" not in str(caught.value)


def change(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


# --- weights and configuration --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t5-gated-untied", "bart", "mbart"])
def test_weights_are_mapped_and_not_copied(name):
    for array in arrays(utils.load(FOLDERS / name)[1].params):
        assert not array.flags.owndata and not array.flags.writeable
        assert array.flags.c_contiguous and array.dtype == np.float32


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_arrays_may_have_their_other_names(folder, name):
    copy = folder(name)
    expected, path = logits(copy), copy / "model.safetensors"
    tensors = load_file(path)
    if name == "bart":
        assert all(key.startswith("model.") for key in tensors if key != "final_logits_bias")
    tensors = {key.removeprefix("model."): array for key, array in tensors.items()}
    shared = tensors.pop("shared.weight")  # some files have this array only under other names
    for side in ("encoder", "decoder"):
        tensors[f"{side}.version"] = np.ones(1, np.float32)
    tensors["decoder.embed_tokens.weight"] = tensors["encoder.embed_tokens.weight"] = shared
    if name == "t5":
        unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        tensors |= {"lm_head.weight": shared, unused: np.zeros((32, 4), np.float32)}
    save_file(tensors, path)
    np.testing.assert_array_equal(logits(copy), expected)
    for side in ("encoder", "decoder"):
        del tensors[f"{side}.embed_tokens.weight"]
    save_file(tensors | {"lm_head.weight": shared}, path)  # only the head has the matrix
    np.testing.assert_array_equal(logits(copy), expected)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_separate_embedding_of_encoder_or_decoder_is_refused(folder, side):
    copy = folder("bart")
    path = copy / "model.safetensors"
    tensors = load_file(path)
    own = tensors["model.shared.weight"] + np.float32(1)
    save_file(tensors | {f"model.{side}.embed_tokens.weight": own}, path)
    assert_refused(copy, f"{side}.embed_tokens.weight is not shared.weight")


def test_the_bias_of_the_logits_may_be_missing(folder):
    copy = folder("bart")
    tensors = load_file(copy / "model.safetensors")
    bias = tensors.pop("final_logits_bias")
    expected = logits(copy)
    save_file(tensors, copy / "model.safetensors")
    np.testing.assert_allclose(logits(copy), expected - bias[:, :265], atol=1e-5)


def test_generation_defaults_come_from_config_json_without_generation_config_json(folder):
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
        (
            "t5",
            {"num_decoder_layers": 3},
            "decoder.block.2.layer.0.SelfAttention.q.weight is missing",
        ),
        ("t5-gated-untied", {"feed_forward_proj": "gated-tanh"}, "'tanh' is not one of"),
        ("t5", {"tie_word_embeddings": False}, "the array lm_head.weight is missing"),
        (
            "bart",
            {"max_position_embeddings": 41},
            "embed_positions.weight has shape .42, 16., .*43",
        ),
        ("t5", {"layer_norm_epsilon": "small"}, "could not convert string to float"),
        ("bart", {"decoder_attention_heads": 3}, "not a multiple"),
        ("bart", {"activation_function": "snake"}, "'snake' is not one of"),
        ("mbart", {"model_type": "pegasus"}, "model_type is pegasus"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(folder, name, entries, words):
    copy = folder(name)
    change(copy / "config.json", **entries)
    assert_refused(copy, words)


def test_special_ids_outside_the_vocabulary_are_ignored(folder):
    copy = folder("bart")
    change(copy / "generation_config.json", eos_token_id=[2, 999], forced_bos_token_id=-1)
    _, model = utils.load(copy)
    assert model.stop_ids == (2,) and model.generation_config["forced_bos_token_id"] is None
    change(copy / "generation_config.json", eos_token_id=2, decoder_start_token_id="x")
    assert utils.load(copy)[1].start_ids == [2]  # BART's default start id is eos_token_id


@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
def test_a_missing_or_damaged_tokenizer_is_refused(folder, name):
    copy = folder(name)
    whole = (copy / "tokenizer.json").read_bytes()
    for data in (b"", b"nonsense", b"{}", whole[: len(whole) // 2], b"[" * 10**5):
        (copy / "tokenizer.json").write_bytes(data)
        assert_refused(copy, "tokenizer.json is damaged: .*; fetch or save it again")
    (copy / "tokenizer.json").unlink()
    (copy / "spiece.model").touch()
    line = r"has no tokenizer.json; transformers writes it: AutoTokenizer.*save_pretrained\(FOLDER"
    assert_refused(copy, line)


def test_a_config_without_a_start_id_is_refused(folder):
    copy = folder("t5")
    for file in ("config.json", "generation_config.json"):
        change(copy / file, decoder_start_token_id=None, pad_token_id=None)
    assert_refused(copy, "no decoder_start_token_id")


# --- the tokenizers -------------------------------------------------------------------------------

NAMES = "t5", "bart", "mbart", "mbart-50"
T5, BART, MBART, MBART_50 = (read_tokenizer(FOLDERS / name, name[:5]) for name in NAMES)
each_kind = pytest.mark.parametrize("pieces", [T5, BART, MBART], ids=["t5", "bart", "mbart"])
TEXT = "the cat sat on the mat. where is the dog?"


@each_kind
def test_encoded_text_is_decoded_to_itself(pieces):
    assert pieces.decode(pieces.encode(TEXT)) == TEXT
    assert pieces.decode(iter(pieces.encode(TEXT))) == TEXT
    assert pieces.encode("") == [] and pieces.decode([]) == ""


def test_the_model_adds_the_special_tokens_and_the_tokenizer_does_not():
    for pieces in (T5, BART, MBART):
        assert pieces.start == []
        assert not {*pieces.encode(TEXT)} & {*pieces.special.values()}


def test_ids_are_the_pieces_places_and_mbart_s_are_shifted_by_one():
    assert T5.tokens[:3] == ["<pad>", "</s>", "<unk>"]
    assert MBART.tokens[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert MBART.encode("the cat") == [id + 1 for id in T5.encode("the cat")]
    assert MBART.encode("§")[-1] == 3 and T5.encode("§")[-1] == 2  # both are <unk>
    assert "<unk>" in MBART.decode([3])


def test_sentinels_and_languages_are_special_tokens():
    assert T5.encode("the <extra_id_0>", special=True)[-1] == T5.n_vocab - 1 == 139
    assert T5.decode([40, 139]).endswith("<extra_id_99><extra_id_0>")
    assert T5.encode("the <extra_id_0>")[-1] == 139  # for T5, it is also an ordinary piece
    assert BART.special["<mask>"] not in BART.encode("the <mask>")
    assert (MBART.special["ar_AR"], MBART.special["en_XX"]) == (41, 44)
    assert MBART.n_vocab == 67 and MBART.special["<mask>"] == 66
    languages = [text for text in MBART_50.special if text[2:3] == "_"]
    assert len(languages) == 52 and MBART_50.n_vocab == 94
    cat = MBART.encode("the cat")
    assert MBART.decode([44, *cat, 2]) == "the cat"  # the language code and </s> have no text


@each_kind
def test_the_tokens_bytes_are_the_text(pieces):
    whole = b"".join(map(pieces.token_bytes, pieces.encode(TEXT)))
    assert whole.decode().removeprefix(" ") == TEXT
    assert pieces.token_bytes(pieces.special["</s>"]) == b""


@each_kind
@given(text=st.text())
def test_any_text_can_be_encoded(pieces, text):
    ids = pieces.encode(text)
    assert all(0 <= id < pieces.n_vocab for id in ids)
    assert set(pieces.encode(text + "\udc80")) <= set(range(pieces.n_vocab))


@each_kind
@given(data=st.data())
def test_a_stream_equals_the_decoded_text(pieces, data):
    ids = data.draw(st.lists(st.integers(0, pieces.n_vocab - 1), max_size=12))
    stream = pieces.stream()
    fed = [stream.feed(id) for id in ids]
    assert "".join([*fed, stream.finish()]) == pieces.decode(ids)


@each_kind
def test_a_stream_shows_complete_characters_at_once(pieces):
    stream = pieces.stream()
    fed = [stream.feed(id) for id in pieces.encode(TEXT)]
    assert "".join(fed) == TEXT and stream.finish() == ""


@each_kind
@pytest.mark.parametrize("id", [-1, 10**6])
def test_an_unknown_id_is_an_error_that_names_it(pieces, id):
    for read in (lambda: pieces.decode([id]), lambda: pieces.token_bytes(id)):
        with pytest.raises(ValueError, match=f"{id} .* {pieces.n_vocab}"):
            read()
    with pytest.raises(ValueError, match=f"{id} .* {pieces.n_vocab}"):
        pieces.stream().feed(id)


def test_en_de_has_the_ids_that_it_was_trained_on():
    """The library `sentencepiece` encodes the held-out sentences as ids with the same digest."""
    tokenizer = read_tokenizer(ROOT / "models" / "en-de", "t5")
    lines = (ROOT / "models" / "en-de" / "held_out.tsv").read_text(encoding="utf-8").splitlines()
    ids = [tokenizer.encode(text) for line in lines for text in line.split("\t")]
    digest = "36f1351abbbf8ad63b5ff5795edd0e8569d71d36f68154c7d72ecff468e58337"
    assert hashlib.sha256(json.dumps(ids).encode()).hexdigest() == digest
