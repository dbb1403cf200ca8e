"""The gradients of training/backward.py are right, and what learn.py learns is what it says."""

import itertools
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import utils
from gpt2 import GPT2, log_softmax
from tests.support.checkpoints import ROOT
from training import learn
from training.backward import gpt2, loss_and_gradients
from training.learn import flat, new_params, save, train, windows

NEEDED = "NOT RUN: pip install -r training/requirements.txt"

SHAPES = [  # n_rows, n_seq, n_vocab, n_ctx, n_embd, n_head, n_layer
    (2, 5, 11, 8, 12, 3, 2),
    (1, 6, 4, 6, 4, 1, 3),
    (3, 1, 7, 2, 6, 2, 1),
]


def example(n_rows, n_seq, n_vocab, n_ctx, n_embd, n_head, n_layer):
    """Return params of float64 (no bias is zero, no gain is one), n_head, ids and targets."""
    params, rng = new_params(n_vocab, n_ctx, n_embd, n_layer), np.random.default_rng(1)

    def moved(tree):
        if isinstance(tree, np.ndarray):
            return tree + rng.normal(0, 0.5, tree.shape)
        if isinstance(tree, list):
            return [moved(part) for part in tree]
        return {key: moved(part) for key, part in tree.items()}

    return moved(params), n_head, *rng.integers(0, n_vocab, (2, n_rows, n_seq))


@pytest.mark.parametrize("shape", SHAPES)
def test_each_gradient_is_that_of_gpt2_s_loss(shape):
    """A gradient and a random direction give the slope of the loss in this direction. It must be
    that of two losses close by, which gpt2.py computes."""
    params, n_head, ids, targets = example(*shape)
    logits, _ = gpt2(ids, **params, n_head=n_head)
    np.testing.assert_allclose(logits, GPT2(params, n_head)(ids), rtol=1e-12)
    loss, gradients = loss_and_gradients(params, n_head, ids, targets)
    gradients, rng = flat(gradients), np.random.default_rng(2)

    def moved_loss(array, change):
        array += change
        log_p = log_softmax(GPT2(params, n_head)(ids))
        array -= change
        return -np.take_along_axis(log_p, targets[..., None], -1).mean()

    assert loss == pytest.approx(moved_loss(params["wte"], 0), rel=1e-12)
    assert gradients.keys() == flat(params).keys()
    for name, array in flat(params).items():
        direction = rng.normal(size=array.shape)
        up, down = (moved_loss(array, sign * 1e-5 * direction) for sign in (1, -1))
        slope = (gradients[name] * direction).sum()
        assert slope == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-8), name


def test_the_same_seed_learns_the_same():
    ids = np.random.default_rng(0).integers(0, 7, 50)
    losses = [[*train(new_params(7, 6, 4, 1), 1, ids, 8, seed=seed)] for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_the_optimizer_shortens_only_gradients_longer_than_1():
    p = np.zeros(1)
    optimizer = learn.AdamW({"p": p})
    for gradient in (4, 0.5):  # it takes the first one as 1
        optimizer.step({"p": np.array([gradient])}, 1)
    mean, square = 0.9 * 0.1 * 1 + 0.1 * 0.5, 0.95 * 0.05 * 1 + 0.05 * 0.25
    second = mean / (1 - 0.9**2) / np.sqrt(square / (1 - 0.95**2))
    np.testing.assert_allclose(p, -1 - second, rtol=1e-6)


@pytest.mark.slow
def test_pytorch_reads_the_folder_and_learns_the_same(tmp_path):
    torch = pytest.importorskip("torch", reason=NEEDED)
    transformers = pytest.importorskip("transformers", reason=NEEDED)
    torch.set_num_threads(1)  # threads that share a core are slow
    ids = np.frombuffer((ROOT / "LICENSE").read_bytes(), np.uint8).astype(int)
    params = new_params(128, 16, 32, 2)
    save(tmp_path, params, 2, 0)
    other = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)

    def logits(inputs):
        return other(torch.tensor(inputs)).logits

    expected = logits(ids[None, :16]).detach().numpy()
    np.testing.assert_allclose(GPT2(params, 2)(ids[None, :16]), expected, atol=1e-5)
    decay = [p for p in other.parameters() if p.ndim > 1]
    rest = {"params": [p for p in other.parameters() if p.ndim < 2], "weight_decay": 0}
    optimizer = torch.optim.AdamW([{"params": decay}, rest], betas=(0.9, 0.95), weight_decay=0.1)
    rng, theirs = np.random.default_rng(0), []
    for step in range(200):
        inputs, targets = windows(ids, 16, 16, rng)
        loss = torch.nn.functional.cross_entropy(
            logits(inputs).flatten(0, 1), torch.tensor(targets.ravel())
        )
        theirs.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 20) * (1 - step / 200)
        optimizer.step()
        optimizer.zero_grad()
    ours = [*train(params, 2, ids, 200)]
    np.testing.assert_allclose(ours, theirs, atol=0.01)
    assert ours[-1] < ours[0] - 2


