"""T5, BART and mBART: equal to the reference, and models like any other for every loop.

fixtures/make_seq2seq.py made the checkpoints and what transformers says of them.
"""

import copy
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from layers import ACTIVATIONS
from hypothesis import given, settings
from hypothesis import strategies as st

import utils
from beam import beam_search
from generate import cached, generate, naive
from loading import layouts, tensors
from samplers import Sampler, min_length, no_repeat_ngram, one_hot, temperature, top_k
from seq2seq import T5, EncoderDecoder, relative_bias
from speculative import DraftModel, NGramStore, PromptLookup, speculative
from tests.tiny import Traced, arrays, chi_square, close, same_greedy, traced

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
    """What the checkpoint's configuration asks for, where n new tokens are wanted."""
    defaults = model.generation_config
    least, repeats = defaults.get("min_length"), defaults.get("no_repeat_ngram_size")
    found = [no_repeat_ngram(repeats)] if repeats else []
    found += [min_length(least, model.stop_ids)] if least else []
    return found + model.filters(n)


def greedy_ids(model, n, loop=cached):
    sampler = Sampler(*filters(model, n), pick=one_hot)
    return list(generate(model, model.start_ids, n, sampler, loop=loop))


def tiny_t5(n_vocab=5, n_ctx=16, seed=0, stop_ids=()):
    """A T5 over a vocabulary small enough to write down all that it can say."""
    rng = np.random.default_rng(seed)

    def random(shape):
        return rng.normal(0, 0.6, shape).astype(np.float32)

    shapes = layouts.t5_shapes(n_vocab, 8, 3, 10, 2, (2, 1), 8, gated=True, untied=True)
    params = tensors.fill(shapes, lambda name, shape: random(shape))
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
        ids = greedy_ids(conditioned(name, row), EXPECTED[name]["n_new"])
        assert ids == expected["greedy"]


@every_model
def test_beams_are_the_reference_s(name):
    n, defaults = EXPECTED[name]["n_new"], MODELS[name].generation_config
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        model = conditioned(name, row)
        found = beam_search(
            model, model.start_ids, n, 3, defaults.get("length_penalty", 1.0),
            defaults.get("early_stopping", False), 3, filters(model, n),
        )  # fmt: skip
        assert [h.ids for h in found] == [unpadded(b["ids"], model) for b in expected["beam"]]
        np.testing.assert_allclose(
            [h.score for h in found], [b["score"] for b in expected["beam"]], rtol=1e-5
        )


def unpadded(ids, model):
    """The reference fills a shorter sequence up behind its stop id."""
    ends = [i + 1 for i, token in enumerate(ids) if token in model.stop_ids]
    return ids[: ends[0]] if ends else ids


def test_the_fixtures_have_texts_that_stop_early_and_texts_that_do_not():
    lengths = {len(row["greedy"]) for name in NAMES for row in EXPECTED[name]["rows"]}
    assert len(lengths) > 1 and max(lengths) == EXPECTED["t5"]["n_new"]


@pytest.mark.parametrize("key", sorted(np.load(FOLDERS / "buckets.npz").files))
def test_buckets_of_relative_positions(key):
    n_buckets, max_distance, both_ways = map(int, key.split("_")[1:])
    table = np.arange(n_buckets)[:, None]  # each bucket's "bias" is its number
    bias = relative_bias(table, 601, 601, bool(both_ways), max_distance)
    np.testing.assert_array_equal(bias[0, 300], np.load(FOLDERS / "buckets.npz")[key])


def test_the_bias_of_a_step_is_the_last_row_of_the_whole():
    table = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    whole = relative_bias(table, 200, 200, False, 128)
    np.testing.assert_array_equal(relative_bias(table, 3, 200, False, 128), whole[:, -3:])


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
def test_the_last_positions_alone(name):
    model = conditioned(name, 1)
    ids = EXPECTED[name]["decoder"]
    close(model(ids, last=2), ARRAYS[name]["logits1"][-2:])
    close(model(ids, last=100), ARRAYS[name]["logits1"])


@one_of_each
def test_cutting_the_cache_leaves_the_source_alone(name):
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
def test_naive_and_cached_say_the_same(name):
    n = EXPECTED[name]["n_new"]
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        assert greedy_ids(conditioned(name, row), n, naive) == expected["greedy"]


# ---------------------------------------------------------------------- batched == one by one


