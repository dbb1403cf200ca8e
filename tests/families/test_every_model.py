"""What every loop may expect of every model. A checkpoint is tested by being in one of FAMILIES.

Its logits depend only on the ids before them: not on chunks, cut caches, other rows, later tokens
or a pass that failed. Logits and greedy texts equal those of transformers, the reference.
"""

import copy
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest

import gpt2
from decoding.batching import Rows
from decoding.beam import beam_search
from generate import begin, generate
from gpt2 import Cache
from page.live import arrays_in
from tests.support.every_loop import every_loop, one_text
from tests.support.tiny import (
    FIXTURES,
    Traced,
    checkpoint,
    checkpoints,
    close,
    same_greedy,
    traced,
)

FAMILIES = "gpt2", "llama", "seq2seq", "models"
NAMES = checkpoints(*FAMILIES)
N = 20  # tokens of the tested text
SOURCES = [[6, 5, 9, 7, 8, 4], [7, 5, 10], [9, 8, 5, 6, 7, 4, 11, 12]]


@pytest.fixture(params=NAMES, scope="module")
def model(request):
    """Return a model that can run: an encoder-decoder has read a source."""
    return begin(checkpoint(request.param), SOURCES[0])[0]


def text_of(model, n=N, seed=1):  # -> [n]
    return np.random.default_rng(seed).integers(model.n_vocab, size=min(n, model.n_ctx - 1))


def in_chunks(model, ids, cuts, cache):  # ids [..., n], where to split them -> logits
    return np.concatenate([model(part, cache) for part in np.split(ids, cuts, axis=-1)], axis=-2)


@pytest.fixture(params=checkpoints("gpt2", "llama"), scope="module")
def reference(request):
    """Return (model, {name: array computed by transformers})."""
    with np.load(FIXTURES / request.param / "expected.npz") as expected:
        found = {key: a.astype(int) if a.dtype.kind == "i" else a for key, a in expected.items()}
    return checkpoint(request.param), found


def test_logits_equal_the_reference_s(reference):
    model, expected = reference
    close(model(expected["ids"]), expected["logits"])


def test_logits_of_rows_of_different_lengths_equal_the_reference_s(reference):
    """The reference pads the shorter rows on the left. Here, each row first fills its own cache.
    For the last step, the caches are joined into a batch."""
    model, expected = reference
    batch, rows = expected["batch"], Rows()
    assert (batch < 0).any()
    for ids in (row[row >= 0] for row in batch):
        cache = model.new_cache()
        if len(ids) > 1:
            model(ids[:-1], cache)
        rows.join(cache)
    close(model(batch[:, -1:], rows)[:, 0], expected["batch_logits"])


def test_greedy_ids_equal_the_reference_s(reference):
    model, expected = reference
    n_prompt = 20 if "beams" in expected else 3
    prompt, greedy = expected["ids"][:n_prompt].tolist(), expected["greedy"].tolist()
    ids = list(generate(model, prompt, 24 if "beams" in expected else model.n_ctx))
    same_greedy(model, prompt, ids, greedy)
    for row, theirs in zip(expected["batch"], expected.get("batch_greedy", [])):
        prompt = row[row >= 0].tolist()
        same_greedy(model, prompt, list(generate(model, prompt, 8)), theirs.tolist())


@pytest.mark.parametrize("name", checkpoints("llama"))
def test_beams_equal_the_reference_s(name):
    with np.load(FIXTURES / name / "expected.npz") as expected:
        prompt, beams, scores = (expected[key] for key in ("ids", "beams", "scores"))
    found = beam_search(checkpoint(name), prompt[:20].tolist(), 24, 3, n_return=3)
    assert [h.ids for h in found] == [[id for id in ids if id >= 0] for ids in beams.tolist()]
    np.testing.assert_allclose([h.score for h in found], scores, rtol=1e-5)


@pytest.mark.parametrize("cuts", [range(1, N), [1, 4, 5, 11]], ids=["one by one", "in chunks"])
def test_any_split_into_chunks_gives_the_same_logits(model, cuts):
    ids, cache = text_of(model), model.new_cache()
    close(in_chunks(model, ids, [cut for cut in cuts if cut < len(ids)], cache), model(ids))
    assert cache.length == len(ids)


def test_one_token_past_the_context_is_an_error_with_both_numbers(model):
    ids, cache = np.full(model.n_ctx + 1, 5), model.new_cache()
    message = f"{model.n_ctx + 1} tokens do not fit the context of {model.n_ctx}"
    with pytest.raises(ValueError, match=message):
        model(ids)
    model(ids[:5], cache)
    with pytest.raises(ValueError, match=message):
        model(ids[5:], cache)
    assert cache.length == 5


