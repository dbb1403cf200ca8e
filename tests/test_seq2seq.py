"""T5, BART and mBART: equal to the reference, and models like any other for every loop.

fixtures/make_seq2seq.py made the checkpoints and the results of transformers.
"""

import copy
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import utils
from beam import Search, beam_search, run_together
from drafters import DraftModel, NGramStore, PromptLookup
from generate import Sequence, cached, generate, left_pad, naive
from layers import ACTIVATIONS
from loading.params import tree_map
from loading.seq2seq import t5_shapes
from samplers import Sampler, greedy, min_length, no_repeat_ngram, one_hot, temperature, top_k
from seq2seq import T5, EncoderDecoder, relative_bias
from speculative import speculative
from tests.tiny import Traced, arrays, close, drafted_by, p_value, same_greedy, traced

FOLDERS = Path(__file__).parent / "fixtures" / "seq2seq"
NAMES = ["t5", "t5-gated-untied", "t5-narrow-heads", "bart", "bart-forced", "mbart", "mbart-50",
         "bart-cnn"]  # fmt: skip
MODELS = {name: utils.load(FOLDERS / name)[1] for name in NAMES}
EXPECTED = {name: json.loads((FOLDERS / name / "expected.json").read_text()) for name in NAMES}
ARRAYS = {name: dict(np.load(FOLDERS / name / "expected.npz")) for name in NAMES}
every_model = pytest.mark.parametrize("name", NAMES)
one_of_each = pytest.mark.parametrize("name", ["t5-gated-untied", "bart", "mbart"])


def conditioned(name, row=None):
    """The model, conditioned on one of the reference's sources, or on all three."""
    sources = EXPECTED[name]["sources"]
    return MODELS[name].condition(sources if row is None else [sources[row]])


def filters(model, n):
    """Those of the checkpoint's configuration, for n new tokens."""
    config = model.generation_config
    least, repeats = config.get("min_length"), config.get("no_repeat_ngram_size")
    found = [no_repeat_ngram(repeats)] if repeats else []
    found += [min_length(least, model.stop_ids)] if least else []
    return found + model.forced_filters(n)


def greedy_ids(name, row, n, loop=cached):
    """n greedy ids after one of the reference's sources."""
    sampler = Sampler(*filters(MODELS[name], n), to_probs=one_hot)
    return list(generate(MODELS[name], EXPECTED[name]["sources"][row], n, sampler, loop=loop))


def tiny_t5(n_vocab=5, n_ctx=16, seed=0, stop_ids=()):
    """A T5 over a vocabulary small enough to write down all its texts."""
    rng = np.random.default_rng(seed)

    def random(shape):
        return rng.normal(0, 0.6, shape).astype(np.float32)

    shapes = t5_shapes(n_vocab, 8, 3, 10, 2, (2, 1), 8, gated=True, untied=True)
    params = tree_map(lambda name, shape: random(shape), shapes)
    ends = {"start_ids": [0], "stop_ids": stop_ids}
    return T5(params, 2, n_ctx, ACTIVATIONS["gelu_new"], False, max_distance=20, **ends)


# ------------------------------------------------------------------------------- the reference


@every_model
def test_the_encoder_is_the_reference_s(name):
    for row, source in enumerate(EXPECTED[name]["sources"]):
        close(MODELS[name].encode(np.array(source)), ARRAYS[name][f"encoded{row}"])


@every_model
def test_logits_are_the_reference_s(name):
    for row in range(3):
        close(conditioned(name, row)(EXPECTED[name]["decoder"]), ARRAYS[name][f"logits{row}"])


@every_model
def test_a_batch_of_sources_of_different_lengths_is_the_reference_s_and_the_same_as_one_by_one(
    name,
):
    logits = conditioned(name)([EXPECTED[name]["decoder"]] * 3)  # [3, n_seq, n_vocab]
    close(logits[:, -1], ARRAYS[name]["padded"])
    for row in range(3):
        close(logits[row], ARRAYS[name][f"logits{row}"])


@every_model
def test_greedy_ids_are_the_reference_s(name):
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        assert greedy_ids(name, row, EXPECTED[name]["n_new"]) == expected["greedy"]


