"""The checks of the exercises refuse wrong answers, and say what is missing. A wrong answer is the
solution with some text replaced."""

import contextlib
import functools
import io
import re
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402, F401, it makes the project's files importable

pytestmark = pytest.mark.slow

# lesson: (the exercise, what its check says, old text, new text, ...)
WRONG = {
    "forward_pass": [
        ("attention", "without the mask", " + mask", ""),
        ("attention", "by sqrt(d)", " / math.sqrt(q.shape[-1])", ""),
        (
            "attention",
            "over the queries",
            "softmax(scores + mask)",
            "softmax((scores + mask).swapaxes(-1, -2)).swapaxes(-1, -2)",
        ),
        (
            "attention",
            "",
            "+ mask",
            "+ causal_mask(np.arange(k.shape[-2]))[:, -q.shape[-2] :]",
        ),
        (1, "the biases", " + 1)", ")"),
        (1, "the table wte", "(n_vocab + n_ctx)", "(2 * n_vocab + n_ctx)"),
        (2, "rows of w", "[:, h * d_head : (h + 1) * d_head]", "[h * d_head : (h + 1) * d_head].T"),
        (2, "the bias", "head @ part.T", "head @ part.T + b"),
        (3, "[1, n, n]", "[None]", ""),
        (3, "float32", "np.float32(0)", "np.float64(0)"),
    ],
    "tokens": [
        (
            1,
            "join all bytes first",
            'bytes(char_to_byte[char] for char in spelling).decode("utf-8", errors="replace")',
            '"".join(tokenizer.decode([id]) for id in ids)',
        ),
        (1, "spelling of a space", "return bytes(", "return spelling or bytes("),
        (2, "a word of its own", r"(\d)", r"(\d+)"),
        (2, "without its space", r"(\d)", r"( ?\d)"),
        (3, "ways, not 1", "append(sum(", "append(max("),
        (3, "a longer text", "max(map(len, pieces))", "3"),
    ],
    "factorization": [
        (1, "nats", "math.log2", "math.log"),
        (1, "per character", 'len(text.encode("utf-8"))', "len(text)"),
        (2, "divide by P(x2)", " / both[:, second].sum()", ""),
        (2, "given the first", "both[:, second]", "both[second]"),
        (3, "tokens: which sum", "return result", "return sharpened_texts(joint, t)"),
        (3, "square the odds", "return powers /", "return sharpened_tokens(joint, t)  # "),
    ],
    "learning": [
        ("linear", "dw is transposed", "dy.T @ x", "x.T @ dy"),
        ("linear", "dw is a mean", "dy.T @ x", "dy.T @ x / len(x)"),
        ("linear", "add up the rows of dy", "dy.sum(axis=0)", "dy"),
        ("linear", "do not transpose w", "dy @ w,", "dy @ w.T,"),
        ("cross_entropy", "the sum of the losses", " / len(targets)", ""),
        ("cross_entropy", "the number of tokens", "p / len(targets)", "p / logits.size"),
        (
            "cross_entropy",
            "in one place of each row",
            "[range(len(targets)), targets]",
            "[:, targets]",
        ),
        ("cross_entropy", "the sign", "return p", "return -p"),
        ("cross_entropy", "the target is missing", "-= 1", "-= 0"),
        (
            "cross_entropy",
            "changes every P",
            "p = softmax(logits)",
            "q = softmax(logits); p = 0 * q",
            "-= 1",
            "-= 1 / q[range(len(targets)), targets]",
        ),
        (
            "cross_entropy",
            "overflow",
            "softmax(logits)",
            "np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)",
        ),
        (1, "three times, and only", "np.add.at(dwte, ids, dx)", "dwte[ids] += dx"),
        (
            2,
            "began at 0",
            "(mean / (1 - 0.9**n)) / (np.sqrt(square / (1 - 0.95**n))",
            "mean / (np.sqrt(square)",
        ),
        (2, "square root", "np.sqrt(square / (1 - 0.95**n))", "(square / (1 - 0.95**n))"),
        (2, "subtract", "p - rate", "p + rate"),
        (3, "the sum of the parts", "len(part[0]) * ", "len(inputs) * "),
        (
            3,
            "the last part",
            "len(part[0]) * gradient_of",
            "size * gradient_of",
            "/ len(inputs)",
            "/ (size * len(range(0, len(inputs), size)))",
        ),
    ],
    "loop_and_cache": [
        ("loop", "in all", "return ids", "return ids[-n:]"),
        ("loop", "its argument", "    ids = list(ids)\n", ""),
        (1, "there is no mask", "mask = causal_mask(positions)", "mask = 0"),
        (
            1,
            "one is enough",
            "    n_old",
            "    if len(ids) > 1:\n"
            "        return np.concatenate([prefill([id], keys, values) for id in ids])\n"
            "    n_old",
        ),
        (2, "left picture", "n * m + n * (n - 1) // 2", "n * (m + n)"),
        (2, "last new token", "return m + n - 1", "return m + n"),
        (
            3,
            "are enough",
            "cache.cut(",
            "cache = model.new_cache()\n        model(beginning, cache)#",
        ),
        (3, "the first token", ".sum())", "[1:].sum())"),
    ],
    "samplers": [
        (1, "nearest", "np.abs(surprise - expected)", "surprise"),
        (1, "two are enough", ", mass)", ', mass, "right")'),
        (
            2,
            "five numbers",
            "logits - np.log(-np.log(rng.random(len(logits))))",
            "rng.random() < np.cumsum(softmax(logits))",
        ),
        (
            2,
            "softmax",
            "logits - np.log(-np.log(rng.random(len(logits))))",
            "softmax(logits) / -np.log(rng.random(len(logits)))",
        ),
        (3, "bits", "np.float32(low)", "np.float32(0.7)"),
        (3, "bits instead of", "< bits", "< bits * np.log(2)"),
    ],
    "search": [
        (1, "more than", "return n_vocab ** (n - 1)", "return n_vocab**n"),
        (1, "not with 4", "return n_vocab ** (n - 1)", "return 6 ** (n - 1)"),
        (
            2,
            "nearly everything",
            "heapq.heappop(heap)",
            "heap.pop(heap.index(min(heap, key=lambda text: (len(text[1]), text))))",
        ),
        (2, "below", "heapq.heappop(heap)", "min(heap, key=lambda text: (-len(text[1]), text))"),
        (
            3,
            "counted twice",
            "len(bigrams[i] & b)",
            "sum(pair in b for pair in zip(texts[i], texts[i][1:]))",
        ),
        (3, "divide", "/ len(bigrams[i] | b)", "/ (len(bigrams[i]) + len(b))"),
        (3, "divide", "/ len(bigrams[i] | b)", "/ min(len(bigrams[i]), len(b))"),
    ],
    "choosing": [
        (1, "is left", "phrase in end + piece", "piece.strip() == phrase"),
        (1, "keep", "in end + piece", "in text + piece"),
        (2, "accused", ">= 4", ">= -100"),
        (2, "at least 4", ">= 4", ">= 3"),
        (3, "smaller share", "float(np.prod(masses))", "1"),
        (3, "not to 1", "/ total", "/ len(drawn)"),
    ],
    "counting": [
        (
            1,
            "not of tokens",
            "sum(pass_flops(STORIES, n, n) for n in lengths) / padded",
            "sum(lengths) / (len(lengths) * longest)",
        ),
        (1, "not wasted", "return 1 - ", "return "),
        (2, "more FLOPs", ", last=1", ""),
        (2, "the chunks before it", ", cache,", ", model.new_cache(),"),
        (
            3,
            "not of attention's",
            "1 - kept / full",
            "(full - kept) / sum(4 * shape[0] * shape[1] * i for i in range(1, n + 1))",
        ),
        (3, "first tokens", "min(i, w)", "w"),
    ],
    "roofline": [
        (1, "not all of them", "pass_flops(shape, 1, n)", "pass_flops(shape, n, n)"),
        (1, "not the sum", "max(read / bandwidth, work / peak)", "read / bandwidth + work / peak"),
        (
            2,
            "of each chunk",
            "seconds += max(reading, computing)\n    return seconds",
            "seconds = seconds + np.array([reading, computing])\n    return max(seconds)",
        ),
        (
            2,
            "all weights again",
            "pass_bytes(shape, end)",
            "(pass_bytes(shape, end) - (start > 0) * pass_bytes(shape, 0))",
        ),
        (3, "not in blocks", "np.concatenate([y, w[n_full:] @ rows.T]).T", "rows @ w.T"),
        (3, "view of it", "    n_full =", "    w = w.copy()\n    n_full ="),
    ],
    "serving": [
        ("loop", "does its row", "select(stay)", "select(range(len(stay)))"),
        ("loop", "passes instead of", "len(running) < max_rows", "not running"),
        ("loop", "does not get the text", "if sequence.running:", "if True:"),
    ],
    "encoder_decoder": [
        (1, "not as a whole text", "encode(candidate)]", "plain_ids(candidate)]"),
        (1, "mean", ".sum()", ".mean()"),
        (2, "</s>", "looked_at))[:-1]", "looked_at))"),
        (2, "name", "names(np.array(source)[weights.argmax(-1)])", "weights.argmax(-1)"),
        (2, "shifted by one", "[weights.", "[np.roll(weights, 1, 0)."),
    ],
    "llama": [
        (1, "*and*", "return 2 * ", "return "),
        (1, "each layer", 'config["num_hidden_layers"] * ', ""),
        (
            2,
            "partner",
            "x[:, :half] + 1j * x[:, half:]",
            "x[:, ::2] + 1j * x[:, 1::2]",
            "np.concatenate([z.real, z.imag], axis=-1)",
            "np.stack([z.real, z.imag], axis=-1).reshape(x.shape)",
        ),
        (2, "other way", "np.exp(1j", "np.exp(-1j"),
        (3, "not their", ".mean(axis=1)", ".sum(axis=1)"),
        (3, "mean of rows", ".mean(axis=1)", "[:, 0]"),
    ],
    "history": [
        (1, "how many bytes", "bits / 8", "bits"),
        (1, "round at the end", "-np.log2(probabilities)", "np.ceil(-np.log2(probabilities))"),
        (2, "not their log", "w * p + (1 - w) * q", "p**w * q ** (1 - w)"),
        (2, "first model", "w * p + (1 - w) * q", "(1 - w) * p + w * q"),
        (3, "not 0", "1 + (", "("),
        (3, "upside down", "logits > chosen", "logits < chosen"),
    ],
    "fewer_bytes": [
        (1, "nearest", "np.round", "np.floor"),
        (1, "own grid", "w.reshape(-1, size)", "w.reshape(1, -1)"),
        (2, "30 scales", "return max(", "return int(left // (bits + 16 / size)) or max("),
        (2, "each text's", "memory - n_rows * cache", "memory"),
        (2, "not even", "max(0, groups * size +", "(groups * size +"),
        (3, "bfloat16", "sign << 15 | (exponent - 127 + 15) << 10 | fraction >> 13", "bits >> 16"),
        (3, "sign bit", "sign << 15 | ", ""),
    ],
    "more_samples": [
        (1, "not answers", "0) + weight", "0) + 1"),
        (1, "sum", "totals.get(answer, 0) + weight", "max(totals.get(answer, 0), weight)"),
        (2, "round up", "math.ceil", "math.floor"),
        (2, "whole number", "math.ceil", "float"),
        (3, "*and*", " / accepted", ""),
        (3, "catch", "p * catch / accepted", "catch"),
    ],
}
CASES = [(lesson, *case) for lesson, cases in WRONG.items() for case in cases]
NEEDED = {  # the cells whose names a solution uses, beside the first cell with imports
    "tokens": ["words-letters", "bytes"],
    "loop_and_cache": ["step"],
    "samplers": ["cell-4"],
    "choosing": ["cell-4"],
    "counting": ["c4", "c6", "c7", "c9", "c11"],
    "roofline": ["c6"],
    "encoder_decoder": ["cell-4", "cell-6"],
}


