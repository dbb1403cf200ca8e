"""The models in models/ are small, predict an unseen text well, translate and draft."""

import numpy as np
import pytest

import utils
from decoding.drafters import DraftModel, Measured
from decoding.score import score
from generate import begin, generate
from page.live import arrays_in
from samplers import greedy
from tests.support.tiny import drafted_by

UNSEEN = (
    "One day, a girl named Mia went to the park with her mom. She saw a big red kite in the"
    ' sky. "Look, mom! I want to fly a kite too," she said. Her mom smiled and said, "Okay,'
    " let's go home and make one.\" Mia was very happy."
)


@pytest.mark.parametrize(
    "name, n_most, n_bits",
    [("stories", 4e6, 1.0), ("stories-llama", 4e6, 1.0), ("stories-draft", 388_595, 1.3)],
)
def test_a_model_is_small_and_predicts_an_unseen_text(name, n_most, n_bits):
    tokenizer, model = utils.load(name)
    assert sum(x.size for x in arrays_in(model.params)) <= n_most and model.n_ctx >= 512
    assert score(tokenizer, model, UNSEEN)["bits_per_byte"] < n_bits
    assert tokenizer.vocab == utils.load("stories")[0].vocab  # so that one may draft for the other
    assert tokenizer.merges == utils.load("stories")[0].merges


def test_en_de_translates_and_accepts_most_drafts_of_en_de_draft():
    (tokenizer, model), (_, small) = map(utils.load, ("en-de", "en-de-draft"))
    assert sum(x.size for x in arrays_in(small.params)) <= 6e5
    source = tokenizer.encode("The weather is nice today.")
    draft, _ = begin(small, source)
    measured = Measured(DraftModel(draft, greedy, np.random.default_rng(0)))
    drafted = list(generate(model, source, 100, loop=drafted_by(measured)))
    assert drafted == list(generate(model, source, 100)) and drafted[-1] in model.stop_ids
    assert tokenizer.decode(drafted) == "Das Wetter ist heute schön."
    assert measured.accepted > measured.tested / 2