@every_model
def test_beams_are_the_reference_s(name):
    n, config = EXPECTED[name]["n_new"], MODELS[name].generation_config
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        model = conditioned(name, row)
        found = beam_search(
            model, model.start_ids, n, 3, config.get("length_penalty", 1.0),
            config.get("early_stopping", False), 3, filters(model, n),
        )  # fmt: skip
        assert [h.ids for h in found] == [unpadded(b["ids"], model) for b in expected["beam"]]
        np.testing.assert_allclose(
            [h.score for h in found], [b["score"] for b in expected["beam"]], rtol=1e-5
        )


def unpadded(ids, model):
    """The reference pads a shorter sequence after its stop id."""
    ends = [i + 1 for i, token in enumerate(ids) if token in model.stop_ids]
    return ids[: ends[0]] if ends else ids


def test_the_fixtures_have_texts_that_stop_early_and_texts_that_do_not():
    lengths = {len(row["greedy"]) for name in NAMES for row in EXPECTED[name]["rows"]}
    assert len(lengths) > 1 and max(lengths) == EXPECTED["t5"]["n_new"]


@pytest.mark.parametrize("key", sorted(np.load(FOLDERS / "buckets.npz").files))
def test_buckets_of_relative_positions(key):
    n_buckets, max_distance, both_ways = map(int, key.split("_")[1:])
    table = np.arange(n_buckets)[:, None]  # each bucket's "bias" is its number
    bias = relative_bias(table, np.arange(601), 601, bool(both_ways), max_distance)
    np.testing.assert_array_equal(bias[0, 300], np.load(FOLDERS / "buckets.npz")[key])


def test_the_bias_of_a_query_depends_only_on_its_position():
    table = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    whole = relative_bias(table, np.arange(200), 200, False, 128)  # [n_head, 200, 200]
    positions = np.array([[199, 5, 30], [0, 130, 7]])  # of the rows of a batch
    bias = relative_bias(table, positions, 200, False, 128)
    assert bias.dtype == np.float32
    np.testing.assert_array_equal(bias, np.moveaxis(whole[:, positions], 0, 1))


# --------------------------------------------------------------------------- cached == naive


@one_of_each
@settings(max_examples=15)
@given(data=st.data())
def test_any_split_into_chunks_gives_the_same_logits(name, data):
    ids = EXPECTED[name]["decoder"]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(ids) - 1))))
    model = conditioned(name, 0)
    cache = model.new_cache()
    parts = [model(ids[a:b], cache) for a, b in zip([0, *cuts], [*cuts, len(ids)])]
    close(np.concatenate(parts), ARRAYS[name]["logits0"])


@one_of_each
def test_one_token_at_a_time_up_to_the_context_and_one_past_it(name):
    model, rng = conditioned(name, 2), np.random.default_rng(0)
    ids = rng.integers(4, model.n_vocab, model.n_ctx).tolist()
    cache = model.new_cache(1)
    steps = [model([[token]], cache)[0, 0] for token in ids]
    close(np.array(steps), model(ids))
    for with_cache in (cache, None):
        with pytest.raises(ValueError, match=f"{model.n_ctx + 1} .* {model.n_ctx}"):
            model([[5]] if with_cache else [[*ids, 5]], with_cache)


@one_of_each
def test_only_the_last_positions(name):
    model = conditioned(name, 1)
    ids = EXPECTED[name]["decoder"]
    close(model(ids, last=2), ARRAYS[name]["logits1"][-2:])
    close(model(ids, last=100), ARRAYS[name]["logits1"])


@one_of_each
def test_cutting_the_cache_keeps_the_sources(name):
    model, ids = conditioned(name), EXPECTED[name]["decoder"]
    cache = model.new_cache(3)
    model([[7] * 9] * 3, cache)
    cache.cut(0)
    model([ids[:5] + [9, 9]] * 3, cache)
    cache.cut(5)
    assert cache.length == 5
    logits = model([ids[5:]] * 3, cache)
    for row in range(3):
        close(logits[row], ARRAYS[name][f"logits{row}"][5:])


