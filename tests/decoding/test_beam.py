"""beam.py finds the same texts as transformers. The cache follows the beams,
and the trace contains every candidate.

The sequences and scores of transformers are in a file that tests/fixtures/make_beam.py writes.
"""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.beam import Candidate, Hypothesis, beam_search, top_indices
from gpt2 import GPT2, log_softmax
from samplers import min_length, no_repeat_ngram
from tests.fixtures import make_beam
from tests.fixtures.make_beam import N_CTX, N_HEAD, PROMPT, STOPS
from tests.support.tiny import FIXTURES, Watched

REFERENCE = json.loads((FIXTURES / "beam.json").read_text(encoding="utf-8"))


def random_model(stops="no end", seed=0):
    stop_ids, bias = STOPS[stops]
    model = GPT2(make_beam.random_params(bias, stop_ids, seed), N_HEAD)
    model.stop_ids = stop_ids
    return model


@pytest.mark.parametrize("stops", STOPS)
def test_ids_and_scores_equal_the_reference(stops):
    model = random_model(stops)
    for case in make_beam.cases():
        if case["stops"] != stops:
            continue
        start, filters = len(case["prompt"]), []
        if case["no_repeat_ngram"]:
            filters.append(no_repeat_ngram(case["no_repeat_ngram"]))
        if case["min_new"]:
            filters.append(min_length(start + case["min_new"], model.stop_ids))
        settings = {key: case[key] for key in ("width", "length_penalty", "early_stopping")}
        ends = partial(lambda case, ids: ids[-1] in case["ends"], case)
        settings |= {"n_return": case["width"], "filters": filters, "ends": ends}
        found = beam_search(model, case["prompt"], case["n"], **settings)
        ids, scores = zip(*REFERENCE[make_beam.name(case)])
        assert [h.ids for h in found] == list(ids), case
        assert [h.score for h in found] == pytest.approx(list(scores), rel=2e-5), case


def test_one_pass_reads_the_prompt_and_one_pass_per_step_continues_the_kept_beams():
    watched, trace = Watched(random_model("some end", seed=1)), []
    found = beam_search(watched, PROMPT, 16, 5, n_return=5, trace=trace)
    assert watched.shapes[0] == (1, len(PROMPT))
    assert watched.shapes[1:] == [(sum(c.status == "kept" for c in step), 1) for step in trace[:-1]]
    assert watched.lasts == {1}  # only the last token's logits are computed
    parents = [[c.parent for c in step if c.status == "kept"] for step in trace[1:]]
    assert any(rows != [0, 1, 2, 3, 4] for rows in parents)  # the cache has followed its beams:
    for ids, log_probability, _ in found:
        rows = log_softmax(watched.model([*PROMPT, *ids]))[len(PROMPT) - 1 : -1]
        assert log_probability == pytest.approx(rows[range(len(ids)), ids].sum(), rel=1e-5)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"width": 0}, "n=5 is below 1, or n_return=1 is not from 1 to width=0"),
        ({"n": 0}, "n=0"),
        ({"early_stopping": "nver"}, "early_stopping is 'nver', not True"),
        ({"length_penalty": 1000}, "length_penalty is 1000, not from -50 to 50"),
        ({"prompt": "The cat"}, "encode the text first"),
        ({"prompt": [1] * N_CTX}, "a prompt of 32 tokens: 1 to 31"),
        ({"filters": [lambda logits, ids: np.full_like(logits, -np.inf)]}, "no text is left"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        beam_search(random_model(), **{"prompt": PROMPT, "n": 5} | change)


@given(
    st.lists(st.sampled_from([-np.inf, np.nan, -3.0, -2.0, 0.0, 4.0]), min_size=1, max_size=40),
    st.integers(1, 50),
)
def test_top_indices_equals_a_stable_sort(values, k):
    wanted = sorted((i for i, v in enumerate(values) if v > -np.inf), key=lambda i: -values[i])
    assert top_indices(np.array(values, np.float32), k).tolist() == wanted[:k]


@pytest.mark.parametrize("stops", ["no end", "some end", "two ends"])
def test_the_trace_has_every_candidate(stops):
    model, trace = random_model(stops), []
    found = beam_search(model, PROMPT, 8, 3, n_return=3, trace=trace)
    beams = [Candidate(0, (), 0.0, "kept")]
    for step in trace:
        assert len(step) == min(max(2, 1 + len(model.stop_ids)) * 3, len(beams) * make_beam.N_VOCAB)
        sums = [c.log_probability for c in step]
        assert sums == sorted(sums, reverse=True)
        assert all(c.ids[:-1] == beams[c.parent].ids for c in step)
        assert all(c.status == "dropped" for c in step[3:] if c.ids[-1] in model.stop_ids)
        beams = [c for c in step if c.status == "kept"]
        assert len(beams) == (3 if step is not trace[-1] or len(trace) < 8 else 0)
    finished = {c.ids: c.log_probability for step in trace for c in step if c.status == "finished"}
    assert {tuple(h.ids): h.log_probability for h in found}.items() <= finished.items()
    assert isinstance(found[0], Hypothesis) and len(found) == 3
