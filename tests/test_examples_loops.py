"""The loops and drafters in examples/choosing.py, best_first.py, stochastic_beams.py and drafts.py
follow their definitions."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import utils
from decoding.drafters import Measured
from decoding.score import log_probabilities
from examples import choosing
from examples.best_first import best_first
from examples.drafts import Jacobi, Recycling
from examples.stochastic_beams import Distinct, gumbels, stochastic_beams
from generate import Sequence, begin, generate
from samplers import Sampler, min_length, temperature, top_k
from tests.tiny import FunctionModel, Watched, drafted_by, p_value, tiny_gpt2

REFERENCE = np.load(Path(__file__).parent / "fixtures" / "examples.npz")
MODEL, PLAIN = tiny_gpt2(n_vocab=5, stop_ids=[4]), Sampler()
PROMPT, N = [1, 2], 4


def every_text(model=MODEL, prompt=PROMPT, n=N, sampler=PLAIN):
    """Return {new ids: P} for all possible texts. A text ends with a stop id or after n tokens."""
    texts, found = {(): 1.0}, {}
    for length in range(1, n + 1):
        longer = {}
        for text, p in texts.items():
            ids = [*prompt, *text]
            for token, q in enumerate(sampler(model(ids)[-1], ids).tolist()):
                ends = token in model.stop_ids or length == n
                (found if ends else longer)[(*text, token)] = p * q
        texts = longer
    return {text: p for text, p in found.items() if p > 0}


def run(loop, model, prompts, n=N, sampler=PLAIN, seed=0):
    sequences = []
    for i, prompt in enumerate(prompts):
        sequence = Sequence(*begin(model, prompt), n, sampler, seed + i)
        for token in loop(sequence.model, sequence):
            assert sequence.ids[-1] == token
        sequences.append(sequence)
    return sequences


# --- choosing among texts -------------------------------------------------------------------------


def test_chrf_equals_sacrebleu_s():
    for (one, other), expected in zip(REFERENCE["texts"], REFERENCE["chrf"]):
        found = choosing.chrf(choosing.ngrams(str(one)), choosing.ngrams(str(other)))
        assert found == pytest.approx(expected, abs=1e-6), (one, other)


def test_best_of_n_keeps_the_highest_mean_log_p():
    [row] = run(choosing.best_of(6), MODEL, [PROMPT], seed=3)
    seeds = np.random.default_rng(3).integers(2**62, size=6)
    texts = [list(generate(MODEL, PROMPT, N, Sampler(), seed)) for seed in seeds]
    means = [log_probabilities(MODEL, PROMPT + text)[1:].mean() for text in texts]
    assert len({*map(tuple, texts)}) > 3
    assert row.new_ids == texts[int(np.argmax(means))]


def test_best_of_many_is_nearly_the_best_of_all():
    texts = every_text()
    best = max(texts, key=lambda text: np.log(texts[text]) / len(text))
    assert run(choosing.best_of(400), MODEL, [PROMPT])[0].new_ids == [*best]


class Letters:
    """A tokenizer whose tokens are the single characters a, b, c, d and the full stop."""

    def decode(self, ids):
        return "".join("abcd."[id] for id in ids)


def test_minimum_bayes_risk_keeps_the_text_most_like_the_others():
    [row] = run(choosing.mbr(7, tokenizer=Letters()), MODEL, [PROMPT], seed=5)
    seeds = np.random.default_rng(5).integers(2**62, size=7)
    texts = [Letters().decode(generate(MODEL, PROMPT, N, Sampler(), seed)) for seed in seeds]
    grams = [*map(choosing.ngrams, texts)]
    likeness = [sum(choosing.chrf(a, b) for b in grams) for a in grams]
    assert len({*texts}) > 3
    assert Letters().decode(row.new_ids) == texts[int(np.argmax(likeness))]


def test_best_of_one_is_a_plain_draw():
    counts = Counter(
        tuple(run(choosing.best_of(1), MODEL, [PROMPT], 2, seed=seed)[0].new_ids)
        for seed in range(600)
    )
    assert p_value(counts, every_text(n=2)) > 1e-3


@pytest.mark.parametrize("loop", [choosing.best_of(3), best_first(300)], ids=["best of", "best"])
def test_a_loop_translates_a_source(loop):
    tokenizer, model = utils.load("en-de")
    source = model.add_special_tokens(tokenizer.encode("Go home!"))
    [row] = run(loop, model, [source], 12, Sampler(temperature(0.5)))
    assert row.new_ids[-1] in model.stop_ids
    assert "Hause" in tokenizer.decode(row.new_ids)


# --- best-first search ----------------------------------------------------------------------------


def test_best_first_finds_the_most_probable_text():
    found = []
    for seed in range(8):
        model = tiny_gpt2(n_vocab=5, stop_ids=[4], seed=seed)
        texts = every_text(model)
        [row] = run(best_first(), model, [PROMPT])
        assert row.new_ids == [*max(texts, key=texts.get)]
        assert row.stop_reason in ("eos", "length")
        found.append(row.new_ids == list(generate(model, PROMPT, N)))
    assert not all(found)  # for some seeds, greedy search finds a different text


def test_best_first_search_obeys_the_filters():
    sampler = Sampler(min_length(len(PROMPT) + 3, MODEL.stop_ids), top_k(2))
    texts = every_text(sampler=sampler)
    [row] = run(best_first(), MODEL, [PROMPT], sampler=sampler)
    assert row.new_ids == [*max(texts, key=texts.get)]


@pytest.mark.parametrize(
    "passes, n_passes, length, reason",
    [
        (10, 10, 2, "passes"),  # 1 + 3 + 6 passes, after texts of 0, 1 and 2 new tokens
        (13, 13, 3, "passes"),
        (40, 40, 4, "length"),
        (99, 40, 4, "length"),
    ],
)
def test_the_passes_are_bounded(passes, n_passes, length, reason):
    flat = Watched(FunctionModel(lambda ids: np.zeros(3, np.float32), 3))  # uniform probabilities
    sequence = Sequence(flat, PROMPT, N)
    assert len(list(best_first(passes)(flat, sequence))) == length
    assert len(flat.shapes) == n_passes
    assert sequence.stop_reason == reason


def test_a_search_without_any_text_is_an_error():
    none = Sampler(lambda logits, ids: logits - np.inf)
    with pytest.raises(ValueError, match="no text is left"), np.errstate(all="ignore"):
        run(best_first(), MODEL, [PROMPT], sampler=none)


# --- stochastic beams -----------------------------------------------------------------------------


def test_two_beams_are_two_draws_without_replacement():
    """In draws without replacement, P(first a, then b) = P(a) P(b) / (1 - P(a))."""
    model = tiny_gpt2(n_vocab=3, stop_ids=[2])
    texts, sampler = every_text(model, [1], 2), Sampler()
    in_order = itertools.permutations(texts, 2)
    pairs = {(a, b): texts[a] * texts[b] / (1 - texts[a]) for a, b in in_order}
    counts, wrong = Counter(), Counter()
    for seed in range(600):
        beams = stochastic_beams(model, Sequence(model, [1], 2, sampler, seed), 2)
        counts[tuple(tuple(beam.ids) for beam in beams)] += 1
        firsts = np.random.default_rng(seed).choice(len(texts), 2, replace=False)
        wrong[tuple([*texts][i] for i in firsts)] += 1
    assert p_value(counts, pairs) > 1e-3
    assert p_value(wrong, pairs) < 1e-3


def test_enough_beams_find_all_texts():
    texts = every_text()
    beams = stochastic_beams(MODEL, Sequence(MODEL, PROMPT, N, Sampler()), 10_000)
    found = {tuple(beam.ids): beam.log_p for beam in beams}
    assert len(beams) == len(texts) and found.keys() == texts.keys()
    for text, log_p in found.items():
        assert log_p == pytest.approx(np.log(texts[text]), abs=1e-3)
    assert [beam.perturbed for beam in beams] == sorted((b.perturbed for b in beams), reverse=True)


def test_the_largest_sum_is_the_given_one():
    log_p = np.log([0.1, 0.2, 0.3, 0.4])
    counts = Counter()
    for seed in range(1000):
        sums = gumbels(log_p, 3.5, np.random.default_rng(seed))
        assert sums.max() == 3.5
        counts[int(sums.argmax())] += 1
    assert p_value(counts, dict(enumerate(np.exp(log_p)))) > 1e-3


def test_equal_prompts_get_different_texts():
    rows = run(Distinct(3), MODEL, [PROMPT, [3], PROMPT, PROMPT, [3]], sampler=Sampler(top_k(2)))
    for group in ([0, 2, 3], [1, 4]):
        assert len({tuple(rows[i].ids) for i in group}) == len(group)
    assert all(not row.running for row in rows)


def test_a_row_is_empty_if_no_other_text_exists():
    rows = run(Distinct(5), MODEL, [PROMPT] * 3, n=1, sampler=Sampler(top_k(2)))
    assert [row.stop_reason for row in rows[2:]] == ["no other"]
    assert [len(row.new_ids) for row in rows] == [1, 1, 0]


# --- drafts ---------------------------------------------------------------------------------------

DRAFTERS = {"Jacobi": Jacobi, "Recycling": Recycling}
each_drafter = pytest.mark.parametrize("new", DRAFTERS.values(), ids=DRAFTERS)


@each_drafter
def test_drafts_change_no_text(new):
    model = tiny_gpt2()
    for prompt in (PROMPT, [3]):
        drafted = generate(model, prompt, 20, loop=drafted_by(new(model)))
        assert list(drafted) == list(generate(model, prompt, 20))


@each_drafter
def test_drafts_keep_the_distribution(new):
    loop = drafted_by(new(MODEL))
    counts = Counter(tuple(generate(MODEL, PROMPT, 2, PLAIN, seed, loop)) for seed in range(400))
    assert p_value(counts, every_text(n=2)) > 1e-3


@pytest.mark.parametrize("new, last_matters", [(Jacobi, False), (Recycling, True)])
def test_many_drafts_are_accepted(new, last_matters):
    """Many of Jacobi's drafts are right if each token depends only on its position. Many of
    Recycling's drafts are right if each token depends only on the token before it."""

    def next_one(ids):
        return np.eye(4, dtype=np.float32)[(ids[-1] + 1 if last_matters else len(ids) ** 2) % 4]

    model = FunctionModel(next_one, 4, n_ctx=60)
    measured = Measured(new(model))
    drafted = generate(model, [0], 40, loop=drafted_by(measured))
    assert list(drafted) == list(generate(model, [0], 40))
    assert measured.tokens_per_pass > 2.5


def test_jacobi_drafts_the_last_pass_s_best_tokens_at_these_positions():
    jacobi = Jacobi(MODEL)
    assert jacobi.propose([3, 1], 3)[0] == [1, 1, 1]
    logits = np.eye(5, dtype=np.float32)[[2, 0, 3, 1]]  # after [3, 1] and after each draft
    jacobi.learn([3, 1], [1, 1, 1], logits, [2])
    drafts, qs = jacobi.propose([3, 1, 2], 4)
    assert drafts == [0, 3, 1, 2]
    assert [q.argmax() for q in qs] == drafts


def test_recycling_drafts_the_latest_successors():
    recycling = Recycling(MODEL)
    assert recycling.propose([3, 1], 3)[0] == []
    recycling.learn([3, 1], [0, 2], np.eye(5, dtype=np.float32)[[0, 3, 1]], [0])
    assert recycling.propose([3, 1, 0], 4)[0] == [3]  # 0 has the successor 3, and 3 has none
    assert recycling.propose([3, 1, 2], 4)[0] == [1, 0, 3]
    recycling.learn([3, 1], [], np.eye(5, dtype=np.float32)[[4]], [4])
    assert recycling.propose([1], 4)[0] == [4]