TEXT = "The cat saw the dog. The dog saw a bird in the tree. " * 20


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Return a function that runs learn.py on a text with a tiny model. It returns the folder."""
    tiny = {"MERGES": 30, "N_CTX": 16, "N_EMBD": 12, "N_HEAD": 3, "N_LAYER": 1}
    for name, value in tiny.items():
        monkeypatch.setattr(learn, name, value)

    def run(text, n_steps=2):
        (tmp_path / "text.txt").write_bytes(text)
        words = [str(tmp_path / "text.txt"), "--folder", str(tmp_path / "new" / "model")]
        monkeypatch.setattr(sys, "argv", ["learn", *words, "--steps", str(n_steps)])
        learn.main()
        return tmp_path / "new" / "model"

    return run


def test_a_text_becomes_a_folder_that_loads(command, capsys):
    folder = command(TEXT.encode())
    tokenizer, model = utils.load(folder)
    assert tokenizer.encode("The cat") == tokenizer.encode("The") + [tokenizer.vocab["Ġcat"]]
    assert model.stop_ids == (tokenizer.end_of_text,)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    told = capsys.readouterr().out
    assert "2 steps" in told and "after step 1: " in told
    assert "generate.py 'The cat saw the' --model" in told
    with pytest.raises(SystemExit, match="exists"):
        command(TEXT.encode())


def test_ctrl_c_keeps_what_was_learnt_and_else_leaves_nothing(command, monkeypatch, tmp_path):
    for n_steps in (0, 3):

        def interrupted(*given, n=n_steps, **more):
            yield from itertools.islice(train(*given, **more), n)
            raise KeyboardInterrupt

        monkeypatch.setattr(learn, "train", interrupted)
        monkeypatch.setattr(learn, "announce", lambda *given: None)
        with pytest.raises(SystemExit, match="nothing was") if n_steps == 0 else nullcontext():
            command(TEXT.encode(), 1000)
        made = list((tmp_path / "new").iterdir())
        assert len(made) == (n_steps > 0)
    assert np.isfinite(utils.load(*made)[1](np.arange(9))).all()


@pytest.mark.parametrize("text, said", [(b"One line.", "longer text"), (b"\xff\xfe", "UTF-8")])
def test_a_text_that_cannot_be_learnt_is_one_line(command, text, said):
    with pytest.raises(SystemExit) as error:
        command(text)
    assert said in error.value.code and "\n" not in error.value.code


def test_words_are_cut_at_30_bytes():
    documents = ["中" * 50 + " " + "中" * 60, "a b a"]
    words = ["中" * 10, " " + "中" * 9, "a", " a", " b"]
    assert learn.frequent_words(documents) == dict.fromkeys(words, 1)