@every_model
@pytest.mark.parametrize("loop", [naive, cached])
def test_a_batch_whose_rows_end_at_different_times_is_the_same_as_one_by_one(name, loop):
    model = conditioned(name)
    lengths = [9, 3, 12]
    samplers = [Sampler(*filters(model, n), pick=one_hot) for n in lengths]
    prompts = [model.start_ids] * 3
    rngs = [np.random.default_rng(row) for row in range(3)]
    found = [[], [], []]

    def done(row, ids):
        return len(ids) - len(prompts[row]) == lengths[row] or (
            len(ids) > 1 and ids[-1] in model.stop_ids
        )

    for row, token in loop(model, prompts, samplers, rngs, done):
        found[row].append(token)
    for row, n in enumerate(lengths):
        alone = conditioned(name, row)
        same_greedy(alone, alone.start_ids, found[row], greedy_ids(alone, n))


@one_of_each
@settings(max_examples=15)
@given(data=st.data())
def test_left_padding_of_the_decoder_changes_no_logits(name, data):
    model, ids = conditioned(name), EXPECTED[name]["decoder"][:12]
    pads = [data.draw(st.integers(0, 4)) for _ in range(3)]
    batch = [[-1] * pad + ids[: len(ids) - pad] for pad in pads]
    split = data.draw(st.integers(1, len(ids) - 1))
    cache = model.new_cache(3)
    parts = [model([row[:split] for row in batch], cache)]
    parts += [model([row[split:] for row in batch], cache)]
    logits = np.concatenate(parts, axis=1)
    for row, pad in enumerate(pads):
        close(logits[row, pad:], ARRAYS[name][f"logits{row}"][: len(ids) - pad])


@one_of_each
@pytest.mark.parametrize(
    "rows", [[2, 0, 1], [1], [2, 2], [0, 2, 2, 1, 0], [1, 2], [0, 1, 2]], ids=str
)
def test_selected_rows_keep_their_sources(name, rows):
    model, ids = conditioned(name), EXPECTED[name]["decoder"]
    cache = model.new_cache(3)
    model([ids[:6]] * 3, cache)
    cache.select(rows)
    by_cache = model([ids[6:]] * len(rows), cache)
    by_model = model.select(rows)([ids] * len(rows))
    for i, row in enumerate(rows):
        close(by_cache[i], ARRAYS[name][f"logits{row}"][6:])
        close(by_model[i], ARRAYS[name][f"logits{row}"])
    assert model([ids] * 3).shape[0] == 3  # the model itself is as it was


@one_of_each
def test_one_source_serves_any_batch_shape(name):
    model, ids = conditioned(name, 0), EXPECTED[name]["decoder"]
    for shape in ((), (1,), (4,), (2, 3)):
        logits = model(np.broadcast_to(ids, (*shape, len(ids))))
        close(logits, np.broadcast_to(ARRAYS[name]["logits0"], logits.shape))
    assert model.select([0, 0, 0]).source is model.source  # and is not copied for beams


# ---------------------------------------------------------------------------- speculation, beam


def drafters(name, model, source, sampler):
    """One of each kind; the n-gram drafters see the source as well."""
    draft = tiny_t5(model.n_vocab, n_ctx=20).condition([source])  # a smaller context
    yield NGramStore(model.n_vocab, 3, before=source)
    yield PromptLookup(model.n_vocab, 2, before=source)
    yield DraftModel(model.select([0]), sampler, np.random.default_rng(5))
    yield DraftModel(draft, sampler, np.random.default_rng(5))


@one_of_each
@pytest.mark.parametrize("gamma", [1, 5])
def test_greedy_speculation_says_what_greedy_says(name, gamma):
    for row, source in enumerate(EXPECTED[name]["sources"]):
        model = conditioned(name, row)
        n = model.n_ctx - 1
        sampler = Sampler(pick=one_hot)
        expected = list(generate(model, model.start_ids, n, sampler))
        for drafter in drafters(name, model, source, sampler):

            def loop(*args, drafter=drafter):
                return speculative(*args, drafters=[drafter], gamma=gamma)

            found = list(generate(model, model.start_ids, n, sampler, loop=loop))
            same_greedy(model, model.start_ids, found, expected)


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
THRESHOLD = 37.7  # chi-square with 15 degrees of freedom exceeds it with p = 0.001


@pytest.mark.parametrize("kind", [1, 3], ids=["lookup", "smaller"])
def test_sampled_speculation_has_the_distribution_of_the_model(kind):
    model, sampler = tiny_t5(4, n_ctx=8, seed=1).condition([SOURCE]), Sampler(temperature(1.5))
    table = conditionals(model, 2, sampler)
    assert abs(sum(table.values()) - 1) < 1e-5  # the chain rule
    drafter = list(drafters("t5", model, SOURCE, sampler))[kind]
    rng, counts = np.random.default_rng(kind), {}
    for _ in range(600):
        run = speculative(model, [model.start_ids], [sampler], [rng],
                          lambda row, ids: len(ids) == 3, [drafter], gamma=2)  # fmt: skip
        ids = tuple(token for _, token in run)
        counts[ids] = counts.get(ids, 0) + 1
    assert chi_square(counts, table) < THRESHOLD
    other = conditionals(model.condition([OTHER]), 2, sampler)
    assert chi_square(counts, other) > 2 * THRESHOLD  # the test sees another source


