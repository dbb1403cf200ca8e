"""The checks of lessons 1 to 7 refuse wrong answers to the exercises, and say what is missing."""

import contextlib
import io
import math
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402

import utils  # noqa: E402
from encoder import gpt2_words  # noqa: E402
from examples import watermark  # noqa: E402
from gpt2 import log_softmax, softmax  # noqa: E402
from samplers import draw, top_p  # noqa: E402

pytestmark = pytest.mark.slow

TOKENIZER, MODEL = utils.load("stories")


def changed(lesson, number, *changes):
    """Run an exercise's solution with some code replaced; return the names that it defines."""
    text = (FOLDER / "solutions" / f"{lesson}.py").read_text(encoding="utf-8")
    part = re.split(r"^# exercise (\d+)$", text, flags=re.MULTILINE)[2 * number]
    for old, new in changes:
        assert old in part, old
        part = part.replace(old, new)
    notebook = FOLDER / f"{lesson}.ipynb"
    names = imports(notebook)
    exec(part, names)
    return names


def imports(path):  # a notebook's path -> the names that its cells listed below define
    names: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.id in ("imports", "cell-2", "step", "cell-4"):
                exec(cell.source, names)
    return names


# --- lesson 1 -------------------------------------------------------------------------------------


def scores(q, k):
    return q @ k.swapaxes(-1, -2)


def no_mask(q, k, v, mask):
    return softmax(scores(q, k) / math.sqrt(q.shape[-1])) @ v


def no_scale(q, k, v, mask):
    return softmax(scores(q, k) + mask) @ v


def over_queries(q, k, v, mask):
    s = scores(q, k) / math.sqrt(q.shape[-1]) + mask
    e = np.exp(s - s.max(axis=-2, keepdims=True))
    return e / e.sum(axis=-2, keepdims=True) @ v


def own_mask(q, k, v, mask):
    hidden = np.tri(q.shape[-2], k.shape[-2], k.shape[-2] - q.shape[-2]) == 0
    return no_scale(q / math.sqrt(q.shape[-1]), k, v, np.where(hidden, np.float32(-1e10), 0))


def parameters(**without):
    def n_parameters(n_vocab, n_ctx, d, n_layer):
        parts = {"wte": n_vocab * d, "wpe": n_ctx * d, "last": 2 * d, "norms": 4 * d * n_layer}
        parts |= {"matrices": 12 * d * d * n_layer, "biases": 9 * d * n_layer}
        return sum(size * without.get(name, 1) for name, size in parts.items())

    return n_parameters


def parts(mixed, w, b):  # the right answer
    size = mixed.shape[-1]
    return np.array([m @ w[:, h * size : (h + 1) * size].T for h, m in enumerate(mixed)])


def rows(mixed, w, b):
    size = mixed.shape[-1]
    return np.array([m @ w[h * size : (h + 1) * size] for h, m in enumerate(mixed)])


def window(n, w, low=0, high=0):  # the defaults give the right answer
    query, key = np.arange(n)[:, None], np.arange(n)
    hidden = (key > query + high) | (key <= query - w - low)
    return np.where(hidden, np.float32(-1e10), np.float32(0))[None]


def reach(n_layer, w):
    return n_layer * (w - 1)


LESSON_1 = [
    ("attention", no_mask, "without the mask"),
    ("attention", no_scale, "by sqrt(d)"),
    ("attention", over_queries, "over the queries"),
    ("attention", own_mask, ""),
    (1, parameters(biases=0), "the biases"),
    (1, parameters(wte=2), "the table wte"),
    (2, rows, "rows of w"),
    (2, lambda mixed, w, b: parts(mixed, w, b) + b, "the bias"),
    (3, (lambda n, w: window(n, w)[0], reach), "[1, n, n]"),
    (3, (lambda n, w: window(n, w).astype(float), reach), "float32"),
]

# --- lesson 2 -------------------------------------------------------------------------------------


def spelling(ids, spelled):
    return "".join(spelled[id] for id in ids)


def one_by_one(ids, spelled):
    return "".join(TOKENIZER.token_bytes(id).decode("utf-8", "replace") for id in ids)