@every_model
def test_the_naive_loop_gives_the_same_ids(name):
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        assert greedy_ids(name, row, EXPECTED[name]["n_new"], naive) == expected["greedy"]


# ---------------------------------------------------------------------- batched == one by one


@every_model
@pytest.mark.parametrize("loop", [naive, cached])
def test_a_batch_whose_rows_end_at_different_times_is_the_same_as_one_by_one(name, loop):
    model, starts = MODELS[name].begin(EXPECTED[name]["sources"])
    sequences = [
        Sequence(model, start, n, Sampler(*filters(model, n), to_probs=one_hot))
        for start, n in zip(starts, [9, 3, 12])
    ]
    for sequence, token in loop(model, sequences):
        assert sequence.ids[-1] == token
    for row, sequence in enumerate(sequences):
        single, expected = conditioned(name, row), greedy_ids(name, row, sequence.n)
        same_greedy(single, single.start_ids, sequence.new_ids, expected)


@one_of_each
@settings(max_examples=15)
@given(data=st.data())
def test_rows_of_the_decoder_may_differ_in_the_tokens_of_each_pass(name, data):
    """Padding on the left changes no logits; a cut row goes on as if nothing had been."""
    model, ids = conditioned(name), EXPECTED[name]["decoder"]
    cache, lengths = model.new_cache(3), [0, 0, 0]
    for _ in range(4):
        most = len(ids) - max(lengths)
        ns = [data.draw(st.integers(0, min(6, most))) for _ in range(3)]
        new = left_pad([ids[length : length + n] for length, n in zip(lengths, ns)])
        logits = model(new, cache)
        for row, (length, n) in enumerate(zip(lengths, ns)):
            found = logits[row, new.shape[1] - n :]
            close(found, ARRAYS[name][f"logits{row}"][length : length + n])
        lengths = [data.draw(st.integers(length, length + n)) for length, n in zip(lengths, ns)]
        cache.cut(lengths)
        assert cache.lengths.tolist() == lengths


@one_of_each
@pytest.mark.parametrize(
    "rows", [[2, 0, 1], [1], [2, 2], [0, 2, 2, 1, 0], [1, 2], [0, 1, 2]], ids=str
)
def test_selected_rows_keep_their_sources(name, rows):
    model, ids = conditioned(name), EXPECTED[name]["decoder"]
    cache = model.new_cache(3)
    model([ids[:6]] * 3, cache)
    cache.select(rows)
    logits = model([ids[6:]] * len(rows), cache)
    for i, row in enumerate(rows):
        close(logits[i], ARRAYS[name][f"logits{row}"][6:])
    assert model([ids] * 3).shape[0] == 3  # the model itself is as it was


@one_of_each
def test_one_source_serves_any_batch_shape(name):
    model, ids = conditioned(name, 0), EXPECTED[name]["decoder"]
    for shape in ((), (1,), (4,), (2, 3)):
        logits = model(np.broadcast_to(ids, (*shape, len(ids))))
        close(logits, np.broadcast_to(ARRAYS[name]["logits0"], logits.shape))
    cache = model.new_cache(1)
    cache.select([0, 0, 0])
    assert cache.source is model.source  # it is not copied for beams


SOURCES = [[0], [1], [2], [0, 1, 2], [2, 1], [0, 0]]  # rows of the reference's, of any length


@one_of_each
@settings(max_examples=30)
@given(parts=st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 3), st.integers(1, 6)),
                      min_size=2, max_size=3), data=st.data())  # fmt: skip