@functools.cache
def cells(lesson):
    """Return {id: cell} of a lesson's notebook, and the names that its first cells define."""
    notebook = nbformat.read(FOLDER / f"{lesson}.ipynb", as_version=4)
    found, names = {cell.id: cell for cell in notebook.cells}, {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in [notebook.cells[2], *map(found.get, NEEDED.get(lesson, []))]:
            exec(cell.source, names)
    return found, names


def message(capsys, lesson, number, *changes):
    """Replace text in the solution of an exercise. Return what its check prints."""
    found, names = cells(lesson)
    start = f'lessons.check("{lesson}", {number!r}'.replace("'", '"')
    sources = [cell.source for cell in found.values()]
    [(code, check)] = [pair for pair in zip(sources, sources[1:]) if start in pair[1]]
    if isinstance(number, int):  # otherwise the cell before the check is one that readers write
        text = (FOLDER / "solutions" / f"{lesson}.py").read_text(encoding="utf-8")
        code = re.split(r"^# exercise \d+$", text, flags=re.MULTILINE)[number]
    for old, new in zip(changes[::2], changes[1::2]):
        assert old in code, old
        code = code.replace(old, new)
    exec(code, names := dict(names))
    exec(check[check.index(start) :], names)
    return capsys.readouterr().out


@pytest.mark.parametrize("lesson, number, missing, changes", [(*c[:3], c[3:]) for c in CASES])
def test_a_wrong_answer_is_refused_with_the_right_message(lesson, number, missing, changes, capsys):
    said = message(capsys, lesson, number, *changes)
    assert said.startswith("not solved yet: ") and missing in said
    assert "Error" not in said  # an assert failed; no other error was raised


@pytest.mark.parametrize(
    "lesson, name", dict.fromkeys((c[0], c[1]) for c in CASES if isinstance(c[1], str))
)
def test_the_cells_that_readers_write_are_solved(lesson, name, capsys):
    assert message(capsys, lesson, name) == "solved\n"