def with_space(text):
    import regex

    return regex.findall(r" ?\d|'s| ?\p{L}+| ?[^\s\p{L}\d]+|\s+(?!\S)|\s+", text)


def only_last_cut(data, pieces):  # it counts only the greedy cut from the left
    if not data:
        return 1
    longest = next((data[:n] for n in range(len(data), 0, -1) if data[:n] in pieces), b"")
    return only_last_cut(data[len(longest) :], pieces) if longest else 0


def short_pieces(data, pieces, longest=3):
    ways = [1]
    for end in range(1, len(data) + 1):
        begins = range(max(0, end - longest), end)
        ways.append(sum(ways[begin] for begin in begins if data[begin:end] in pieces))
    return ways[-1]


LESSON_2 = [
    (1, one_by_one, "join all bytes first"),
    (1, spelling, "spelling of a space"),
    (2, gpt2_words, "a word of its own"),
    (2, with_space, "without its space"),
    (3, only_last_cut, "ways, not 1"),
    (3, short_pieces, "a longer text"),
]

# --- lesson 3 -------------------------------------------------------------------------------------


def size(text):
    return len(text.encode())


def pairs(joint):
    return joint.sum(axis=(2, 3))


def whole(joint, t, power=-1):
    powers = joint ** (t**power)
    return powers / powers.sum()


def tokens(joint, t, *changes):
    return changed("03_factorization", 3, *changes)["sharpened_tokens"](joint, t)


LESSON_3 = [
    (1, lambda p, n, text: n * math.log(p) / size(text), "nats"),
    (1, lambda p, n, text: n * math.log2(p) / len(text), "per character"),
    (2, lambda joint, second: pairs(joint)[:, second], "divide by P(x2)"),
    (2, lambda joint, s: pairs(joint)[s] / pairs(joint)[s].sum(), "given the first"),
    (3, (whole, whole), "tokens: which sum"),
    (3, (tokens, tokens), "square the odds"),
]

# --- lesson 4 -------------------------------------------------------------------------------------


def continued(ids, n, row=-1, of=MODEL):
    ids = list(ids)
    for _ in range(n):
        ids.append(int(of(np.array(ids))[row].argmax()))
    return ids


def in_place(ids, n):
    for _ in range(n):
        ids.append(int(MODEL(np.array(ids))[-1].argmax()))
    return ids


def prefill(*changes):
    return changed("04_loop_and_cache", 1, *changes)["prefill"]


def endings(*changes):
    return changed("04_loop_and_cache", 3, *changes)["log_p_endings"]


def read_again(model, beginning, ends):
    rows = [log_softmax(model(np.array([*beginning, *e])))[len(beginning) - 1 : -1] for e in ends]
    return [row[range(len(e)), e].sum() for row, e in zip(rows, ends)]


def one_by_one(ids, keys, values):
    return np.concatenate([prefill()([id], keys, values) for id in ids])