def test_joined_rows_go_on_with_their_own_sources(name, parts, data):
    """Caches of one source (without an axis of rows) and of several, of other lengths; texts of
    other lengths, with padding."""
    ids, caches, rows = EXPECTED[name]["decoder"], [], []
    for sources, n_pad, n in parts:
        model = MODELS[name].condition([EXPECTED[name]["sources"][row] for row in sources])
        caches.append(model.new_cache(len(sources)))
        model([[-1] * n_pad + ids[:n]] * len(sources), caches[-1])
        rows += [(row, n) for row in sources]
    cache = caches[0]
    for other in caches[1:]:
        before = copy.deepcopy((*other.source, other.kv, other.lengths))
        cache.join(other)
        for old, new in zip(before, (*other.source, other.kv, other.lengths), strict=True):
            np.testing.assert_array_equal(old, new)
    assert cache.lengths.tolist() == [n for _, n in rows]
    assert {a.dtype for a in (cache.kv, *cache.source)} == {np.dtype(np.float32)}
    for n_new in (1, 3):
        logits = model([ids[n : n + n_new] for _, n in rows], cache)  # any model of these weights
        for i, (row, n) in enumerate(rows):
            close(logits[i], ARRAYS[name][f"logits{row}"][n : n + n_new])
        rows = [(row, n + n_new) for row, n in rows]
    kept = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    cache.select(kept)
    logits = model([ids[n : n + 2] for _, n in (rows[i] for i in kept)], cache)
    for (row, n), found in zip((rows[i] for i in kept), logits):
        close(found, ARRAYS[name][f"logits{row}"][n : n + 2])


# ---------------------------------------------------------------------------- speculation, beam


def drafters(name, model, source, sampler):
    """One of each kind; the n-gram drafters see the source as well."""
    draft = tiny_t5(model.n_vocab, n_ctx=20).condition([source])  # a smaller context
    yield NGramStore(model.n_vocab, 3, before=source)
    yield PromptLookup(model.n_vocab, 2, before=source)
    yield DraftModel(model, sampler, np.random.default_rng(5))
    yield DraftModel(draft, sampler, np.random.default_rng(5))


@one_of_each
@pytest.mark.parametrize("gamma", [1, 5])
def test_greedy_speculation_gives_the_greedy_ids(name, gamma):
    for row, source in enumerate(EXPECTED[name]["sources"]):
        model, n = conditioned(name, row), MODELS[name].n_ctx - 1
        expected = list(generate(MODELS[name], source, n))
        for drafter in drafters(name, model, source, greedy):
            found = list(generate(MODELS[name], source, n, loop=drafted_by(drafter, gamma)))
            same_greedy(model, model.start_ids, found, expected)


@every_model
@settings(max_examples=10)
@given(data=st.data())
def test_speculation_of_a_batch_gives_each_source_what_it_gets_alone(name, data):
    """By other drafters, each with its own acceptance, samplers, seeds and lengths."""
    sources = data.draw(
        st.lists(st.sampled_from(EXPECTED[name]["sources"]), min_size=1, max_size=4)
    )
    kinds = data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    warm = data.draw(st.lists(st.booleans(), min_size=4, max_size=4))
    ns = data.draw(st.lists(st.integers(1, 14), min_size=4, max_size=4))
    gamma = data.draw(st.integers(1, 6))
    samplers = [Sampler(temperature(0.8), top_k(9)) if w else greedy for w in warm]

    def run(model, rows):
        texts = [Sequence(model, model.start_ids, ns[i], samplers[i], seed=i) for i in rows]
        row_of = dict(zip(texts, rows))

        def new_drafter(sequence):
            i = row_of[sequence]
            single = MODELS[name].condition([sources[i]])
            return list(drafters(name, single, sources[i], samplers[i]))[kinds[i]]

        list(speculative(model, texts, new_drafter, gamma))
        return texts

    together = run(MODELS[name].condition(sources), range(len(sources)))
    for i, text in enumerate(together):
        single = MODELS[name].condition([sources[i]])
        (alone,) = run(single, [i])
        assert (text.ids, text.stop_reason) == (alone.ids, alone.stop_reason)
        if not warm[i]:
            expected = list(generate(MODELS[name], sources[i], ns[i]))
            same_greedy(single, single.start_ids, text.new_ids, expected)


def conditionals(model, n, sampler):
    """{n ids: probability}, the product of the conditionals, for every sequence there is."""
    table = {}
    for ids in itertools.product(range(model.n_vocab), repeat=n):
        logits, text = model([*model.start_ids, *ids[:-1]]), list(model.start_ids)
        table[ids] = 1.0
        for row, token in zip(logits, ids):
            table[ids] *= float(sampler(row, text)[token])
            text.append(token)
    return table


