"""Compare tokenwise with other libraries on the same weights, and its methods with each other.

    pip install -r benchmarks/requirements.txt     # onnxruntime and onnx are optional
    python -m benchmarks.benchmark

On its first run, the benchmark makes random checkpoints (2 GB, in benchmarks/checkpoints). It
checks that all contenders compute the same logits. Then it runs several rounds. In each round, it
runs the contenders one after the other, each in its own process. It prints medians and ratios, and
writes results.json and methods.png to this file's folder. Run it on a quiet machine: if another
process is busy, two BLAS threads can be ten times slower than one.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks import checkpoints, contender

HERE = Path(__file__).resolve().parent
MEASURES = {  # model -> what to measure
    "124M": ["start", "speeds"],
    "t5-small": ["seq2seq"],
    "bart-base": ["seq2seq"],
    "SmolLM2-135M": ["start", "speeds"],
}
# The measures that are reported in tokens/s. The numbers mean the same as in PASSES.
TIMED = {**contender.PASSES, "decode": (1, 0, 1), "beam 4": (1, 0, 1)}


def run(words, threads):
    """Run contender.py in its own process, with `words` as its arguments. Return the JSON object
    that it prints last. If it prints "token" before that, add the seconds until the first one."""
    environment = os.environ | {
        name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    }
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(name, None)  # these may override the detected processor and its cache size
    command = [sys.executable, "-m", "benchmarks.contender", *map(str, words)]
    started, found = time.perf_counter(), {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, cwd=HERE.parent, text=True
    ) as process:
        for line in process.stdout:
            if line == "token\n":
                found.setdefault("start to first token", time.perf_counter() - started)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return found | json.loads(line)


def once(path, make, *args):
    """Make a folder at `path`, unless it exists: call make(folder, *args). The folder has a
    different name until it is complete.

    A child process calls `make`. If this process called it, its own peak memory would grow, and
    every later child process would report at least that peak."""
    if not path.is_dir():
        print(f"making {path.name}", file=sys.stderr)
        new = path.with_name("new")
        shutil.rmtree(new, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(make, new, *args).result()
        new.rename(path)


def schedule(folders, names):
    """For each process of a round, yield (group, contender's name, folder, what to measure)."""
    for name in names:
        for model, folder in folders.items():
            if model == "124M" or contender.CONTENDERS[name][1]:  # onnxruntime has only GPT-2
                for measure in MEASURES[model]:
                    yield model, name, folder, measure
    yield "methods", "tokenwise", folders["124M"], "methods"


def measure(folders, names, args):
    """Check that the contenders agree, then run all rounds. folders: {model: its folder}.

    Return {group: {contender: {measure: median over the rounds}}}."""
    for name in names:
        run([name, folders["124M"], "agrees", args.repeats], args.threads)
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for number in range(args.rounds):
        for group, name, folder, kind in schedule(folders, names):
            print(f"round {number + 1}: {name}, {group}", file=sys.stderr)
            for key, value in run([name, folder, kind, args.repeats], args.threads).items():
                found[group][name][key].append(value)
    return {
        group: {name: medians(values) for name, values in contenders.items()}
        for group, contenders in found.items()
    }


def medians(times):
    """Return {name: median} for {name: list of numbers}."""
    return {name: statistics.median(values) for name, values in times.items()}


# --- the report -----------------------------------------------------------------------------------


def report(results):
    """Yield the lines of the report."""
    for group, names in results.items():
        if group in MEASURES:
            yield from comparison(group, names)
    methods = results["methods"]["tokenwise"]
    yield "\ntokenwise's methods: 64 tokens in, 32 out"
    for name, found in methods.items():
        yield f"{name}: {1 / found:.1f} tok/s, {methods['cached'] / found:.2f} times cached"
    yield from verification(results["124M"])


def comparison(group, names):
    """Yield a title, then a line for each measure: the values of all contenders, then
    tokenwise's value divided by the better value of the two contenders that use transformers."""
    theirs = [name for name in names if name.startswith("transformers")]
    title = "   ours / transformers" * bool(theirs)
    yield f"\n{group:<24}" + "".join(f"{name:>20}" for name in names) + title
    for key in names["tokenwise"]:
        values = {name: with_unit(key, found[key]) for name, found in names.items()}
        line = [f"{number:>12.1f} {unit:<7}" for number, unit in values.values()]
        if theirs:
            best = (max if key in TIMED else min)(values[name][0] for name in theirs)
            line.append(f"{values['tokenwise'][0] / best:>22.2f}")
        yield f"{key:<24}" + "".join(line)


def with_unit(key, value):
    """Return a measure as (number, unit): tokens/s for passes, MB for memory, else seconds."""
    if key in TIMED:
        n_rows, _, n_new = TIMED[key]
        return n_rows * n_new / value, "tok/s"
    return (value / 1e6, "MB") if "memory" in key else (value, "s")


def verification(names):
    """Yield a line for each contender: the time to verify drafts, divided by the time of a step."""
    for name, found in names.items():
        costs = [f"{found[f'verify {n}'] / found['decode at 64']:.2f}" for n in (4, 8, 16)]
        yield f"{name}: verifying 4, 8, 16 drafts takes as long as {', '.join(costs)} steps"


def plot(results, path):
    """Plot the picture in the README: the tokens/s of tokenwise's methods, and the tokens/s of each
    contender's steps."""
    import matplotlib.pyplot as plt

    methods = results["methods"]["tokenwise"]
    names = {
        "naive": "naive",
        "cached": "cached",
        "replay 0.8": "speculative,\n80 % accepted",
        "batch": "batch of 8",
    }
    panels = {
        "tokenwise: 64 tokens in, 32 out": {
            label: 1 / methods[name] for name, label in names.items()
        },
        "one cached step at position 64": {
            name: 1 / found["decode at 64"] for name, found in results["124M"].items()
        },
    }
    figure, both = plt.subplots(1, 2, figsize=(10, 2.6), layout="constrained")
    for axes, (title, speeds) in zip(both, panels.items()):
        ours = ("tokenwise", *names.values())
        colors = ["#0072B2" if name in ours else "#E69F00" for name in speeds]
        bars = axes.barh(list(speeds), speeds.values(), color=colors)
        axes.bar_label(bars, fmt=" %.0f")
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(title=title, xlabel="tokens a second, GPT-2 124M, float32")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def arguments():
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=9, help="passes per measure and round")
    parser.add_argument("--threads", type=int, default=2)
    folder = "for checkpoints/, results.json and methods.png, default: this file's folder"
    parser.add_argument("--folder", type=Path, default=HERE, help=folder)
    return parser.parse_args()


def main():
    """Make missing checkpoints, measure, print the report, and write results.json and
    methods.png."""
    args, names = arguments(), contender.installed()
    folders = {model: args.folder / "checkpoints" / model for model in MEASURES}
    for model, folder in folders.items():
        once(folder, checkpoints.make, model)
    if "onnxruntime" in names:
        once(folders["124M"] / "onnx", checkpoints.onnx, folders["124M"])
    results = measure(folders, names, args)
    for line in report(results):
        print(line)
    results["setting"] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "threads": args.threads,
        "rounds": args.rounds,
    }
    (args.folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(results, args.folder / "methods.png")


if __name__ == "__main__":
    main()