@every_model
def test_one_beam_is_greedy(name):
    for row in range(3):
        model = conditioned(name, row)
        found = beam_search(model, model.start_ids, 9, 1, filters=filters(model, 9))
        same_greedy(model, model.start_ids, found[0].ids, greedy_ids(model, 9))


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
def test_the_encoder_runs_once_whatever_the_method(name, monkeypatch):
    calls, encode = [], EncoderDecoder.encode

    def counted(self, ids):
        calls.append(np.shape(ids))
        return encode(self, ids)

    monkeypatch.setattr(EncoderDecoder, "encode", counted)
    model = conditioned(name)
    assert calls == [(3, 19)]
    for loop in (naive, cached):
        run = loop(model, [model.start_ids] * 3, [Sampler(pick=one_hot)] * 3, [None] * 3,
                   lambda row, ids: len(ids) > 4 + row)  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("generate.draw", lambda probs, rng: int(np.argmax(probs)))
            assert len(list(run)) == 15
    alone = model.select([1])
    beam_search(alone, alone.start_ids, 5, 3)
    store = NGramStore(model.n_vocab)
    rng = np.random.default_rng(0)
    list(speculative(alone, [alone.start_ids], [Sampler()], [rng], lambda row, ids: len(ids) > 6,
                     [store]))  # fmt: skip
    assert len(calls) == 1


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
def test_every_step_is_float32(name, one):
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
    assert {a.dtype for a in (*cache.keys, *model.source.keys)} == {np.dtype(np.float32)}


@one_of_each
def test_arguments_are_not_changed(name):
    model, sources = MODELS[name], copy.deepcopy(EXPECTED[name]["sources"])
    before = copy.deepcopy(model.params)
    run = model.condition(sources)
    ids = np.array([[-1, *EXPECTED[name]["decoder"]]] * 3)
    kept, held = ids.copy(), copy.deepcopy(run.source)
    run(ids, run.new_cache(3))
    beam_search(run.select([0]), run.start_ids, 4, 3)
    assert sources == EXPECTED[name]["sources"]
    np.testing.assert_array_equal(ids, kept)
    for array, old in zip(arrays(model.params), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)
    for array, old in zip(run.source.keys + run.source.values, held.keys + held.values):
        np.testing.assert_array_equal(array, old)


@one_of_each
def test_conditioning_again_forgets_the_first_source(name):
    first = conditioned(name, 0)
    again = first.condition([EXPECTED[name]["sources"][2]])
    close(again(EXPECTED[name]["decoder"]), ARRAYS[name]["logits2"])
    close(first(EXPECTED[name]["decoder"]), ARRAYS[name]["logits0"])
    assert MODELS[name].source is None


def test_a_seed_reproduces_and_another_one_does_not():
    model, sampler = conditioned("bart", 0), Sampler(temperature(2.0), top_k(50))

    def run(seed):
        return list(generate(model, model.start_ids, 12, sampler, seed))

    assert run(1) == run(1) != run(2)


# ------------------------------------------------------------------------------ around the model


def test_what_cannot_be_conditioned_is_refused():
    model = MODELS["bart"]
    with pytest.raises(ValueError, match="conditioned"):
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


def test_sources_are_wrapped_and_cut_as_the_family_wants_it():
    assert MODELS["t5"].add_special_tokens([7, 8]) == [7, 8, 1]
    assert MODELS["bart"].add_special_tokens([7, 8]) == [0, 7, 8, 2]
    cut = MODELS["bart"].add_special_tokens(list(range(4, 100)), truncate=True)
    assert cut == [0, *range(4, 42), 2] and len(cut) == MODELS["bart"].n_source
    assert len(MODELS["bart"].add_special_tokens(list(range(4, 100)))) == 98


def test_languages_stand_where_mbart_and_mbart_50_have_them():
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
    model = conditioned("bart-forced", 0)
    assert [ids[0] for ids in (greedy_ids(model, 3), greedy_ids(model, 9))] == [0, 0]
    assert greedy_ids(model, 3)[2] == 2
    assert MODELS["t5"].filters(3) == []


def test_defaults_are_the_checkpoint_s():
    defaults = MODELS["bart-forced"].generation_config
    assert (defaults["num_beams"], defaults["length_penalty"]) == (4, 2.0)
    assert (defaults["max_length"], defaults["min_length"]) == (15, 6)  # the start counts
    assert MODELS["bart"].generation_config["forced_eos_token_id"] is None  # config.json does not count
    assert MODELS["bart"].stop_ids == (2,) and MODELS["t5"].stop_ids == (1,)