SOURCE, OTHER = [1, 3, 2, 2, 0], [3, 3, 1]


@pytest.mark.parametrize("kind", [1, 3], ids=["lookup", "smaller"])
def test_sampled_speculation_has_the_distribution_of_the_model(kind):
    model, sampler = tiny_t5(4, n_ctx=8, seed=2).condition([SOURCE]), Sampler(temperature(1.5))
    table = conditionals(model, 2, sampler)
    assert abs(sum(table.values()) - 1) < 1e-5  # the chain rule
    drafter = list(drafters("t5", model, SOURCE, sampler))[kind]
    loop, rng, counts = drafted_by(drafter, gamma=2), np.random.default_rng(kind), {}
    for _ in range(600):
        ids = tuple(generate(model, model.start_ids, 2, sampler, rng, loop))
        counts[ids] = counts.get(ids, 0) + 1
    assert p_value(counts, table) > 0.001
    other = conditionals(model.condition([OTHER]), 2, sampler)
    assert p_value(counts, other) < 1e-9  # the test sees another source


@pytest.mark.parametrize("kind", [1, 3], ids=["lookup", "smaller"])
def test_each_source_of_a_batch_has_its_own_distribution(kind):
    model, sampler = tiny_t5(4, n_ctx=8, seed=2), Sampler(temperature(1.5))
    singles = [model.condition([source]) for source in (SOURCE, OTHER)]
    rng = np.random.default_rng(kind)
    texts = [Sequence(model, model.start_ids, 2, sampler, rng) for _ in range(800)]
    made = [list(drafters("t5", single, source, sampler))[kind]
            for single, source in zip(singles, (SOURCE, OTHER))]  # fmt: skip
    drafter_of = {text: made[row % 2] for row, text in enumerate(texts)}
    list(speculative(model.condition([SOURCE, OTHER] * 400), texts, drafter_of.get, gamma=2))
    tables = [conditionals(single, 2, sampler) for single in singles]
    for which in (0, 1):
        counts = Counter(tuple(text.new_ids) for text in texts[which::2])
        assert p_value(counts, tables[which]) > 0.001
        assert p_value(counts, tables[1 - which]) < 1e-9


@every_model
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0], [1, 1, 0, 2, 1]], ids=str)
def test_beams_of_several_sources_are_those_of_each_alone(name, order):
    """Searches of different lengths and numbers of beams; one ends before it starts."""
    sources = [EXPECTED[name]["sources"][row] for row in order]
    model, searches, alone = MODELS[name].condition(sources), [], []
    for i, row in enumerate(order):
        n, width = (12, 5, 0, 9, 3)[i], (3, 1, 2, 4, 2)[i]
        setting = width, 1.0, (False, True, "never")[row], filters(model, n)
        searches.append(Search(model, model.start_ids, n, *setting))
        single = conditioned(name, row)
        alone.append(Search(single, single.start_ids, n, *setting))
        run_together(single, alone[-1:])
    run_together(model, searches)
    for search, other in zip(searches, alone):
        assert [h.ids for h in search.finished] == [h.ids for h in other.finished]
        scores = [h.score for h in search.finished], [h.score for h in other.finished]
        np.testing.assert_allclose(*scores, rtol=1e-5)
        assert bool(search.finished) == (search.n > 0)


@every_model
def test_one_beam_is_greedy(name):
    for row in range(3):
        model = conditioned(name, row)
        found = beam_search(model, model.start_ids, 9, 1, filters=filters(model, 9))
        same_greedy(model, model.start_ids, found[0].ids, greedy_ids(name, row, 9))


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("stop_ids", [(), (3,)], ids=["endless", "with stop"])
def test_wide_beams_find_the_best_of_all_sequences(penalty, stop_ids):
    model = tiny_t5(seed=2, stop_ids=stop_ids).condition([SOURCE])
    found = beam_search(model, model.start_ids, 3, 5**3, penalty)[0]
    scores = {}
    for ids in itertools.product(range(5), repeat=3):
        ends = [i + 1 for i, token in enumerate(ids) if token in stop_ids]
        ids = ids[: ends[0]] if ends else ids
        logits = model([*model.start_ids, *ids[:-1]])
        logits = logits.astype(float)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        scores[ids] = log_probs[range(len(ids)), ids].sum() / len(ids) ** penalty
    best = max(scores, key=scores.get)
    assert tuple(found.ids) == best
    assert abs(found.score - scores[best]) < 1e-5