LESSON_4 = [
    ("loop", lambda ids, n: continued(ids, n)[len(ids) :], "in all"),
    ("loop", in_place, "its argument"),
    (1, prefill(("causal_mask(positions)", "0")), "there is no mask"),
    (1, one_by_one, "one is enough"),
    (2, (lambda m, n: n * (m + n), lambda m, n: m + n - 1), "left picture"),
    (2, (lambda m, n: n * m + n * (n - 1) // 2, lambda m, n: m + n), "last new token"),
    (3, read_again, "are enough"),
    (3, endings((".sum())", "[1:].sum())")), "the first token"),
]

# --- lesson 5 -------------------------------------------------------------------------------------


def typical(*changes):
    return changed("05_samplers", 1, *changes)["typical"]


def at_entropy(*changes):
    return changed("05_samplers", 3, *changes)["at_entropy"]


def race(logits, rng):  # its draws are exact, but it computes a softmax
    return int(np.argmin(-np.log(rng.random(len(logits))) / softmax(logits)))


LESSON_5 = [
    (1, top_p, "nearest"),
    (1, typical((", mass)", ', mass, "right")')), "two are enough"),
    (2, lambda logits, rng: draw(softmax(logits), rng), "five numbers"),
    (2, race, "softmax"),
    (3, lambda bits: lambda logits, ids: logits / np.float32(0.7), "bits"),
    (3, at_entropy(("< bits", "< bits * np.log(2)")), "bits instead of"),
]

# --- lesson 6 -------------------------------------------------------------------------------------


def all_texts(next_log_probs, n):  # it continues every prefix
    texts = [((), 0.0)]
    for _ in range(n):
        texts = [
            ((*ids, i), total + p)
            for ids, total in texts
            for i, p in enumerate(next_log_probs(ids))
        ]
    return max(texts, key=lambda text: text[1])[0], (6**n - 1) // 5


def greedy_text(next_log_probs, n):
    ids = ()
    for _ in range(n):
        ids += (int(np.argmax(next_log_probs(ids))),)
    return ids, n


def consensus(likeness):
    def index(texts):
        grams = [set(zip(text, text[1:])) for text in texts]
        return int(np.argmax([sum(likeness(a, b) for b in grams) for a in grams]))

    return index


def as_lists(texts):  # it counts a bigram every time it occurs
    grams = [list(zip(text, text[1:])) for text in texts]
    likeness = [[sum(x in b for x in a) / len(a + b) for b in grams] for a in grams]
    return int(np.argmax(np.sum(likeness, axis=1)))


LESSON_6 = [
    (1, lambda v, n: v**n, "more than"),
    (1, lambda v, n: 6 ** (n - 1), "not with 4"),
    (2, all_texts, "nearly everything"),
    (2, greedy_text, "below"),
    (3, as_lists, ""),
    (3, consensus(lambda a, b: len(a & b) / (len(a) + len(b))), "divide"),
    (3, consensus(lambda a, b: len(a & b) / min(len(a), len(b))), "divide"),
]

# --- lesson 7 -------------------------------------------------------------------------------------

PIECES = [TOKENIZER.decode([id]) for id in range(MODEL.n_vocab)]


def never(removed, in_place=False):  # removed(phrase, text so far, piece) -> bool
    def maker(phrase):
        def forbid(logits, ids):
            logits = logits if in_place else logits.copy()
            text = TOKENIZER.decode(list(ids))
            logits[[removed(phrase, text, piece) for piece in PIECES]] = -np.inf
            return logits

        return forbid

    return maker


def z(ids, key):
    return watermark.detect(ids, key, 3329)


def accused(threshold):
    def writer(ids, keys):
        best = max(keys, key=lambda key: z(ids, key))
        return best if z(ids, best) >= threshold else None

    return writer


def weighted(weight, normalised=True):
    def corrected(drawn):
        found: dict = {}
        for text, masses in drawn:
            found[text] = found.get(text, 0) + weight(masses)
        total = sum(found.values()) if normalised else len(drawn)
        return {text: share / total for text, share in found.items()}

    return corrected


LESSON_7 = [
    (1, never(lambda phrase, text, piece: piece.strip() == phrase), "is left"),
    (1, never(lambda phrase, text, piece: phrase in text + piece), "keep"),
    (2, accused(-100), "accused"),
    (2, accused(3), "at least 4"),
    (3, weighted(lambda masses: 1), "smaller share"),
    (3, weighted(np.prod, normalised=False), "not to 1"),
]

PATHS = sorted(FOLDER.glob("0[1-7]*.ipynb"))
TABLES = LESSON_1, LESSON_2, LESSON_3, LESSON_4, LESSON_5, LESSON_6, LESSON_7
CASES = [(path.stem, *case) for path, cases in zip(PATHS, TABLES) for case in cases]


@pytest.mark.parametrize("lesson, number, answers, missing", CASES)
def test_a_wrong_answer_is_refused_with_the_right_message(lesson, number, answers, missing, capsys):
    lessons.check(lesson, number, *(answers if isinstance(answers, tuple) else [answers]))
    message = capsys.readouterr().out
    assert message.startswith("not solved yet: ") and missing in message
    assert "Error" not in message  # an assert failed; no other error was raised


def test_right_answers_to_the_two_exercises_without_a_solution_are_solved(capsys):
    from gpt2 import attention

    lessons.check("01_forward_pass", "attention", attention)
    lessons.check("04_loop_and_cache", "loop", continued)
    assert capsys.readouterr().out == "solved\nsolved\n"
