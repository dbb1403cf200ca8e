"""decoding/score.py scores a text by the chain rule, in one pass, in chunks or in windows. The text
may follow end-of-text or a prefix."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import utils
from decoding.score import log_probabilities, score
from gpt2 import log_softmax
from tests.support.tiny import Watched, close, of_last_token, tiny_gpt2

MODEL = tiny_gpt2()
N_CTX, N_VOCAB = MODEL.n_ctx, MODEL.n_vocab
IDS = np.random.default_rng(3).integers(N_VOCAB, size=100).tolist()


def by_hand(model, ids, first=0):
    """Return log P of each token after ids[first], with one pass for each token."""
    passes = (model(ids[first:i], last=1)[-1] for i in range(first + 1, len(ids)))
    found = [log_softmax(logits)[token] for logits, token in zip(passes, ids[first + 1 :])]
    return np.array(found, np.float32)


@settings(max_examples=25)
@given(st.lists(st.integers(0, N_VOCAB - 1), min_size=2, max_size=N_CTX + 1), st.integers(1, 30))
def test_each_token_has_its_probability_given_the_earlier_tokens(ids, chunk):
    close(log_probabilities(MODEL, ids, chunk), by_hand(MODEL, ids))


@pytest.mark.parametrize("n", [N_CTX + 2, N_CTX + 13, 2 * N_CTX, 100])
@pytest.mark.parametrize("chunk", [5, 128])
def test_a_long_text_is_scored_in_windows_that_overlap_by_half(n, chunk):
    """A window begins n_ctx / 2 tokens before its first new token and has at most n_ctx inputs."""
    expected, half = by_hand(MODEL, IDS[: N_CTX + 1]), N_CTX // 2
    while len(expected) < n - 1:
        known = len(expected) + 1
        begin = known - half
        window = by_hand(MODEL, IDS[: min(n, begin + N_CTX + 1)], begin)
        expected = np.concatenate([expected, window[half - 1 :]])
    close(log_probabilities(MODEL, IDS[:n], chunk), expected)


def test_every_token_passes_in_chunks_and_sees_at_least_half_a_context():
    watched = Watched(MODEL)
    log_probabilities(watched, IDS[:50], chunk=10)
    assert watched.shapes == [(10,), (10,), (4,)] * 2 + [(10,), (10,), (3,)]


@pytest.mark.parametrize("n_ctx", [1, 2])
def test_a_short_context_is_enough(n_ctx):
    model = of_last_token(n_ctx=n_ctx)
    pairs = [by_hand(model, IDS[i : i + 2]) for i in range(3)]
    close(log_probabilities(model, IDS[:4]), np.concatenate(pairs))


@pytest.mark.parametrize("scale", [np.nan, 1e4])
def test_a_text_without_a_probability_has_no_score(scale):
    model, worst = tiny_gpt2(), int(MODEL([0])[-1].argmin())
    model.params["lm_head"] *= scale
    with pytest.raises(ValueError, match="no probability"):
        score(SimpleNamespace(plain_ids=lambda text: [worst]), model, "x", [0])


def test_without_a_prefix_the_first_token_is_left_out_with_its_bytes():
    parts = {"encode": lambda text: [], "end_of_text": None, "plain_ids": lambda text: [1, 2, 3]}
    parts |= {"decode": lambda ids: "\ufffd", "token_bytes": lambda id: b"\xe2"}
    result = score(SimpleNamespace(**parts), MODEL, "€ a")  # 5 bytes
    assert result["ids"] == [2, 3]
    assert result["bits_per_byte"] == pytest.approx(-result["total"] / math.log(2) / 4)


def test_a_score_follows_the_chain_rule_after_end_of_text_or_a_prefix():
    tokenizer, model = utils.load("stories")
    ids = tokenizer.encode("The cat sat.")
    for result, prefix in (
        (score(tokenizer, model, "The cat sat."), [tokenizer.end_of_text]),
        (score(tokenizer, model, "The cat sat.", np.array(ids[:2])), ids[:2]),
    ):
        assert result["ids"] == ids
        expected = by_hand(model, [*prefix, *ids])[len(prefix) - 1 :]
        assert result["logprobs"] == pytest.approx(expected.tolist(), abs=1e-4)
        assert result["total"] == pytest.approx(expected.sum(), abs=1e-3)
        assert result["bits_per_byte"] == pytest.approx(-result["total"] / math.log(2) / 12)
        assert result["perplexity"] == pytest.approx(math.exp(-expected.mean()), rel=1e-4)
    assert score(tokenizer, model, "\ud83e\udd17") == score(tokenizer, model, "🤗")
    with pytest.raises(ValueError, match="a prompt of 0 tokens"):
        log_probabilities(model, [])