@pytest.mark.parametrize("length", [0, 1, 7])
def test_a_cut_cache_goes_on_as_if_it_had_never_been_longer(model, length):
    ids, cache = text_of(model), model.new_cache()
    model(np.concatenate([ids[:length], np.flip(ids)[:5]]), cache)
    cache.cut(length)
    cache.cut(length + 3)  # a cut past the end changes nothing
    assert cache.length == length
    close(model(ids[length:], cache), model(ids)[length:])


def test_last_gives_only_the_last_logits(model):
    ids = text_of(model)
    for last, cache in ((1, None), (3, model.new_cache()), (len(ids) + 9, None)):
        close(model(ids, cache, last=last), model(ids)[-last:])
    assert model(ids, last=0).shape == (0, model.n_vocab)  # not all rows


@pytest.mark.parametrize("shape", [(1,), (2, 3), (0,)])
def test_any_batch_dimensions_may_precede_the_sequence(model, shape):
    ids = np.random.default_rng(2).integers(model.n_vocab, size=(*shape, 6))
    rows = [model(row) for row in ids.reshape(-1, 6)]
    expected = np.reshape(rows, (*shape, 6, model.n_vocab)).astype(np.float32)
    close(model(ids), expected)
    close(model(ids, last=2), expected[..., -2:, :])
    cache = model.new_cache(*shape)
    close(in_chunks(model, ids, [2, 3], cache), expected)
    assert cache.length == 6


@pytest.mark.parametrize("rows", [[1, 0, 2], [2, 2], [1], [0, 2, 2, 1]], ids=str)
def test_selected_rows_go_on_in_their_new_order(model, rows):
    """Rows may be repeated, reordered or dropped. Each row continues as if it were alone."""
    batch = np.stack([text_of(model, 9, seed) for seed in range(3)])  # [3, 9]
    cache = model.new_cache(3)
    model(batch, cache)
    cache.cut(7)
    cache.select(rows)
    new = text_of(model, 2 * len(rows), seed=5).reshape(-1, 2)  # [n_rows, 2]
    for logits, row, tail in zip(model(new, cache), rows, new, strict=True):
        close(logits, model([*batch[row, :7], *tail])[-2:])


def test_a_pass_that_is_interrupted_in_any_product_leaves_the_cache_as_it_was(model, monkeypatch):
    ids, cache, counted = text_of(model), model.new_cache(), Mock(wraps=gpt2.linear)
    model(ids[:5], cache)
    monkeypatch.setattr(gpt2, "linear", counted)
    model(ids[5:9], copy.deepcopy(cache))
    for n in (0, counted.call_count // 2, counted.call_count - 1):  # the last makes the logits
        results = [DEFAULT] * n + [KeyboardInterrupt]
        monkeypatch.setattr(gpt2, "linear", Mock(wraps=counted, side_effect=results))
        with pytest.raises(KeyboardInterrupt):
            model(ids[5:9], cache)
        assert cache.length == 5
    monkeypatch.undo()
    close(model(ids[5:], cache), model(ids)[5:])


def test_every_step_is_float32(model):
    watched = copy.copy(model)
    watched.params = traced(model.params)
    ids = text_of(model, 6)
    for shape in ([3], ids, ids.reshape(2, 3)):
        for cache in (None, model.new_cache(*np.shape(shape)[:-1])):
            Traced.seen.clear()
            assert isinstance(watched(shape, cache), Traced)  # computed from traced arrays
            assert Traced.seen - {np.dtype(bool)} == {np.dtype(np.float32)}
            assert cache is None or cache.kv.dtype == np.float32


def test_arguments_are_not_changed(model):
    before = copy.deepcopy(arrays_in(model.params))
    batch = text_of(model, 6).reshape(2, 3)
    for ids in ([1, 2, 3], (1, 2, 3), batch, np.array([5], np.uint16)):
        copied = copy.deepcopy(ids)
        close(model(ids), model(np.array(ids, int)))
        model(ids, model.new_cache(*np.shape(ids)[:-1]))
        np.testing.assert_array_equal(ids, copied)
    for array, old in zip(arrays_in(model.params), before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("name", NAMES)
def test_every_loop_writes_the_same_text(name):
    """Also with speculation, in a batch with other prompts, and with one beam."""
    model = checkpoint(name)
    assert isinstance(begin(model, SOURCES[0])[0].new_cache(), Cache)
    ids = one_text(every_loop(model, SOURCES[0], SOURCES[1:], 9, lambda n: []))
    assert len(ids) > 0
