"""The checks of lessons 8 to 16 refuse wrong answers to the exercises, and say what is missing."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402
from counting import pass_bytes, pass_flops  # noqa: E402

import utils  # noqa: E402
from decoding.batching import Rows, draw_next  # noqa: E402
from decoding.drafters import common_prefix  # noqa: E402
from decoding.score import log_probabilities  # noqa: E402
from generate import advance, generate  # noqa: E402
from page.recorder import recording  # noqa: E402

pytestmark = pytest.mark.slow

TOKENIZER, MODEL = utils.load("en-de")
SHAPE = (5, 224, 3329)  # n_layer, n_embd and n_vocab of the model "stories"


# --- lesson 8 -------------------------------------------------------------------------------------


def wasted(f):  # f(FLOPs of the rows one by one, FLOPs of the padded batch) -> the answer
    return lambda lengths: f(sum(map(cost, lengths)), len(lengths) * cost(max(lengths)))


def cost(n):
    return pass_flops(SHAPE, n, n)


def tokens(lengths):
    return 1 - sum(lengths) / (len(lengths) * max(lengths))


def chunked(new_cache_for_each=False, last=1, row=-1):
    def answer(model, ids, size):
        cache = model.new_cache()
        for start in range(0, len(ids), size):
            if new_cache_for_each:
                cache = model.new_cache()
            logits = model(ids[start : start + size], cache, last=last)
        return logits if row is None else logits[row]

    return answer


def full(shape, n):
    return sum(pass_flops(shape, 1, i) for i in range(1, n + 1))


def of_attention(shape, n, w):
    seen = np.arange(1, n + 1)
    return 1 - np.minimum(seen, w).sum() / seen.sum()


def always_full(shape, n, w):
    return 1 - n * pass_flops(shape, 1, w) / full(shape, n) if w < n else 0


LESSON_8 = [
    (1, tokens, "not of tokens"),
    (1, wasted(lambda apart, padded: apart / padded), "not wasted"),
    (2, lambda model, ids, size: model(ids, last=1)[-1], "more FLOPs"),
    (2, chunked(new_cache_for_each=True), "the chunks before it"),
    (3, of_attention, "not of attention's"),
    (3, always_full, "first tokens"),
]


# --- lesson 9 -------------------------------------------------------------------------------------


def step(read=None, work=None, both=max):
    read = read or (lambda shape, n_rows, n, n_bytes: pass_bytes(shape, n, n_rows) * n_bytes / 4)
    work = work or (lambda shape, n_rows, n: n_rows * pass_flops(shape, 1, n))

    def answer(shape, n_rows, n, bandwidth, peak, n_bytes=4):
        return both(read(shape, n_rows, n, n_bytes) / bandwidth, work(shape, n_rows, n) / peak)

    return answer


def prefill(weights_once):  # or, if not, the longer time of all chunks together
    def answer(shape, n, size, bandwidth, peak):
        times = []
        for start in range(0, n, size):
            new = min(size, n - start)
            read = pass_bytes(shape, start + new)
            if weights_once and start:
                read -= pass_bytes(shape, 0)
            times.append((read / bandwidth, pass_flops(shape, new, start + new) / peak))
        if weights_once:
            return sum(map(max, times))
        return max(sum(read for read, _ in times), sum(work for _, work in times))

    return answer


def transposed(rows, w, size):
    return np.concatenate([w[i : i + size] @ rows.T for i in range(0, len(w), size)])


def padded(rows, w, size):
    n = -(-len(w) // size) * size
    other = np.zeros((n, w.shape[1]), np.float32)
    other[: len(w)] = w
    return (other.reshape(-1, size, w.shape[1]) @ rows.T).reshape(n, -1)[: len(w)].T


LESSON_9 = [
    (1, step(work=lambda shape, n_rows, n: n_rows * pass_flops(shape, n, n)), "not all of them"),
    (1, step(both=lambda a, b: a + b), "not the sum"),
    (2, prefill(weights_once=False), "of each chunk"),
    (2, prefill(weights_once=True), "all weights again"),
    (3, lambda rows, w, size: rows @ w.T, "not in blocks"),
    (3, lambda rows, w, size: transposed(rows, w.copy(), size).T, "view of it"),
]


# --- lesson 10 ------------------------------------------------------------------------------------


def greedy_loop(cut=True):
    def answer(model, drafter, ids, n, gamma=4):
        cache, text, end = model.new_cache(), list(ids), len(ids) + n
        advance(model, text[:-1], cache)
        while len(text) < end:
            drafts, _ = drafter.propose(list(text), min(gamma, end - len(text) - 1))
            best = model(np.array([*text[-1:], *drafts]), cache).argmax(-1)
            accepted = common_prefix(drafts, best)
            text += [*drafts[:accepted], int(best[accepted])]
            if cut:
                cache.cut(len(text) - 1)
        return text[len(ids) :]

    return answer


def ignoring_gamma(model, drafter, ids, n, gamma):
    return greedy_loop()(model, drafter, ids, n)


def without_a_copy(model, drafter, ids, n, gamma):
    ids += greedy_loop()(model, drafter, ids, n, gamma)
    return ids[-n:]


def one_hot(p):
    return np.eye(len(p))[np.argmax(p)]


def with_a_division(p, q):
    return (q * np.minimum(1, p / q)).sum()


def first_of(propose):
    class Answer:
        def __init__(self, drafters):
            self.drafters = drafters

        def propose(self, ids, n):
            return propose(drafter.propose(ids, n) for drafter in self.drafters)

        def learn(self, *what):
            for drafter in self.drafters:
                drafter.learn(*what)

    return Answer


def first(found):
    return next((pair for pair in found if pair[0]), ([], []))


LESSON_10 = [
    ("loop", greedy_loop(cut=False), "has to be cut"),
    ("loop", ignoring_gamma, "with gamma = 2"),
    ("loop", without_a_copy, "work on a copy"),
    (1, (lambda p, q: p @ q, one_hot), "always accepted"),
    (1, (with_a_division, one_hot), "nan"),
    (2, lambda a, c, b: 16, "without drafts"),
    (2, lambda a, c, b: 20, "0 to 16"),
    (3, first_of(next), "ask the next one"),
    (3, first_of(lambda found: first(list(found))), "do not ask"),
]


# --- lesson 11 ------------------------------------------------------------------------------------


def serving(keep_rows=False, static=False):
    def answer(model, sequences, max_rows):
        waiting, running, rows = list(sequences), [], Rows()
        while waiting or running:
            if waiting and len(running) < max_rows and not (static and running):
                group = max_rows if static else 1
                for _ in range(min(group, len(waiting))):
                    sequence, cache = waiting.pop(0), model.new_cache()
                    yield sequence, draw_next(sequence, advance(model, sequence.ids, cache))
                    if sequence.running:
                        running.append(sequence)
                        rows.join(cache)
            if running:
                new = np.array([sequence.ids[-1:] for sequence in running])
                logits = model(new, rows, last=1)[:, -1]
                for sequence, row in zip(running, logits):
                    yield sequence, draw_next(sequence, row)
                stay = [i for i, sequence in enumerate(running) if sequence.running]
                running = [running[i] for i in stay]
                rows.select(range(len(stay)) if keep_rows else stay)

    return answer


def groups(lengths, n_rows):
    return sum(max(lengths[i : i + n_rows]) for i in range(0, len(lengths), n_rows))


def packed(lengths, n_rows):
    return groups(lengths, n_rows), max(-(-sum(lengths) // n_rows), max(lengths))


def longest_first(lengths, n_rows):
    free = [0] * n_rows
    for length in sorted(lengths, reverse=True):
        free[free.index(min(free))] += length
    return groups(lengths, n_rows), max(free)


def rows_by(is_enough, most_rows=lambda most: most + 1):
    def answer(rate, n, step, most=64):
        found = (r for r in range(1, most_rows(most)) if is_enough(r, rate, n, step))
        return next(found, None)

    return answer


def enough(r, rate, n, step):
    return r / (n * step(r)) >= rate


LESSON_11 = [
    ("loop", serving(keep_rows=True), "does its row"),
    ("loop", serving(static=True), "passes instead of"),
    (1, packed, "by continuous batching"),
    (1, longest_first, "in this order"),
    (2, rows_by(lambda r, rate, n, step: enough(r, rate, n, lambda _: step(1))), "the answer is"),
    (2, rows_by(enough, lambda most: 65), "at most"),
    (3, list, "in the best order"),
    (3, lambda prompts: sorted(prompts, reverse=True), "come first"),
]


# --- lesson 12 ------------------------------------------------------------------------------------


def reader(text):
    return MODEL.read(MODEL.add_special_tokens(TOKENIZER.encode(text)))


def best_by(score, end=True):
    def best(text, candidates):
        def value(candidate):
            ids = [*MODEL.start_ids, *TOKENIZER.encode(candidate), *MODEL.stop_ids * end]
            return score(log_probabilities(reader(text), ids))

        return max(candidates, key=value)

    return best


def translation(text):
    return list(generate(MODEL, MODEL.add_special_tokens(TOKENIZER.encode(text)), 40))


def aligned(end=-1, name=True):
    def answer(text):
        source, target = MODEL.add_special_tokens(TOKENIZER.encode(text)), translation(text)
        with recording(MODEL, keep=["softmax"]) as calls:
            MODEL.read(source)(np.array([*MODEL.start_ids, *target[:-1]]))
        weights = [c.value for outer in calls for c in outer.walk() if c.name == "softmax"]
        cross = weights[len(MODEL.params["encoder"]["blocks"]) + 1 :: 2][-1].mean(0)
        looked_at = [source[i] for i in cross.argmax(-1)]
        words = [[TOKENIZER.tokens[i].replace("▁", "") for i in ids] for ids in (target, looked_at)]
        return list(zip(words[0], words[1] if name else looked_at))[:end]

    return answer


def switch(again=False, first_only=False):
    def answer(first, second, n):
        one, other = reader(first), reader(first if first_only else second)
        cache, new, ids = one.new_cache(), MODEL.start_ids, []
        while len(ids) < 40 and not (ids and ids[-1] in MODEL.stop_ids):
            if len(ids) == n:
                cache.source = other.source
                if again:  # the first tokens are read again, with the second source
                    cache, new = other.new_cache(), [*MODEL.start_ids, *ids]
            new = [int(one(np.array(new), cache, last=1)[-1].argmax())]
            ids += new
        return ids

    return answer


LESSON_12 = [
    (1, best_by(np.sum, end=False), "not as a whole text"),
    (1, best_by(np.mean), "mean"),
    (2, aligned(end=None), "</s>"),
    (2, aligned(name=False), "name"),
    (3, switch(first_only=True), "second source"),
    (3, switch(again=True), "keep the keys"),
]


# --- lesson 13 ------------------------------------------------------------------------------------


def cache_size(two=2, layers=True, kv=True, d_head=True, n_tokens=True):
    def answer(config, n, n_bytes):
        heads = config["num_attention_heads"]
        size = config["hidden_size"] // heads
        size = config.get("head_dim", size) if d_head else size
        n_kv = config.get("num_key_value_heads", heads) if kv else heads
        layers_ = config["num_hidden_layers"] if layers else 1
        return two * layers_ * n_kv * size * n_bytes * (n if n_tokens else 1)

    return answer


def turned(sign=1, one=False, interleaved=False, real=True):
    def answer(x, positions, frequencies):
        half = x.shape[-1] // 2
        a, b = (x[:, ::2], x[:, 1::2]) if interleaved else (x[:, :half], x[:, half:])
        angles = positions[:, None] * (frequencies[:1] if one else frequencies)
        z = (a + 1j * b) * np.exp(sign * 1j * angles)
        if not real:
            return z
        if interleaved:
            return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
        return np.concatenate([z.real, z.imag], axis=-1)

    return answer


def shared(pick):
    def answer(w, n_head, n_kv_head):
        n_group, d = n_head // n_kv_head, len(w) // n_head
        return pick(w, n_kv_head, n_group, d).reshape(-1, w.shape[1])

    return answer


LESSON_13 = [
    (1, cache_size(two=1), "*and*"),
    (1, cache_size(layers=False), "each layer"),
    (2, turned(interleaved=True), "partner"),
    (2, turned(sign=-1), "other way"),
    (3, shared(lambda w, n_kv, n_group, d: w.reshape(n_kv, n_group, d, -1).sum(1)), "not their"),
    (3, shared(lambda w, n_kv, n_group, d: w.reshape(n_kv, n_group, d, -1)[:, 0]), "mean of rows"),
]


# --- lesson 14 ------------------------------------------------------------------------------------


def mixture(of):
    return lambda p, q, w: -of(np.asarray(p), np.asarray(q), w)


LESSON_14 = [
    (1, lambda p: sum(math.ceil(-math.log2(x)) for x in p), "how many bytes"),
    (1, lambda p: math.ceil(sum(math.ceil(-math.log2(x)) for x in p) / 8), "round at the end"),
    (2, mixture(lambda p, q, w: (w * np.log2(p) + (1 - w) * np.log2(q)).mean()), "not their log"),
    (2, mixture(lambda p, q, w: np.log2((1 - w) * p + w * q).mean()), "first model"),
    (3, lambda x, ids: [(row > row[i]).sum() for row, i in zip(x, ids)], "not 0"),
    (3, lambda x, ids: [1 + (row < row[i]).sum() for row, i in zip(x, ids)], "upside down"),
]


# --- lesson 15 ------------------------------------------------------------------------------------


def restored(rounding=np.round, steps=lambda bits: 2**bits - 1, whole=False, symmetric=False):
    def answer(w, bits, size):
        parts = w.reshape(1 if whole else -1, -1 if whole else size)
        low, high = parts.min(1, keepdims=True), parts.max(1, keepdims=True)
        if symmetric:
            high = np.abs(parts).max(1, keepdims=True)
            low = -high
        step = np.maximum((high - low) / steps(bits), 1e-12)
        return (low + step * rounding((parts - low) / step)).reshape(w.shape)

    return answer


def float16(exponent=5, bias=15, sign=True, rounded=False):
    def answer(x):
        if rounded:
            return int(np.float16(x).view(np.uint16))
        bits = int(x.view(np.uint32))
        e = (bits >> 23 & 255) - 127 + bias
        fraction = (bits & 0x7FFFFF) >> 8 + exponent
        return (bits >> 31) * sign << 15 | e << 15 - exponent | fraction

    return answer


def fits(memory, bits, size):
    groups, rest = divmod(8 * memory, bits * size + 16)
    return groups * size + max(0, rest - 16) // bits


LESSON_15 = [
    (1, restored(rounding=np.floor), "nearest"),
    (1, restored(whole=True), "own grid"),
    (2, lambda memory, bits, size, rows, cache: 8 * memory // (bits + 16 / size), "30 scales"),
    (2, lambda memory, bits, size, rows, cache: fits(memory, bits, size), "each text's"),
    (
        2,
        lambda memory, bits, size, rows, cache: fits(memory - rows * cache, bits, size),
        "not even",
    ),
    (3, float16(exponent=8, bias=127), "bfloat16"),
    (3, float16(sign=False), "sign bit"),
]


# --- lesson 16 ------------------------------------------------------------------------------------


def ballot(of):
    def answer(answers, weights):
        found: dict = {}
        for text, weight in zip(answers, weights):
            found.setdefault(text, []).append(weight)
        return max(found, key=lambda text: of(found[text]))

    return answer


def draws(rounding):
    def answer(p, sure):
        if p in (0, 1):
            return math.inf if p == 0 else 1
        return rounding(math.log(1 - sure) / math.log(1 - p))

    return answer


LESSON_16 = [
    (1, ballot(len), "not answers"),
    (1, ballot(max), "sum"),
    (2, draws(math.floor), "round up"),
    (2, draws(float), "whole number"),
    (3, lambda p, catch, slip: p * catch, "*and*"),
    (3, lambda p, catch, slip: catch, "catch"),
]


PATHS = [path for path in sorted(FOLDER.glob("[01]*.ipynb")) if path.stem[:2] >= "08"]
TABLES = (
    LESSON_8,
    LESSON_9,
    LESSON_10,
    LESSON_11,
    LESSON_12,
    LESSON_13,
    LESSON_14,
    LESSON_15,
    LESSON_16,
)
CASES = [(path.stem, *case) for path, cases in zip(PATHS, TABLES) for case in cases]


@pytest.mark.parametrize("lesson, number, answers, missing", CASES)
def test_a_wrong_answer_is_refused_with_the_right_message(lesson, number, answers, missing, capsys):
    lessons.check(lesson, number, *(answers if isinstance(answers, tuple) else [answers]))
    message = capsys.readouterr().out
    assert message.startswith("not solved yet: ") and missing in message
    assert "Error" not in message  # an assert failed; no other error was raised
