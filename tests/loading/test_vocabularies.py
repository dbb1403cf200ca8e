"""Models in real repositories are irregular, and tokenwise has to run them.

Some models have embedding rows without a token, or tokens without an embedding row. Others have
added_tokens.json, old array names, or lengths that count the prompt. Sources may contain special
tokens.
"""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import generate
import utils
from decoding import score
from gpt2 import softmax
from loading.errors import UserError
from samplers import Sampler
from tests.support.checkpoints import CONFIG, random_arrays, write_folder
from tests.support.commands import HOUSE, write_letters

FOLDERS = HOUSE / "tests" / "fixtures" / "seq2seq"


def change(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.fixture
def folder(tmp_path):
    """Return a function that copies a fixture or writes the GPT-2 `letters`. It also sets entries
    of config.json. A test may change the new folder."""

    def copied(name, **config):
        copy = tmp_path / name
        if name == "letters":
            write_letters(copy)
        else:
            shutil.copytree(FOLDERS / name, copy)
        change(copy / "config.json", **config)
        return copy

    return copied


def change_rows(folder, change_array):
    """Replace each array [n_vocab, ...] with change_array(array), and adjust vocab_size."""
    path, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    arrays = load_file(path)
    for name, array in arrays.items():
        if name == "final_logits_bias":
            arrays[name] = np.ascontiguousarray(change_array(array.T).T)
        elif len(array) == config["vocab_size"]:
            arrays[name] = np.ascontiguousarray(change_array(array))
            n_vocab = len(arrays[name])
    save_file(arrays, path)
    change(folder / "config.json", vocab_size=n_vocab)


def padded(folder):
    """Add 40 embedding rows without a token. After any text, some of them have large logits."""
    n_tokens = utils.load(folder)[0].n_vocab

    def pad(array):
        scales = np.linspace(-9, 9, 40, dtype=np.float32)[:, None]
        return np.concatenate([array[:n_tokens], array[70:71] * scales])

    change_rows(folder, pad)
    return folder


# --- embedding rows without a token ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["letters", "t5", "t5-gated-untied", "bart", "bart-forced"])
def test_rows_without_a_token_do_not_change_the_output(console, folder, tmp_path, name):
    whole, copy = folder(name), padded(shutil.copytree(tmp_path / name, tmp_path / "padded"))
    sampled = "--temperature", 3, "--seed", 7
    methods = "naive", "cached", "ngram", "lookup"
    commands = [
        *([*sampled, "--method", method] for method in methods),
        ["--method", "naive"],
        ["--method", "beam", "--beams", 3, "--return", 3],
        ["--method", "cached", *sampled, "--top-p", 0.99, "--repetition-penalty", 3],
    ]
    n_tokens = utils.load(copy)[0].n_vocab
    for words in commands:
        words = ["the cat", "a", "tea", "--tokens", 12, *words]
        expected, found = (console.json(*words, model=model) for model in (whole, copy))
        for row, other in zip(expected, found, strict=True):
            for key in ("text", "ids", "stop_reason"):
                assert row[key] == other[key]
            assert max(other["ids"], default=0) < n_tokens


@pytest.mark.parametrize("name", ["letters", "t5", "bart"])
def test_rows_without_a_token_are_neither_explained_nor_scored(console, folder, tmp_path, name):
    whole, copy = folder(name), padded(shutil.copytree(tmp_path / name, tmp_path / "padded"))
    target = [] if name == "letters" else ["--target", "the mat"]
    for words in (["--explain"], ["--explain", "--method", "beam"], ["--score", *target]):
        words = ["the cat", *words, *([] if "--score" in words else ["--tokens", 5])]
        assert console.text(*words, model=copy) == console.text(*words, model=whole)


def test_a_draft_model_may_have_different_padding(console, folder, tmp_path):
    whole = folder("letters")
    draft = padded(shutil.copytree(whole, tmp_path / "draft"))
    words = "a", "--tokens", 9, "--method", "speculative", "--draft", draft
    assert console.json(*words, model=whole)[0]["ids"] == console.greedy("a", 9, whole)


def test_the_remaining_rows_are_not_copied(folder):
    model = utils.load(padded(folder("t5-gated-untied")))[1]
    for name in ("wte", "lm_head"):
        assert len(model.params[name]) == model.n_vocab == 140
        assert not model.params[name].flags.owndata and model.params[name].flags.c_contiguous


# --- tokens without an embedding row --------------------------------------------------------------


def test_a_model_whose_mask_token_has_no_row_refuses_only_this_token(console):
    tokenizer, model = utils.load(FOLDERS / "bart-cnn")
    assert (tokenizer.n_vocab, model.n_vocab, tokenizer.special["<mask>"]) == (265, 264, 264)
    row, other = console.json("the cat", "a", model=FOLDERS / "bart-cnn")
    assert row["beams"][0]["ids"][0] == 0 and len(row["beams"]) == 1 and row["method"] == "beam"
    assert row["ids"] and "<s>" not in row["text"] + other["text"]
    console.text("the cat", "--score", "--target", "a mat", model=FOLDERS / "bart-cnn")
    line = console.refused(1, "the <mask> sat", model=FOLDERS / "bart-cnn")
    assert "token ids are 0 to 263" in line
    assert 264 in console.json("the <mask> sat", model=FOLDERS / "bart")[0]["prompt_ids"]


def test_a_config_may_have_the_settings_of_generation():
    config = utils.load(FOLDERS / "bart-cnn")[1].generation_config
    # The settings in task_specific_params are ignored.
    assert config["num_beams"] == 4 and config["length_penalty"] == 2.0
    assert config["forced_bos_token_id"] == 0 and config["forced_eos_token_id"] is None


@pytest.mark.parametrize("name, n", [("letters", 200), ("bart", 264), ("bart", 262), ("t5", 39)])
def test_only_special_tokens_may_lack_a_row(folder, name, n):
    copy = folder(name)
    change_rows(copy, lambda array: array[:n])
    if (name, n) == ("bart", 264):
        assert utils.load(copy)[1].n_vocab == 264
        return
    with pytest.raises(UserError, match="belongs to another model|cannot be used") as caught:
        utils.load(copy)
    assert "\n" not in str(caught.value)


def test_an_end_of_text_without_a_row_cannot_begin_a_text(console, folder):
    copy = folder("letters")
    change_rows(copy, lambda array: array[:258])
    assert utils.load(copy)[0].end_of_text is None
    assert len(console.json("a", "--tokens", 5, model=copy)[0]["ids"]) == 5
    assert "a prompt of 0 tokens" in console.refused(1, "", model=copy)
    # Nothing comes before the first of the four tokens, so it has no probability.
    assert " in 3 tokens; " in console.text("teat", "--score", model=copy)


# --- added_tokens.json, and an end-of-text id -----------------------------------------------------


def test_an_added_token_of_gpt2_can_be_drawn_and_ends_a_text(console, tmp_path):
    """The added token's logit is much higher than all others."""
    config = CONFIG | {"vocab_size": 320, "eos_token_id": 259}
    arrays = random_arrays(config)
    arrays["wte.weight"][:] = -1
    arrays["wte.weight"][259] = 1
    arrays["ln_f.weight"][:], arrays["ln_f.bias"][:] = 0, 1
    copy = write_folder(tmp_path / "added", config, arrays, added_tokens={"<|pad|>": 259})
    assert utils.load(copy)[1].n_vocab == 260
    row = console.json("a", model=copy)[0]
    assert (row["ids"], row["stop_reason"]) == ([], "eos")
    out = console.text("a", "--explain", model=copy)
    assert out.endswith("100.0%          0.00            '<|pad|>'\na\n")


def test_an_end_of_text_without_a_token_is_said_if_it_has_a_row(tmp_path, capsys):
    config = CONFIG | {"vocab_size": 300, "eos_token_id": [258, 299, 50256]}
    copy = write_folder(tmp_path / "padded", config)
    assert utils.load(copy)[1].stop_ids == (258,)
    assert capsys.readouterr().err == "note: eos_token_id {299} has no token and ends no text\n"


# --- special tokens in a source and in an answer --------------------------------------------------

SENTINELS = "the <extra_id_0> sat <extra_id_1> on"
PARSED = [  # (model, source, the tokens that transformers 5.23 returns)
    ("t5", SENTINELS, "▁th e <extra_id_0> ▁ s at <extra_id_1> ▁o n </s>"),
    ("t5", "<extra_id_0> <extra_id_1> the", "<extra_id_0> <extra_id_1> ▁th e </s>"),
    ("t5", "a</s>b", "▁ a </s> ▁b </s>"),
    ("t5", "<pad>the <unk> cat ", "<pad> ▁th e <unk> ▁ c at </s>"),
    ("mbart", "the cat <mask> on", "▁th e ▁ c at <mask> ▁o n </s> en_XX"),
    ("mbart", "the cat </s> sat <s> on", "▁th e ▁ c at </s> ▁ s at <s> ▁o n </s> en_XX"),
    ("mbart", "<pad>the <unk> cat", "<pad> ▁th e <unk> ▁ c at </s> en_XX"),
    ("mbart", "en_XX the cat", "en_XX ▁th e ▁ c at </s> en_XX"),
    ("bart", "a</s>b <s> c", "<s> a </s> b Ġ <s> Ġ c </s>"),
    ("bart", "<mask> the", "<s> <mask> Ġthe </s>"),
    ("bart", "a <mask> b", "<s> a <mask> Ġ b </s>"),  # <mask> removes the space before it
]


@pytest.mark.parametrize("name, text, tokens", PARSED)
def test_special_tokens_are_found_in_a_source(console, name, text, tokens):
    tokenizer, _ = utils.load(FOLDERS / name)
    ids = console.json(text, "--tokens", 1, model=FOLDERS / name)[0]["prompt_ids"]
    assert [tokenizer.tokens[id] for id in ids] == tokens.split(" ")


@pytest.mark.parametrize("name", ["bart", "mbart", "t5"])
def test_special_tokens_in_an_answer_are_not_text(name):
    tokenizer, _ = utils.load(FOLDERS / name)
    special = tokenizer.special
    marks = [special[mark] for mark in ("<s>", "<pad>", "</s>") if mark in special]
    ids = tokenizer.encode("the cat")
    between = [token for pair in zip(ids, marks * 9) for token in pair]
    stream = tokenizer.stream()
    assert tokenizer.decode(marks) == "" and tokenizer.decode(between) == "the cat"
    assert "".join([*map(stream.feed, between), stream.finish()]) == "the cat"


# --- the score of an answer -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t5", "bart", "bart-forced", "bart-cnn", "mbart", "mbart-50"])
def test_the_score_of_an_answer_is_its_probability_in_the_loop(name):
    tokenizer, model = utils.load(FOLDERS / name)
    source, ids = (tokenizer.encode(text) for text in ("the cat sat", "the dog ran"))
    source = model.add_special_tokens(source)
    model = model.read(source)
    n = len(model.prefix) - len(model.start_ids) + len(ids)
    path, logprobs = [*model.prefix, *ids], {}

    def follow(logits, so_far):  # [n_vocab] -> [n_vocab]: only the next token of `path` is left
        token = path[len(so_far)]
        logprobs[len(so_far)] = np.log(softmax(logits)[token])
        return np.where(np.arange(model.n_vocab) == token, logits, -np.inf)

    sampler = Sampler(*model.forced_filters(n + 1), follow)
    assert list(generate.generate(model, model.start_ids, n, sampler))[-len(ids) :] == ids
    found = score.score(tokenizer, model, "the dog ran", model.prefix)
    assert found["ids"] == ids and len(found["logprobs"]) == len(ids)
    assert found["total"] == pytest.approx(sum(logprobs.values()), rel=1e-4)


LANGUAGES = "ro_RO", "de_DE", "zh_CN"


@pytest.mark.parametrize("name", ["mbart", "mbart-50"])
def test_the_score_of_an_answer_depends_on_its_language(console, name):
    words = "the cat sat", "--score", "--target", "the dog ran", "--target-lang"
    outputs = [console.text(*words, code, model=FOLDERS / name) for code in LANGUAGES]
    assert len({out.splitlines()[-1] for out in outputs}) == 3


# --- old array names, and lengths that count the prompt -------------------------------------------


def test_gpt2_s_arrays_may_have_their_older_names(tmp_path):
    copy = write_folder(tmp_path / "old")
    expected = utils.load(copy)[1]([1, 2, 3])
    arrays = load_file(copy / "model.safetensors")
    mask = {f"h.{i}.attn.bias": np.ones((1, 1, 16, 16), np.float32) for i in range(2)}
    head = {"lm_head.weight": arrays["wte.weight"]}
    named = {f"transformer.{name}": array for name, array in (arrays | mask).items()}
    for tensors in (arrays | mask, named | head):
        save_file(tensors, copy / "model.safetensors")
        np.testing.assert_array_equal(utils.load(copy)[1]([1, 2, 3]), expected)


def test_max_length_and_min_length_count_the_prompt(console, tmp_path):
    lengths = {"max_length": 12, "min_length": 5}
    copy = write_letters(tmp_path / "letters", generation_config=lengths)
    for prompt, n in (("a", 11), ("abcdefgh", 4), ("abcdefghabcdefgh", 1)):
        assert len(console.json(prompt, model=copy)[0]["ids"]) == n
    assert len(console.json("a", "--tokens", 20, model=copy)[0]["ids"]) == 20
    change(copy / "generation_config.json", max_new_tokens=3)
    assert len(console.json("a", model=copy)[0]["ids"]) == 3
    every_token = [*range(64, 90), 220, 257]
    change(copy / "config.json", eos_token_id=every_token)
    for prompt, words, n in (("a", [], 3), ("abcd", [], 1), ("abcde", [], 0)):
        assert len(console.json(prompt, *words, model=copy)[0]["ids"]) == n