# -------------------------------------------------------------------------- the encoder runs once


@one_of_each
def test_the_encoder_runs_once_for_each_batch_of_sources(name, monkeypatch):
    calls, encode = [], EncoderDecoder.encode

    def counted(self, ids):
        calls.append(np.shape(ids))
        return encode(self, ids)

    monkeypatch.setattr(EncoderDecoder, "encode", counted)
    model, starts = MODELS[name].begin(EXPECTED[name]["sources"])
    assert starts == [model.start_ids] * 3
    assert calls == [(3, 19)]
    for loop in (naive, cached, drafted_by(NGramStore(model.n_vocab))):
        sequences = [Sequence(model, start, 4 + row) for row, start in enumerate(starts)]
        for sequence in sequences:
            sequence.stop_ids = ()  # each has all of its tokens
        assert len(list(loop(model, sequences))) == 4 + 5 + 6
    assert len(calls) == 1
    single = conditioned(name, 1)
    assert calls[1:] == [(len(EXPECTED[name]["sources"][1]),)]
    beam_search(single, single.start_ids, 5, 3)
    assert len(calls) == 2


# --------------------------------------------------------------- causality, float32, inputs, seed


@one_of_each
def test_a_later_token_changes_no_earlier_logits(name):
    model, ids = conditioned(name, 0), list(EXPECTED[name]["decoder"])
    for position in (1, 7, len(ids) - 1):
        changed = [*ids[:position], (ids[position] + 1) % model.n_vocab, *ids[position + 1 :]]
        logits = model(changed)
        close(logits[:position], ARRAYS[name]["logits0"][:position])
        assert np.abs(logits - ARRAYS[name]["logits0"])[position:].max(-1).min() > 0


@one_of_each
def test_every_source_token_changes_the_logits(name):
    model, source = MODELS[name], EXPECTED[name]["sources"][0]
    ids, logits = EXPECTED[name]["decoder"], ARRAYS[name]["logits0"]
    for position in range(len(source)):
        changed = list(source)
        changed[position] = (source[position] + 1) % model.n_vocab
        assert np.abs(model.condition([changed])(ids) - logits).max() > 1e-3


@every_model
@pytest.mark.parametrize("one", [True, False], ids=["one source", "batch"])
def test_every_step_is_float32(name, one, either_product):
    model = copy.copy(MODELS[name])
    model.params = traced(model.params)
    sources = EXPECTED[name]["sources"]
    Traced.seen.clear()
    model = model.condition(sources[:1] if one else sources)
    rows = 1 if one else 3
    cache = model.new_cache(rows)
    model([EXPECTED[name]["decoder"]] * rows, cache)
    assert isinstance(model([[5]] * rows, cache), Traced)  # the trace went all the way
    assert Traced.seen == {np.dtype(np.float32)}
    assert {a.dtype for a in (cache.kv, *model.source)} == {np.dtype(np.float32)}


@one_of_each
def test_arguments_are_not_changed(name):
    model, sources = MODELS[name], copy.deepcopy(EXPECTED[name]["sources"])
    before = copy.deepcopy(model.params)
    run, single = model.condition(sources), model.condition(sources[:1])
    ids = np.array([[-1, *EXPECTED[name]["decoder"]]] * 3)
    kept, held = ids.copy(), copy.deepcopy((*run.source, *single.source))
    cache = run.new_cache(3)
    run(ids, cache)
    cache.select([2, 0])
    beam_search(single, single.start_ids, 4, 3)
    assert sources == EXPECTED[name]["sources"]
    np.testing.assert_array_equal(ids, kept)
    for array, old in zip(arrays(model.params), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)
    for array, old in zip((*run.source, *single.source), held):
        np.testing.assert_array_equal(array, old)


