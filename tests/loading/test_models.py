"""The models in models/ are small, predict an unseen text well, tell stories and translate."""

import pytest

import utils
from decoding.beam import beam_search
from decoding.score import score
from generate import begin, generate
from loading.parameters import n_parameters
from tests.support.checkpoints import ROOT

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
    assert n_parameters(model.params) <= n_most and model.n_ctx >= 512
    assert score(tokenizer, model, UNSEEN)["bits_per_byte"] < n_bits
    assert tokenizer.vocab == utils.load("stories")[0].vocab  # so that one may draft for the other
    assert tokenizer.merges == utils.load("stories")[0].merges


def test_a_story_has_words_and_an_end():
    tokenizer, model = utils.load("stories")
    ids = list(generate(model, tokenizer.encode("Once upon a time"), 500))
    assert ids[-1] == tokenizer.end_of_text
    text = tokenizer.decode(ids[:-1])
    assert {"was", "the", "and"} <= {*text.split()} and text.isascii()


def test_en_de_is_small_and_has_its_held_out_sentences():
    tokenizer, model = utils.load("en-de")
    assert n_parameters(model.params) <= 6_000_000 and tokenizer.n_vocab == model.n_vocab
    text = (ROOT / "models" / "en-de" / "held_out.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    assert len({row[0] for row in rows}) == len(rows) == 1000 and min(map(len, rows)) == 2


def test_en_de_translates():
    tokenizer, model = utils.load("en-de")
    source = tokenizer.encode("My mother is reading a book in the garden.")
    model, start = begin(model, model.add_special_tokens(source))
    best = beam_search(model, start, 100, width=4)[0]
    *ids, end = best.ids
    assert tokenizer.decode(ids) == "Meine Mutter liest ein Buch im Garten."
    assert end in model.stop_ids
