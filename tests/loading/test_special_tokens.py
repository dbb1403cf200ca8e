"""Special tokens in a source and in an answer, and lengths that count the prompt, as in
transformers."""

import pytest

from tests.support.checkpoints import FOLDERS, change
from tests.support.commands import write_letters
from utils import load

SENTINELS = "the <extra_id_0> sat <extra_id_1> on"
PARSED = [  # (model, source, the tokens that transformers 5.23 returns)
    ("t5", SENTINELS, "▁th e <extra_id_0> ▁ s at <extra_id_1> ▁o n </s>"),
    ("t5", "a</s>b", "▁ a </s> ▁b </s>"),
    ("t5", "<pad>the <unk> cat ", "<pad> ▁th e <unk> ▁ c at </s>"),
    ("mbart", "the cat <mask> on", "▁th e ▁ c at <mask> ▁o n </s> en_XX"),
    ("mbart", "<pad>the <unk> cat", "<pad> ▁th e <unk> ▁ c at </s> en_XX"),
    ("mbart", "en_XX the cat", "en_XX ▁th e ▁ c at </s> en_XX"),
    ("bart", "a</s>b <s> c", "<s> a </s> b Ġ <s> Ġ c </s>"),
    ("bart", "a <mask> b", "<s> a <mask> Ġ b </s>"),  # <mask> removes the space before it
]


@pytest.mark.parametrize("name, text, tokens", PARSED)
def test_special_tokens_are_found_in_a_source(console, name, text, tokens):
    tokenizer, _ = load(FOLDERS[name])
    ids = console.json(text, "--tokens", 1, model=FOLDERS[name])[0]["prompt_ids"]
    assert [tokenizer.tokens[id] for id in ids] == tokens.split(" ")


def test_max_length_and_min_length_count_the_prompt(console, tmp_path):
    lengths = {"max_length": 12, "min_length": 5}
    copy = write_letters(tmp_path / "letters", generation_config=lengths)
    for prompt, n in (("a", 11), ("abcdefgh", 4), ("abcdefghabcdefgh", 1)):
        assert len(console.json(prompt, model=copy)[0]["ids"]) == n
    change(copy, file="generation_config.json", max_new_tokens=3)
    assert len(console.json("a", model=copy)[0]["ids"]) == 3
    change(copy, eos_token_id=[*range(64, 90), 220, 257])  # every token that it can write
    for prompt, n in (("a", 3), ("abcd", 1), ("abcde", 0)):
        assert len(console.json(prompt, model=copy)[0]["ids"]) == n
