"""Checks: the time of a step, the time of a prefill, a product in blocks."""

import math

import numpy as np
from counting import pass_bytes, pass_flops

GPT2_124M, BIG = (12, 768, 50257), (8, 768, 8192)


def exercise_1(step_seconds):
    """Check step_seconds(shape, n_rows, n, bandwidth, peak, n_bytes=4) -> seconds."""
    bandwidth, peak = 10e9, 100e9

    def times(n_rows, n):  # -> (seconds for reading, seconds for computing)
        read = pass_bytes(GPT2_124M, n, n_rows) / bandwidth
        return read, n_rows * pass_flops(GPT2_124M, 1, n) / peak

    for n_rows, n in (1, 100), (50, 100):
        found, (read, work) = step_seconds(GPT2_124M, n_rows, n, bandwidth, peak), times(n_rows, n)
        texts = f"for {n_rows} text{'s' * (n_rows > 1)} of {n} tokens"
        assert found is not None, "write step_seconds"
        assert not math.isclose(found, read + work), (
            f"reading and computing overlap: take the longer time, not the sum ({texts})"
        )
        assert not math.isclose(found, min(read, work)), (
            f"a step takes the longer time, not the shorter ({texts})"
        )
        whole = n_rows * pass_flops(GPT2_124M, n, n) / peak
        assert not math.isclose(found, whole), (
            "a decoding step passes one token of each text, not all of them"
        )
        shared = pass_bytes(GPT2_124M, n) / bandwidth
        assert n_rows == 1 or not math.isclose(found, max(shared, work / n_rows)), (
            f"this is the time of one text: count the cache and the FLOPs of each row ({texts})"
        )
        assert math.isclose(found, max(read, work)), (
            f"{texts}, reading takes {read:.4g} s and computing {work:.4g} s; you found {found:.4g}"
        )
    long = step_seconds(GPT2_124M, 1000, 1024, 10e9, 1e15)
    assert math.isclose(long, pass_bytes(GPT2_124M, 1024, 1000) / 10e9), (
        "all rows share one reading of the weights, but each row has a cache of its own"
    )
    halves = [step_seconds(GPT2_124M, 2, 500, 10e9, peak, n_bytes=2) for peak in (1e15, 1e9)]
    assert math.isclose(halves[0], pass_bytes(GPT2_124M, 500, 2) / 2 / 10e9), (
        "with numbers of 2 bytes, a step reads half the bytes of the weights and of the cache"
    )
    assert math.isclose(halves[1], 2 * pass_flops(GPT2_124M, 1, 500) / 1e9), (
        "fewer bytes do not change the number of FLOPs"
    )


def exercise_2(prefill_seconds):
    """Check prefill_seconds(shape, n, size, bandwidth, peak) -> seconds."""
    assert prefill_seconds(BIG, 8, 4, 10e9, 1e11) is not None, "write prefill_seconds"
    slow_memory = prefill_seconds(BIG, 12, 4, 10e9, 1e15)
    weights = pass_bytes(BIG, 0)
    read = sum(pass_bytes(BIG, n) for n in (4, 8, 12)) / 10e9
    assert not math.isclose(slow_memory, (read * 10e9 - 2 * weights) / 10e9), (
        "each chunk is a pass of its own, and reads all weights again"
    )
    assert math.isclose(slow_memory, read), (
        "the time is wrong if reading takes longer: each chunk reads the weights, and the keys and"
        " values of all tokens so far"
    )
    slow_processor = prefill_seconds(BIG, 10, 4, 1e15, 1e9)
    work = sum(pass_flops(BIG, *pair) for pair in ((4, 4), (4, 8), (2, 10))) / 1e9
    full = sum(pass_flops(BIG, *pair) for pair in ((4, 4), (4, 8), (4, 12))) / 1e9
    assert not math.isclose(slow_processor, full), "the last chunk has 2 tokens here, not 4"
    assert math.isclose(slow_processor, work), (
        "the time is wrong if computing takes longer: a chunk attends to the chunks before, too"
    )
    bandwidth, peak = 3e10, 2e11
    mixed = max(pass_bytes(BIG, 64) / bandwidth, pass_flops(BIG, 64, 64) / peak)
    mixed += max(pass_bytes(BIG, 65) / bandwidth, pass_flops(BIG, 1, 65) / peak)
    assert math.isclose(prefill_seconds(BIG, 65, 64, bandwidth, peak), mixed), (
        "add the longer time of each chunk: the chunks do not overlap"
    )


class Sides(np.ndarray):
    """An array that records the shapes of the two inputs of each @ and np.matmul with itself."""

    found: list = []
    whole: np.ndarray

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        inputs = [np.asarray(x) for x in inputs]
        if ufunc is np.matmul and any(np.may_share_memory(x, self.whole) for x in inputs):
            self.found.append([x.shape for x in inputs])
        if settings.get("out"):
            settings["out"] = tuple(np.asarray(x) for x in settings["out"])
        return getattr(ufunc, method)(*inputs, **settings)


def exercise_3(blocked):
    """Check blocked(rows, w, size): [n_rows, n_in], [n_out, n_in] -> [n_rows, n_out]."""
    rng = np.random.default_rng(0)
    for n_rows, n_out, size in (3, 96, 32), (5, 101, 32), (2, 7, 8), (1, 65, 64):
        rows = rng.standard_normal((n_rows, 16)).astype(np.float32)
        w = rng.standard_normal((n_out, 16)).astype(np.float32)
        Sides.found, Sides.whole = [], w
        y = blocked(rows, w.view(Sides), size)
        assert y is not None, "write blocked"
        assert np.shape(y) == (n_rows, n_out), (
            f"return the shape {(n_rows, n_out)}, not {np.shape(y)}, for a weight of {n_out} rows"
        )
        assert np.allclose(np.asarray(y), rows @ w.T, atol=1e-4), (
            f"the result differs from rows @ w.T for a weight of {n_out} rows in blocks of {size}"
        )
        assert Sides.found, "multiply with @ by w itself or a view of it, not by a copy"
        for left, right in Sides.found:
            most = max(left[-2], right[-1])
            assert most <= max(size, n_rows), f"a product {left} @ {right} is not in blocks"
