"""Any text, ids, logits, settings and files either work or cause an error message of one clear
line. The examples are random, but the same in every run."""

import contextlib
import json
import math
import os
import shutil
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import utils
from encoder import Tokenizer
from generate import generate
from loading.errors import MALFORMED
from loading.tokenizer import read_gpt2_tokenizer, read_tokenizer
from loading.weights import DTYPES, read_weights
from samplers import draw, make_sampler
from tests.loading.test_llama_files import write_qwen
from tests.support.checkpoints import write_tokenizer_json

FIXTURES = Path(__file__).parents[1] / "fixtures"
SEQ2SEQ = FIXTURES / "seq2seq"

# --- text and ids ---------------------------------------------------------------------------------

TOKENIZERS = {
    "gpt2": read_gpt2_tokenizer(FIXTURES.parent.parent / "models" / "stories"),
    **{name: read_tokenizer(SEQ2SEQ / name, name) for name in ("bart", "t5", "mbart")},
}
each_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)
SPECIAL = sorted({text for tokenizer in TOKENIZERS.values() for text in tokenizer.special})
# Lone surrogates are included, although UTF-8 cannot encode them.
any_character = st.characters(codec=None, exclude_categories=())
any_text = st.lists(st.text(any_character) | st.sampled_from(SPECIAL)).map("".join)


def streamed(tokenizer, ids):
    stream = tokenizer.stream()
    return "".join([*map(stream.feed, ids), stream.finish()])


@each_tokenizer
@given(text=any_text, special=st.booleans())
def test_any_text_is_encoded_and_decoded(name, text, special):
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, special)
    assert all(type(id) is int and 0 <= id < tokenizer.n_vocab for id in ids)
    unknown = tokenizer.special.get("<unk>")  # stands for a character without a token
    is_unigram = name in ("t5", "mbart")  # these find special tokens even if `special` is False
    assert special or is_unigram or not {*tokenizer.special.values()} - {unknown} & {*ids}
    decoded = tokenizer.decode(ids)
    decoded.encode("utf-8")  # raises an error if a surrogate is left
    assert streamed(tokenizer, ids) == decoded
    hides_special = special and name == "bart"
    if isinstance(tokenizer, Tokenizer) and not hides_special:
        assert decoded == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@each_tokenizer
@given(ids=st.lists(st.integers(0, 10_000) | st.integers(), max_size=20))
def test_any_ids_are_decoded_or_refused(name, ids):
    tokenizer = TOKENIZERS[name]
    if all(0 <= id < tokenizer.n_vocab for id in ids):
        assert tokenizer.decode(ids) == streamed(tokenizer, ids)
    else:
        for decode in (tokenizer.decode, lambda ids: streamed(tokenizer, ids)):
            with pytest.raises(ValueError, match="no token .* in a vocabulary of"):
                decode(ids)


# --- samplers -------------------------------------------------------------------------------------

floats = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, 3e38, -3e38, 1.0, 1.0])
any_logits = st.lists(floats | st.floats(width=32), min_size=1, max_size=9).map(
    lambda values: np.array(values, np.float32)
)
SETTINGS = {  # setting -> normal and extreme values
    "temperature": st.sampled_from([0, 1e-300, 1e-45, 1e-6, 1.0, 1e6, 1e38, 1e300]),
    "top_k": st.integers(0, 11) | st.just(2**63),
    "top_p": st.sampled_from([0, 1e-300, 1e-9, 0.5, 1 - 1e-9, 1]),
    "min_p": st.sampled_from([0, 1e-300, 1e-9, 0.5, 1]),
    "repetition_penalty": st.sampled_from([1e-300, 1e-9, 1, 1.2, 1e9, 1e300]),
    "no_repeat_ngram": st.sampled_from([0, 1, 2, 3, 10, 2**63]),
}
any_settings = st.fixed_dictionaries({}, optional=SETTINGS)


