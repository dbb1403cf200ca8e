"""Each page of pico/ computes what its full file computes, and prints what it promises."""

import base64
import json
import re
import shlex
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import encoder
import samplers
import speculative as full_speculative
from decoding.drafters import DraftModel
from decoding.score import log_probabilities
from generate import Sequence, generate
from loading.parameters import plain
from pico import cache, choices, drafts, factors, forward, llama, load, merges, translate
from samplers import Sampler
from terminal import cli
from tests.support.checkpoints import ROOT
from tests.support.commands import python
from tests.support.pages import data_of
from tests.support.tiny import checkpoint

PROMPTS = ["Once upon a time", "The dragon was"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Several threads of BLAS would wait for each other in small models."""
    with threadpool_limits(1):
        yield


def close(found, right):
    assert (type(found), found.dtype, found.shape) == (np.ndarray, np.float32, right.shape)
    assert np.abs(found - right).max() <= 1e-5 * np.abs(right).max()


def random_ids(n, n_vocab=3329):
    return np.random.default_rng(n).integers(0, n_vocab, n).tolist()


def never_ending(name):
    model = checkpoint(f"models/{name}")
    model.stop_ids = ()
    return model


@pytest.mark.parametrize("name", ["stories", "stories-draft"])
@pytest.mark.parametrize("n", [1, 2, 512])
def test_forward_has_the_logits_of_gpt2(name, n):
    _, model = load(name, forward.gpt2)
    close(model(random_ids(n)), checkpoint(f"models/{name}")(random_ids(n)))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_forward_and_cache_have_the_ids_of_generate(prompt):
    tokenizer, model = load("stories", forward.gpt2)
    _, with_cache = load("stories", cache.gpt2)
    ids = tokenizer.encode(prompt)
    right = list(generate(never_ending("stories"), ids, 12))
    assert list(forward.generate(model, ids, 12)) == right
    assert list(cache.cached(with_cache, ids, 12)) == right
    assert ids == tokenizer.encode(prompt)  # the caller's list is unchanged


def test_choose_chooses_from_the_logits_after_the_text():
    _, model = load("stories-draft", forward.gpt2)
    chosen = list(forward.generate(model, [1], 3, choose=np.argmin))
    assert chosen == [model([1, *chosen[:n]])[-1].argmin() for n in range(3)]


def test_a_cache_of_lists_has_the_logits_of_gpt2():
    _, model = load("stories-draft", cache.gpt2)
    ids, kept, right = random_ids(30), defaultdict(list), checkpoint("models/stories-draft")
    for start, end in [(0, 7), (7, 8), (8, 30)]:
        found = model(ids[start:end], kept)
        close(found, right(ids[:end])[start:])


def test_factors_are_those_of_score():
    tokenizer, model = load("stories", forward.gpt2)
    ids = random_ids(40)
    right = np.exp(log_probabilities(checkpoint("models/stories"), ids))
    np.testing.assert_allclose(factors.factors(model, ids), right, rtol=1e-4)


STEPS = [("temperature", t) for t in (0.1, 0.7, 1.5)] + [("top_k", k) for k in (1, 6, 1000)]
STEPS += [("top_p", p) for p in (0.0001, 0.3, 0.8, 0.95, 0.999)]


@pytest.mark.parametrize("name, value", STEPS)
def test_a_choice_is_that_of_samplers(name, value):
    model = checkpoint("models/stories")
    for logits in [*model(random_ids(6)), np.array([1, 3, 2, 3, 2, 0], np.float32)]:
        if name == "top_k" and value > len(logits):
            continue
        found = getattr(choices, name)(logits, value)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, getattr(samplers, name)(value)(logits, []))


def test_merges_are_those_of_encoder():
    text = (ROOT / "notebooks/text/train.txt").read_text("utf-8")[:40_000]
    found = list(merges.learn(text, 150))
    vocab = {byte: bytes([byte]) for byte in range(256)}
    for new_id, (left, right), _ in found:
        vocab[new_id] = vocab[left] + vocab[right]
    as_text = {id: "".join(encoder.BYTE_TO_CHAR[b] for b in token) for id, token in vocab.items()}
    pairs = [(as_text[left], as_text[right]) for _, (left, right), _ in found]
    words = Counter(encoder.gpt2_words(text))
    spelt = {"".join(encoder.BYTE_TO_CHAR[b] for b in w.encode()): n for w, n in words.items()}
    assert pairs == encoder.learn(spelt, 150)
    tokenizer = encoder.Tokenizer({token: id for id, token in as_text.items()}, pairs)
    by_pair = {pair: new_id for new_id, pair, _ in found}
    for sentence in [text[:2000], "  Ünï¢ode,\n\n 🐉's 1234 \t"]:
        ids = merges.encode(sentence, by_pair)
        assert ids == tokenizer.encode(sentence)
        assert merges.decode(ids, vocab) == tokenizer.decode(ids) == sentence
    assert merges.decode([240, 65], vocab) == "\ufffdA"


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("to_probs", [drafts.one_hot, forward.softmax])
def test_drafts_draw_the_ids_of_speculative(prompt, to_probs):
    """The drafter and the sequence of speculative.py share one generator, as on the page."""
    tokenizer, large = load("stories", forward.gpt2)
    _, small = load("stories-draft", forward.gpt2)
    ids, rng = tokenizer.encode(prompt), np.random.default_rng(5)
    sampler = samplers.greedy if to_probs is drafts.one_hot else Sampler()
    drafter = DraftModel(never_ending("stories-draft"), sampler, rng)
    sequence = Sequence(never_ending("stories"), ids, 100, sampler, rng)
    right = full_speculative.speculative(sequence.model, sequence, drafter, gamma=4)
    own = partial(drafts.from_model, small)
    parts = drafts.speculative(large, own, ids, to_probs, 5, np.random.default_rng(5))
    assert (found := sum((new for _, new in parts), [])) == [next(right) for _ in found]


def test_drafts_from_the_text_follow_the_last_token():
    found, qs = drafts.from_text(9, [1, 2, 3, 4, 5, 6, 2], None, None)
    assert found == [3, 4, 5, 6] and [q.argmax() for q in qs] == found
    assert drafts.from_text(9, [1, 2, 3], None, None) == ([], [])


@pytest.mark.parametrize("english", ["Tom is here.", "I have never seen such a big dog. " * 4])
def test_translate_has_the_logits_and_the_ids_of_t5(english):
    tokenizer, model = load("en-de", translate.translate)
    source, full = tokenizer.encode(english), checkpoint("models/en-de")
    german, weights = model(source)
    assert german == [id for id in generate(full, source, 100) if id not in full.stop_ids]
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    params, n_head = plain(full.params), full.n_head
    read = translate.encode(source, params["wte"], n_head, **params["encoder"])
    ids = [0, *random_ids(200, 4000)]
    found, _ = translate.decode(ids, read, params["wte"], n_head, **params["decoder"])
    close(found, full.read(source)(ids))


def test_llama_has_the_logits_of_the_full_file():
    full = checkpoint("models/stories-llama")
    _, model = load("stories-llama", llama.llama)
    close(model(random_ids(200), full.frequencies[0]), full(random_ids(200)))


PRINTED = {
    "forward": ["there was a little girl named Lily. She loved to play"],
    "factors": ["P of all 11,082,241 two-token continuations, summed: 1.00000"],
    "cache": ["read: 2010", "key: 85330", "read: 63", "key: 2022", "the same ids: True"],
    "choices": ["' walking'     0.28 ######       0.50 ##########   0.55", "draws"],
    "merges": ["262 b' the' = b' t' + b'he'", "240 b'\\xf0'", "19 tokens; decoded: Once upon a"],
    "drafts": ["35 tokens in 14 passes (|)", "one\nthe ids of forward.py: True"],
    "translate": ["Sie hat gestern ein neues Auto gekauft.", "     gestern <- yesterday 76%"],
    "llama": ["with rotations: Tom had a red car. He liked to ride it", "zoom and zoom and zoom"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_a_page_prints_what_it_promises(name):
    printed = python("-m", f"pico.{name}").stdout
    assert all(part in printed for part in PRINTED[name]) and "False" not in printed


def shown(page):
    """Return the source, the ids and, of each stop, its line and its arrays' shapes and axes."""
    data = json.loads(zlib.decompress(base64.b64decode(data_of(page)["code"][1])))
    stops = [
        (data["nodes"][node], [data["values"][i].get("shape") for i in all[1::3]], all[2::3])
        for node, *_, all in data["stops"]
    ]
    return re.findall("<pre id=.*?</pre>", page, re.S), data["ids"], stops


def test_the_page_in_the_repository_shows_the_program_as_it_is(tmp_path):
    made, fresh = ROOT / "pico/forward.html", tmp_path / "fresh.html"
    command = f'python -m page pico.forward "The dragon was" {made.relative_to(ROOT)}'
    assert command in (ROOT / "README.md").read_text("utf-8")
    python(*shlex.split(command)[1:-1], fresh)
    assert made.stat().st_size <= 1_500_000
    assert shown(made.read_text("utf-8")) == shown(fresh.read_text("utf-8")), f"run: {command}"


def test_forward_prints_what_generate_prints_up_to_the_end_of_the_context(capsys):
    prompt = "Lily. " * 253
    assert cli.main([prompt, "--temperature", "0"]) == 0
    assert python("-m", "pico.forward", prompt).stdout == capsys.readouterr().out


def test_errors_of_users_and_closed_pipes_are_no_tracebacks():
    empty = python("-m", "pico.forward", "", status=1)
    assert empty.stderr == "the text is empty: type some words\n"
    words = [sys.executable, "-m", "pico.merges"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as page:
        page.stdout.close()
        assert page.stderr.read() == b""


def test_a_debugger_stops_in_the_page_and_steps_over_a_product_inside_it():
    lines = "import pico.forward", "b pico.forward.attention", "c", "n", "p q.shape", "s", "w", "q"
    told = python("-m", "pdb", "-m", "pico.forward", input="\n".join(lines)).stdout
    assert "(4, 32)" in told and told.count("forward.py") > 3
    assert "few_rows.py" not in told
