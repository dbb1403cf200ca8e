"""T5, BART and mBART equal the reference, transformers. Every loop runs them like any other model.

fixtures/make_seq2seq.py wrote the checkpoints, and the results of transformers for each of them.
"""

import json
from unittest.mock import Mock

import numpy as np
import pytest

import gpt2
import utils
from decoding.batching import Rows, continuous
from decoding.beam import beam_search
from families.seq2seq import EncoderDecoder, relative_bias
from generate import Sequence, begin, generate, naive
from loading.config import FORCED, forced_filters
from loading.seq2seq import set_languages
from samplers import Sampler, min_length, no_repeat_ngram, one_hot
from tests.support.tiny import FIXTURES, close, until

FOLDERS = FIXTURES / "seq2seq"
NAMES = ["t5", "t5-gated-untied", "t5-narrow-heads", "bart", "bart-forced", "bart-cnn"]
NAMES += ["mbart", "mbart-50"]
LOADED = {name: utils.load(FOLDERS / name) for name in NAMES}
MODELS = {name: model for name, (_, model) in LOADED.items()}
EXPECTED = {name: json.loads((FOLDERS / name / "expected.json").read_text()) for name in NAMES}
ARRAYS = {name: dict(np.load(FOLDERS / name / "expected.npz")) for name in NAMES}
every_model = pytest.mark.parametrize("name", NAMES)
one_of_each = pytest.mark.parametrize("name", ["t5-gated-untied", "bart", "mbart"])


def reader(name, row):
    """Return the model that has read source number `row`."""
    return MODELS[name].read(EXPECTED[name]["sources"][row])


def filters(model, n):
    """Return the filters that the model's generation_config requires for n new tokens."""
    config = model.family.generation_config
    least, repeats = config.get("min_length"), config.get("no_repeat_ngram_size")
    found = [no_repeat_ngram(repeats)] if repeats else []
    found += [min_length(least, model.stop_ids)] if least else []
    return found + forced_filters(config, len(model.start_ids) + n)


@every_model
def test_the_encoder_equals_the_reference_s(name):
    for row, source in enumerate(EXPECTED[name]["sources"]):
        close(MODELS[name].encode(np.array(source)), ARRAYS[name][f"encoded{row}"])


@every_model
def test_logits_equal_the_reference_s(name):
    for row in range(3):
        model, ids = reader(name, row), EXPECTED[name]["decoder"]
        close(model(ids), ARRAYS[name][f"logits{row}"])


@every_model
def test_a_batch_of_sources_of_different_lengths_equals_the_reference_s(name):
    """The reference pads short sources. Here, each row joins the batch with an unpadded source."""
    ids, rows = EXPECTED[name]["decoder"], Rows()
    for row in range(3):
        model = reader(name, row)
        cache = model.new_cache()
        model(ids[:-1], cache)
        rows.join(cache)
    close(model([ids[-1:]] * 3, rows)[:, 0], ARRAYS[name]["padded"])


@every_model
def test_greedy_ids_equal_the_reference_s(name):
    n = EXPECTED[name]["n_new"]
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        sampler = Sampler(*filters(reader(name, row), n), to_probs=one_hot)
        found = generate(MODELS[name], EXPECTED[name]["sources"][row], n, sampler)
        assert list(found) == expected["greedy"]


@every_model
def test_beams_equal_the_reference_s(name):
    n, config = EXPECTED[name]["n_new"], MODELS[name].generation_config
    ends = config.get("length_penalty", 1.0), config.get("early_stopping", False)
    for row, expected in enumerate(EXPECTED[name]["rows"]):
        model = reader(name, row)
        found = beam_search(model, model.start_ids, n, 3, *ends, 3, filters(model, n))
        assert [h.ids for h in found] == [until(b["ids"], model.stop_ids) for b in expected["beam"]]
        scores = [b["score"] for b in expected["beam"]]
        np.testing.assert_allclose([h.score for h in found], scores, rtol=1e-5)


@pytest.mark.parametrize("key", sorted(np.load(FOLDERS / "buckets.npz").files))
def test_the_buckets_of_relative_positions_equal_the_reference_s(key):
    n_buckets, max_distance, both_ways = map(int, key.split("_")[1:])
    table = np.arange(n_buckets)[:, None]  # the "bias" of bucket i is i
    bias = relative_bias(table, np.arange(601), bool(both_ways), max_distance)
    np.testing.assert_array_equal(bias[0, 300], np.load(FOLDERS / "buckets.npz")[key])


@one_of_each
def test_the_encoder_runs_once_for_each_source(name, monkeypatch):
    """The loops and the search then run the decoder alone."""
    calls, encode = [], EncoderDecoder.encode
    monkeypatch.setattr(EncoderDecoder, "encode", lambda *a: calls.append(a) or encode(*a))
    model, ids = begin(MODELS[name], EXPECTED[name]["sources"][1])
    assert ids == MODELS[name].start_ids
    beam_search(model, ids, 5, 3)
    list(continuous([Sequence(model, ids, n) for n in (2, 5)]))
    list(naive(model, Sequence(model, ids, 4)))
    assert len(calls) == 1


@one_of_each
def test_a_replaced_attention_runs_in_the_encoder_and_twice_in_the_decoder(name, monkeypatch):
    """Every attention layer calls gpt2.attention, so that a user can replace it."""
    attention = Mock(wraps=gpt2.attention)
    monkeypatch.setattr(gpt2, "attention", attention)
    model, params = reader(name, 0), MODELS[name].params
    assert attention.call_count == len(params["encoder"]["blocks"])
    model(EXPECTED[name]["decoder"])
    n_decoder = attention.call_count - len(params["encoder"]["blocks"])
    assert n_decoder == 2 * len(params["decoder"]["blocks"])


def test_a_wrong_source_is_refused():
    model = MODELS["bart"]
    for source in ([5] * 41, [5, model.n_vocab], "Hello"):
        with pytest.raises(ValueError, match="prompt|token ids"):
            model.read(source)
    model.read([5] * 40)


def test_mbart_and_mbart_50_put_languages_at_different_places():
    en, ro, de = 44, 60, 43
    tokenizer, one = utils.load(FOLDERS / "mbart")
    assert (tokenizer.encode(""), one.start_ids) == ([2, en], [ro])  # default languages
    set_languages(tokenizer, one, "de_DE")
    assert (tokenizer.encode(""), one.start_ids) == ([2, de], [ro])
    set_languages(tokenizer, one, "de_DE", "en_XX")
    assert (tokenizer.encode(""), one.start_ids) == ([2, de], [en])
    tokenizer, fifty = utils.load(FOLDERS / "mbart-50")
    assert tokenizer.encode("") == [en, 2] and fifty.generation_config[FORCED[0]] == ro
    set_languages(tokenizer, fifty, "de_DE", "en_XX")
    assert (tokenizer.encode(""), fifty.start_ids) == ([de, 2], [2])
    assert fifty.generation_config[FORCED[0]] == en