@given(any_logits, any_settings, st.data())
def test_any_logits_and_settings_give_probabilities_or_one_error(logits, settings, data):
    ids = data.draw(st.lists(st.integers(0, len(logits) - 1), max_size=6))
    before = logits.copy()
    sampler = make_sampler(**settings)
    with np.errstate(all="ignore"):
        try:
            probs = sampler(logits, ids)
        except ValueError as error:
            assert "no token can be drawn" in str(error)
            return
    np.testing.assert_array_equal(logits, before)
    assert probs.dtype == np.float32 and probs.shape == logits.shape and (probs >= 0).all()
    assert abs(probs.sum() - 1) < 1e-5
    assert probs[draw(probs, np.random.default_rng(0))] > 0


@given(st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=1, max_size=9), any_settings)
def test_finite_logits_always_allow_a_draw(values, settings):
    """The filters that depend only on the logits leave at least one token to draw."""
    logits = np.array(values, np.float32)
    settings = settings | {"repetition_penalty": 0, "no_repeat_ngram": 0}
    with np.errstate(all="ignore"):
        probs = make_sampler(**settings)(logits, [])
    assert abs(probs.sum() - 1) < 1e-5


# --- model folders --------------------------------------------------------------------------------

NAMES = ["gpt2", "shards", "t5", "bart", "mbart", "llama"]
each_folder = pytest.mark.parametrize("name", NAMES)


def in_each_folder(test):
    """Make test(folders, name, data) run on 30 examples for each name in NAMES."""
    return each_folder(settings(max_examples=30)(given(data=st.data())(test)))


