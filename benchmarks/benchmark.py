"""Compare tokenwise with other libraries on the same weights, and with the limits of the machine.

    pip install -r benchmarks/requirements.txt     # the other libraries are optional
    python -m benchmarks.benchmark

On its first run, the benchmark makes random checkpoints (3 GB, in benchmarks/checkpoints). It
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
MODELS = {  # name -> (function that makes the checkpoint, what to measure)
    "t5-small": (checkpoints.t5_small, ["seq2seq"]),
    "bart-base": (checkpoints.bart_base, ["seq2seq"]),
    "SmolLM2-135M": (checkpoints.smollm2, ["start", "speeds"]),
}
# The measures that are reported in tokens/s. The numbers mean the same as in PASSES.
TIMED = {**contender.PASSES, "decode": (1, 0, 1), "beam 4": (1, 0, 1)}


def run(module, words, threads):
    """Run a module in its own process, with `words` as its arguments. Return the JSON object that
    it prints last. If it prints "token" before that, add the seconds until the first "token"."""
    environment = os.environ | {
        name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    }
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(name, None)  # these may override the detected processor and its cache size
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, words)]
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
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(make, new, *args).result()
        new.rename(path)


def make_gpt2(folder, sizes, names):
    """Make a random GPT-2, in every layout that the named contenders read."""
    once(folder, checkpoints.gpt2, sizes)
    layouts = {contender.CONTENDERS[name][0].layout for name in names}
    for layout in layouts - {"huggingface"}:
        once(folder / layout, getattr(checkpoints, layout), folder / "huggingface")


def schedule(args, names, models):
    """For each process of a round, yield (group, contender's name, module, arguments, threads)."""
    for name in names:
        folder = args.folder / "gpt2" / contender.CONTENDERS[name][0].layout
        for measure in ("start", "speeds"):
            words = [name, folder, measure, args.repeats]
            yield "124M", name, "contender", words, args.threads
        for model in models if contender.CONTENDERS[name][1] else ():
            for measure in MODELS[model][1]:
                words = [name, args.folder / model, measure, args.repeats]
                yield model, name, "contender", words, args.threads
    for measure in ("machine", "products", "loops", "methods", "serving", "overhead"):
        words = [args.folder / "gpt2" / "huggingface", measure, args.repeats]
        yield measure, "tokenwise", "inside", words, args.threads
    for measure in ("small", "encode"):
        yield measure, "tokenwise", "inside", ["stories", measure, args.repeats], 1


def measure(args, names, models):
    """Check that the contenders agree, then run all rounds.

    Return {group: {contender: {measure: median over the rounds}}}."""
    for name in names:
        folder = args.folder / "gpt2" / contender.CONTENDERS[name][0].layout
        run("contender", [name, folder, "agrees", args.repeats], args.threads)
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for number in range(args.rounds):
        for group, name, module, words, threads in schedule(args, names, models):
            print(f"round {number + 1}: {name}, {group}", file=sys.stderr)
            for key, value in run(module, words, threads).items():
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
        if group in ("124M", *MODELS):
            yield from comparison(group, names)
    inside = {group: names["tokenwise"] for group, names in results.items()}
    yield from alone(inside)
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


def alone(found):
    """Yield lines that compare tokenwise with the limits of the machine, and tokenwise's methods
    with each other."""
    machine, products, loops = (found[name] for name in ("machine", "products", "loops"))
    gigabytes, gigaflops = machine["bytes/s"] / 1e9, machine["FLOP/s"] / 1e9
    yield f"\nthe machine: a product reads {gigabytes:.1f} GB/s and does {gigaflops:.0f} GFLOP/s"
    step, floor = products["step"], products["bytes"] / machine["bytes/s"]
    yield f"a step: {step * 1e3:.1f} ms"
    yield f"    its matrix products alone take {products['products'] / step:.2f} of this time"
    yield f"    reading the weights once takes {floor * 1e3:.1f} ms, {floor / step:.2f} of it"
    yield f"naive takes {loops['naive'] / loops['passes']:.2f} times as long as its passes alone"
    yield f"cached takes {loops['cached'] / loops['steps']:.2f} times as long as its passes alone"
    slower = loops["naive"] / loops["cached"]
    yield f"naive does {loops['FLOP ratio']:.1f} times the operations of cached"
    yield f"    and takes {slower:.1f} times as long: many rows at once keep the processor busy,"
    yield "    a single row waits for the weights to come from memory"
    methods, serving = found["methods"], found["serving"]
    for rate in ("0.8", "0.95"):
        ratio = methods["cached"] / methods[f"replay {rate}"]
        yield f"speculative, gamma 4, {rate} of the drafts right: {ratio:.2f} times cached"
    ratio = methods["cached"] / methods["lookup"]
    yield f"prompt lookup in a text that repeats itself: {ratio:.2f} times cached"
    ratio = serving["one by one"] / serving["continuous"]
    yield f"64 prompts, 8 rows: {ratio:.2f} times the throughput of one by one"
    share = 1 - found["overhead"]["steps"] / found["overhead"]["whole"]
    yield f"loop, sampler and text take {share:.1%} of the time of a sampled token"
    yield f"stories, one thread: {found['small']['tokens/s']:.0f} tokens/s"
    if "encode" in found:  # tiktoken is installed
        ours, theirs = found["encode"]["tokenwise"], found["encode"]["tiktoken"]
        yield f"2 MB of English to ids: {ours:.2f} s, {ours / theirs:.1f} times tiktoken's time"


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
    parser.add_argument("--folder", type=Path, help="for the models, default: checkpoints/")
    parser.add_argument("--results", type=Path, help="for the results, default: this file's folder")
    small = "only test the benchmark: tokenwise alone, a tiny model, all files in small/"
    parser.add_argument("--small", action="store_true", help=small)
    args = parser.parse_args()
    where = HERE / "small" if args.small else HERE
    args.folder, args.results = args.folder or where / "checkpoints", args.results or where
    return args


def main():
    """Make missing checkpoints, measure, print the report, and write results.json and
    methods.png."""
    args = arguments()
    names = ["tokenwise"] if args.small else contender.installed()
    sizes = checkpoints.TINY if args.small else checkpoints.GPT2
    args.folder.mkdir(parents=True, exist_ok=True)
    make_gpt2(args.folder / "gpt2", sizes, names)
    models = MODELS if "transformers sdpa" in names else {}  # transformers is needed to make them
    for name, (make, _) in models.items():
        once(args.folder / name, make)
    results = measure(args, names, models)
    for line in report(results):
        print(line)
    results["setting"] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "threads": args.threads,
        "rounds": args.rounds,
    }
    (args.results / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(results, args.results / "methods.png")


if __name__ == "__main__":
    main()
