"""The models in models/ are small, predict an unseen text well, tell stories and translate."""

from pathlib import Path

import numpy as np
import pytest

import utils
from decoding.beam import beam_search
from decoding.score import score
from generate import begin, generate
from loading.parameters import n_parameters
from training.corpus import read_documents

MODELS = Path(__file__).parents[2] / "models"
MOST_PARAMETERS = {"stories": 4_000_000, "stories-llama": 4_000_000, "stories-draft": 388_595}


@pytest.mark.parametrize("opening", [r"(Chap)?(ter|Part) 1", "^Chapter|^Part", "(?i)(ch|p).+ 1$"])
def test_a_document_begins_at_each_line_that_matches(tmp_path, opening):
    book = "\n".join(f"{name} 1\nA Part 1.\n" for name in ("Chapter", "Part", "Chapter"))
    (tmp_path / "book.txt").write_text(book, encoding="utf-8")
    assert len(read_documents([tmp_path / "book.txt"], opening)) == 3


@pytest.mark.parametrize("name", MOST_PARAMETERS)
def test_a_model_s_size_and_context(name):
    tokenizer, model = utils.load(name)
    assert n_parameters(model.params) <= MOST_PARAMETERS[name]
    assert model.n_ctx >= 512
    assert 2000 <= len(tokenizer.merges) <= 4096
    assert (MODELS / name / "README.md").is_file()


def test_the_draft_model_has_the_same_vocabulary_and_a_tenth_of_the_size():
    tokenizer, model = utils.load("stories")
    draft_encoder, draft = utils.load("stories-draft")
    assert tokenizer.vocab == draft_encoder.vocab and tokenizer.merges == draft_encoder.merges
    assert n_parameters(draft.params) <= n_parameters(model.params) / 10


def test_the_llama_has_the_tokens_of_stories_and_16_bit_weights():
    tokenizer, model = utils.load("stories")
    llama_tokenizer, llama = utils.load("stories-llama")
    text = 'Lily\'s 3 cats said: "Où?"  <|endoftext|>\n'
    assert llama_tokenizer.vocab == tokenizer.vocab
    assert llama_tokenizer.encode(text) == tokenizer.encode(text)
    assert abs(n_parameters(llama.params) / n_parameters(model.params) - 1) < 0.001
    assert (MODELS / "stories-llama" / "model.safetensors").stat().st_size <= 8e6


@pytest.mark.parametrize(
    "name, bound", [("stories", 1.0), ("stories-llama", 1.0), ("stories-draft", 1.3)]
)
def test_an_unseen_text_costs_few_bits(name, bound):
    text = (
        "One day, a girl named Mia went to the park with her mom. She saw a big red kite in the"
        ' sky. "Look, mom! I want to fly a kite too," she said. Her mom smiled and said, "Okay,'
        " let's go home and make one.\" Mia was very happy."
    )
    assert score(*utils.load(name), text)["bits_per_byte"] < bound


def test_a_story_has_words_and_an_end():
    tokenizer, model = utils.load("stories")
    ids = list(generate(model, tokenizer.encode("Once upon a time"), 500))
    assert ids[-1] == tokenizer.end_of_text
    words = set(tokenizer.decode(ids[:-1]).split())
    assert {"was", "the", "and"} <= words
    assert np.mean([word.isascii() for word in words]) == 1


def test_en_de_is_small_and_has_its_held_out_sentences():
    tokenizer, model = utils.load("en-de")
    assert n_parameters(model.params) <= 6_000_000
    assert tokenizer.n_vocab == model.n_vocab
    lines = (MODELS / "en-de" / "held_out.tsv").read_text(encoding="utf-8").splitlines()
    assert len({line.split("\t")[0] for line in lines}) == len(lines) == 1000
    assert all(len(line.split("\t")) >= 2 for line in lines)
    assert "CC BY 2.0 FR" in (MODELS / "en-de" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "english, german",
    [
        ("The weather is nice today.", "Das Wetter ist heute schön."),
        ("I would like to buy a new car.", "Ich möchte ein neues Auto kaufen."),
        ("My mother is reading a book in the garden.", "Meine Mutter liest ein Buch im Garten."),
    ],
)
def test_en_de_translates(english, german):
    tokenizer, model = utils.load("en-de")
    model, start = begin(model, model.add_special_tokens(tokenizer.encode(english)))
    best = beam_search(model, start, 100, width=4)[0]
    assert tokenizer.decode([token for token in best.ids if token not in model.stop_ids]) == german