WEIRD = [None, True, False, 0, 1, -1, 2, 3, 2**31, 10**6, 10**9, 2**64, 10**30]
WEIRD += [0.0, -0.5, 1e-5, 1e308, math.nan, math.inf]
WEIRD += ["", "x", "1", "gpt2", "relu", "gated-gelu"]
WEIRD += [[], [0], [1, 2], [None], ["x"], [[[]]], {}, {"a": 1}]
WEIRD += ["two\nlines", "\x1b[2J", "\ud800", "long " * 10_000, [10**9] * 1000]
weird = st.sampled_from(WEIRD)
FILES = ["..", ".", "", "/etc/passwd", "../x", "a/b", "nul\0", "*", "**", "[", "loop"]
FILES += ["x" * 300, "config.json", "two\nlines", "\ud800", "outside"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return {name: the path of an intact model folder}."""
    folder = tmp_path_factory.mktemp("good")
    good = {name: SEQ2SEQ / name for name in ("t5", "bart", "mbart")}
    good |= {"gpt2": FIXTURES / "gpt2" / "by_layer", "shards": FIXTURES / "gpt2" / "plain"}
    (folder / "llama").mkdir()
    good["llama"] = write_qwen(folder / "llama", rope_parameters={"rope_theta": 1e4})
    return good


@contextlib.contextmanager
def copy(folder):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(shutil.copytree(folder, Path(temporary, "models", "copy")))
        (path / "loop").symlink_to("loop")
        (Path(temporary) / "x").write_bytes(b"outside")
        (path / "outside").symlink_to(Path(temporary) / "x")
        yield path


def loads_or_says_why(folder):
    """Return whether a model folder can be loaded and used to generate a text.

    If it cannot be loaded, the error message must be one line.
    """
    before = set(os.listdir(folder.parent.parent)), set(os.listdir(folder.parent))
    try:
        tokenizer, model = utils.load(folder)
    except utils.UserError as error:
        assert str(error).isprintable() and len(str(error)) < 2000
        return False
    finally:
        assert (set(os.listdir(folder.parent.parent)), set(os.listdir(folder.parent))) == before
    try:
        ids = tokenizer.encode("the cat")[:3] or [0]
        if hasattr(model, "read"):
            ids = model.add_special_tokens(ids, truncate=True)
        with np.errstate(all="ignore"):
            new = list(generate(model, ids, 2))
        assert isinstance(tokenizer.decode([id for id in new if id < tokenizer.n_vocab]), str)
    except (*MALFORMED, MemoryError):
        return False  # for example, a wrong n_head may raise no error until the model runs
    return True


@each_folder
def test_the_intact_folders_load(folders, name):
    with copy(folders[name]) as folder:
        assert loads_or_says_why(folder)


@pytest.mark.parametrize("config", sorted(FIXTURES.glob("*/*/config.json")), ids=str)
def test_each_array_is_read_and_has_its_shape(tmp_path, config):
    """A file without one of its arrays, or with a part of it, is refused by the array's name."""
    folder = Path(shutil.copytree(config.parent, tmp_path / "copy"))
    if not (folder / "vocab.json").exists() and not (folder / "tokenizer.json").exists():
        write_tokenizer_json(folder)
    arrays = read_weights(folder, "", ())
    for path in folder.glob("model*"):
        path.unlink()
    for name in arrays.keys() - {"final_logits_bias", "lm_head.weight"}:  # may be missing
        for part in ({}, {name: arrays[name][:1]}):
            save_file(
                {k: arrays[k] for k in arrays.keys() - {name}} | part, folder / "model.safetensors"
            )
            with pytest.raises(
                utils.UserError, match=name.removeprefix("model.").removeprefix("transformer.")
            ):
                utils.load(folder)


@st.composite
def damaged(draw, data):
    """Draw a damaged version of the bytes `data`. The kind "ones" sets all bits in the second half,
    which makes the weights there NaN."""
    place, some = st.integers(0, len(data)), st.binary(max_size=12)
    kind = draw(st.sampled_from(["cut", "alter", "insert", "replace", "ones"]))
    at = draw(st.integers(0, min(64, len(data))) | place)
    if kind == "cut":
        return data[:at]
    if kind == "replace":
        return draw(some)
    if kind == "ones":
        return data[: len(data) // 2] + b"\xff" * (len(data) - len(data) // 2)
    if kind == "insert":
        return data[:at] + draw(some) + data[at:]
    altered = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        altered[at % len(data)] ^= draw(st.integers(1, 255))
        at = draw(place)
    return bytes(altered)


@in_each_folder
def test_a_damaged_file_gives_one_line(folders, name, data):
    with copy(folders[name]) as folder:
        path = data.draw(st.sampled_from(sorted(p for p in folder.iterdir() if p.is_file())))
        kind = data.draw(st.sampled_from(["bytes"] * 7 + ["none", "folder", "loop", "fifo"]))
        whole = path.read_bytes()
        path.unlink()
        if kind == "bytes":
            path.write_bytes(data.draw(damaged(whole)))
        elif kind == "folder":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path.name)
        elif kind == "fifo":
            os.mkfifo(path)
        loads_or_says_why(folder)


MORE_NAMES = """n_inner n_ctx eos_token_id bos_token_id max_length top_k forced_bos_token_id
temperature num_beams"""
LLAMA_NAMES = """head_dim rope_theta rope_scaling layer_types sliding_window partial_rotary_factor
rms_norm_eps use_sliding_window"""


@in_each_folder
def test_any_values_in_a_config_give_one_line(folders, name, data):
    with copy(folders[name]) as folder:
        path = folder / data.draw(st.sampled_from(["config.json"] * 3 + ["generation_config.json"]))
        config = json.loads(path.read_text()) if path.is_file() else {}
        names = [*config, *MORE_NAMES.split(), *LLAMA_NAMES.split() * (name == "llama")]
        for key in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
            config[key] = data.draw(weird)
            if data.draw(st.integers(0, 4)) == 0:
                del config[key]
        path.write_text(json.dumps(config))
        loads_or_says_why(folder)


def places(part, at=()):
    """Yield the path of each value in a JSON object, as a tuple of keys."""
    part = dict(enumerate(part)) if isinstance(part, list) else part
    for key, value in part.items() if isinstance(part, dict) else ():
        yield (*at, key)
        yield from places(value, (*at, key))


@settings(max_examples=300)
@given(data=st.data())
def test_any_values_in_tokenizer_json_give_one_line(folders, data):
    with copy(folders["llama"]) as folder:
        path = folder / "tokenizer.json"
        file = json.loads(path.read_text())
        vocab = [("model", "vocab", token) for token in ("a", "the", "Ġ")]
        known = [place for place in places(file) if place[:2] != ("model", "vocab")]
        for place in data.draw(st.lists(st.sampled_from(known + vocab), min_size=1, max_size=2)):
            part = file
            # The first change may have removed the place of the second one.
            with contextlib.suppress(KeyError, IndexError, TypeError):
                for key in place[:-1]:
                    part = part[key]
                part[place[-1]] = data.draw(weird)
                if data.draw(st.integers(0, 4)) == 0:
                    del part[place[-1]]
        path.write_text(json.dumps(file))
        loads_or_says_why(folder)


@in_each_folder
def test_any_values_in_a_safetensors_header_give_one_line(folders, name, data):
    with copy(folders[name]) as folder:
        path = data.draw(st.sampled_from(sorted(folder.glob("*.safetensors"))))
        whole = path.read_bytes()
        [length] = struct.unpack("<Q", whole[:8])
        header, arrays = json.loads(whole[8 : 8 + length]), whole[8 + length :]
        key = data.draw(st.sampled_from(sorted(header)))
        what = data.draw(st.sampled_from(["dtype", "shape", "data_offsets", "name", "all", "gone"]))
        numbers = st.lists(st.sampled_from([0, 1, 2, 64, 2**20, 2**40, -1, True, 1.0]), max_size=4)
        if what in header[key]:
            dtypes = st.sampled_from([*DTYPES, "F33"])
            header[key][what] = data.draw(weird | numbers | dtypes)
        else:
            entry = header.pop(key)
            if what == "name":
                header[data.draw(st.sampled_from([name for name in FILES if name]))] = entry
            elif what == "all":
                header[key] = data.draw(weird)
        text = json.dumps(header).encode()
        length = data.draw(st.sampled_from([len(text)] * 8 + [0, 8, 10**8, 2**40, 2**64 - 1]))
        path.write_bytes(struct.pack("<Q", length) + text + arrays)
        loads_or_says_why(folder)


symbols = st.sampled_from(["a", "t", "h", "th", "", " ", "Ġ", "é", "字", "\ud800", "<s>", "\x00"])


@given(
    lines=st.lists(st.lists(symbols, max_size=3).map(" ".join), max_size=4),
    more=st.dictionaries(symbols, st.integers(255, 270) | weird, max_size=4),
    filled=st.booleans(),
)
@example(lines=[" ", "a "], more={}, filled=True)  # merges with empty strings
def test_any_merges_and_vocabulary_work_or_give_one_line(folders, lines, more, filled):
    with copy(folders["gpt2"]) as folder:
        path = folder / "vocab.json"
        vocab = json.loads(path.read_text()) | more
        if filled:  # let the vocabulary contain all bytes and all merged tokens
            made = [line.replace(" ", "", 1) for line in lines]
            tokens = dict.fromkeys([*filter(lambda token: len(token) == 1, vocab), *made])
            vocab = {token: id for id, token in enumerate(tokens)}
        path.write_text(json.dumps(vocab))
        merges = "\n".join(lines).encode("utf-8", "surrogatepass")
        (folder / "merges.txt").write_bytes(merges)
        if loads_or_says_why(folder):
            tokenizer = read_gpt2_tokenizer(folder)
            text = "a the that aa\x00é 字" + "".join(lines).replace("\ud800", "")
            for special in (False, True):
                assert tokenizer.decode(tokenizer.encode(text, special)) == text
            ids = range(tokenizer.n_vocab)
            assert streamed(tokenizer, ids) == tokenizer.decode(ids)