@one_of_each
def test_conditioning_again_forgets_the_first_source(name):
    first = conditioned(name, 0)
    again = first.condition([EXPECTED[name]["sources"][2]])
    close(again(EXPECTED[name]["decoder"]), ARRAYS[name]["logits2"])
    close(first(EXPECTED[name]["decoder"]), ARRAYS[name]["logits0"])
    assert MODELS[name].source is None


def test_a_seed_reproduces_and_another_one_does_not():
    sampler, source = Sampler(temperature(2.0), top_k(50)), EXPECTED["bart"]["sources"][0]

    def run(seed):
        return list(generate(MODELS["bart"], source, 12, sampler, seed))

    assert run(1) == run(1) != run(2)


# ------------------------------------------------------------ sources, languages, configuration


def test_what_cannot_be_conditioned_is_refused():
    model = MODELS["bart"]
    with pytest.raises(ValueError, match="reads its sources first"):
        model([2])
    with pytest.raises(ValueError, match="41 .* 40"):
        model.condition([[5] * 41])
    model.condition([[5] * 40])
    with pytest.raises(ValueError, match="at least one"):
        model.condition([[5], []])
    for ids in ([5, model.n_vocab], [5, -2], [5.5, 6]):
        for call in (lambda ids: model.condition([ids]), model.condition([[5]])):
            with pytest.raises(ValueError, match="token ids are"):
                call(ids)


def test_sources_get_the_special_tokens_of_their_family_and_are_cut():
    assert MODELS["t5"].add_special_tokens([7, 8]) == [7, 8, 1]
    assert MODELS["bart"].add_special_tokens([7, 8]) == [0, 7, 8, 2]
    cut = MODELS["bart"].add_special_tokens(list(range(4, 100)), truncate=True)
    assert cut == [0, *range(4, 42), 2] and len(cut) == MODELS["bart"].n_source
    assert len(MODELS["bart"].add_special_tokens(list(range(4, 100)))) == 98


def test_languages_are_where_mbart_and_mbart_50_have_them():
    en, ro, de = 44, 60, 43
    one = MODELS["mbart"]
    assert (one.add_special_tokens([7]), one.start_ids) == ([7, 2, en], [ro])  # English by default
    other = one.for_languages(de, en)
    assert (other.add_special_tokens([7]), other.start_ids) == ([7, 2, de], [en])
    fifty = MODELS["mbart-50"].for_languages(de, en)
    assert (fifty.add_special_tokens([7]), fifty.start_ids) == ([de, 7, 2], [2])
    assert fifty.generation_config["forced_bos_token_id"] == en
    assert MODELS["mbart-50"].generation_config["forced_bos_token_id"] == ro  # as it was
    assert one.for_languages(de).start_ids == [ro]
    assert fifty.condition([[7]])([2]).shape == (1, fifty.n_vocab)


def test_forced_tokens_are_first_and_last():
    short, long = (greedy_ids("bart-forced", 0, n) for n in (3, 9))
    assert (short[0], long[0], short[2]) == (0, 0, 2)
    assert MODELS["t5"].forced_filters(3) == []


def test_generation_config_is_the_checkpoint_s():
    config = MODELS["bart-forced"].generation_config
    assert (config["num_beams"], config["length_penalty"]) == (4, 2.0)
    assert (config["max_length"], config["min_length"]) == (15, 6)  # the start counts
    plain = MODELS["bart"].generation_config
    assert plain["forced_eos_token_id"] is None  # config.json does not count
    assert MODELS["bart"].stop_ids == (2,) and MODELS["t5"].stop_ids == (1,)


def test_a_conditioned_model_continues_the_ids_of_its_answer():
    model = MODELS["t5"]
    source = EXPECTED["t5"]["sources"][0]
    conditioned, [start] = model.begin([source])
    assert start == model.start_ids
    assert conditioned.begin([[0, 5]]) == (conditioned, [[0, 5]])
    whole = list(generate(model, source, 6))
    assert list(generate(conditioned, [*start, *whole[:2]], 4)) == whole[2:]
