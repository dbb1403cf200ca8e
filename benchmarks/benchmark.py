"""Compare tokenwise with other libraries on the same weights, and its methods with each other.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.benchmark --machine "AMD Zen 4"
    python -m benchmarks.benchmark --rounds 0      # only prints the tables again

On its first run, the benchmark makes random checkpoints (2 GB, in benchmarks/checkpoints). It
checks that all contenders compute the same logits. Then it runs several rounds. In each round, it
runs the contenders one after the other, each in its own process. The medians of three or more
rounds are written to results.json, for each machine. The tables have a column for each. Use a quiet
machine: if another process is busy, two BLAS threads can be ten times slower than one.
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
COMMANDS = {  # contender -> a user's command, up to the model's folder and the prompt
    "tokenwise": ["generate.py", "--tokens", "100", "--temperature", "0", "--model"],
    "transformers": ["benchmarks/whole.py"],
}
PROMPTS = 10, 900  # the number of tokens in a command's prompt


def run(words, threads):
    """Run Python with these words in its own process. Return what it prints, the seconds until it
    begins to print and until it ends, and its peak memory in bytes."""
    both = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
    environment = os.environ | dict.fromkeys(both, str(threads))
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(name, None)  # these may override the detected processor and its cache size
    command, begun = [sys.executable, *map(str, words)], time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, cwd=HERE.parent
    ) as process:
        printed = process.stdout.read(1)
        first = time.perf_counter() - begun
        printed += process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command[:5])} failed")
    return printed, first, time.perf_counter() - begun, usage.ru_maxrss * 1024


def ask(name, folder, measure, args):
    """Return {measure: number}, which contender.py measures in its own process."""
    words = ["-m", "benchmarks.contender", name, folder, measure, args.repeats]
    return json.loads(run(words, args.threads)[0])


def whole(name, folder, n, args):
    """Measure a whole command, from its start to its end. The prompt has n tokens."""
    prompt = "ab12" * (n // 2)  # the tokens are "ab" and "12"
    _, *found = run([*COMMANDS[name], folder, prompt], args.threads)
    return dict(zip(("first token", "end", "peak memory"), found))


def once(path, model):
    """Make a model's checkpoint at `path`, unless it exists. It has another name until it is whole.

    A child process makes it. If this process did, its own peak memory would grow, and every later
    child process would report at least that peak."""
    if not path.is_dir():
        print(f"making {path.name}", file=sys.stderr)
        new = path.with_name("new")
        shutil.rmtree(new, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(checkpoints.make, new, model).result()
        new.rename(path)


def one_round(folders, names, args):
    """For each process of a round, yield a group of measures, a contender and {measure: number}."""
    for name in names:
        for model, folder in folders.items():
            yield model, name, ask(name, folder, "speeds", args)
        for n in PROMPTS:
            yield f"command: {n} tokens in, 100 out", name, whole(name, folders["124M"], n, args)
    yield "methods", "tokenwise", ask("tokenwise", folders["124M"], "methods", args)


def measure(folders, names, args):
    """Check that the contenders agree, then run all rounds. folders: {model: its folder}.

    Return what there is to know about the run; "measures" are {group: {contender: {measure: the
    median of the rounds}}}."""
    kernels = {name: ask(name, folders["124M"], "agrees", args)["kernels"] for name in names}
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for number in range(args.rounds):
        for group, name, values in one_round(folders, names, args):
            print(f"round {number + 1}: {name}, {group}", file=sys.stderr)
            for key, value in values.items():
                found[group][name][key].append(value)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "kernels": kernels,
        "cores": os.cpu_count(),
        "threads": args.threads,
        "rounds": args.rounds,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "measures": {
            group: {name: medians(values) for name, values in contenders.items()}
            for group, contenders in found.items()
        },
    }


def medians(values):  # {name: list of numbers} -> {name: number}
    return {key: statistics.median(numbers) for key, numbers in values.items()}


# --- the report -----------------------------------------------------------------------------------


def report(results):
    """Yield the lines of the report. results: {machine: what `measure` returned}. Each group of
    measures gets a table, with a column for each machine."""
    for machine, run in results.items():
        yield f"{machine}: {', '.join(f'{k} {v}' for k, v in run.items() if k != 'measures')}"
    yield "\nIn brackets: another contender's seconds or bytes, divided by tokenwise's"
    for group, names in run["measures"].items():
        yield f"\n| {group} | {' | '.join(results)} |\n|{'---|' * (1 + len(results))}"
        for key in names["tokenwise"]:
            cells = [cell(key, run["measures"].get(group, {})) for run in results.values()]
            yield f"| {key} | {' | '.join(cells)} |"


def cell(key, names):
    """Return tokenwise's value with its unit, and in brackets a comparison with the others."""
    if key not in names.get("tokenwise", {}):
        return ""  # an older run lacks this measure
    value = names["tokenwise"][key]
    others = [f"{n} {x[key] / value:.2f}" for n, x in names.items() if n != "tokenwise"]
    n_rows, _, n_new = contender.PASSES.get(key, (1, 0, 1))
    units = {"first token": (value, "s"), "end": (value, "s"), "peak memory": (value / 1e6, "MB")}
    number, unit = units.get(key, (n_rows * n_new / value, "tok/s"))
    return f"{number:.1f} {unit}" + f" ({', '.join(others)})" * bool(others)


def arguments():
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=platform.machine(), help="its name in results.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=9, help="passes per measure and round")
    parser.add_argument("--threads", type=int, default=2)
    folder = "for checkpoints/ and results.json, default: this file's folder"
    parser.add_argument("--folder", type=Path, default=HERE, help=folder)
    return parser.parse_args()


def main():
    """Make missing checkpoints, measure, write results.json, and print the report."""
    args, names = arguments(), contender.installed()
    file = args.folder / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    if args.rounds:
        folders = {model: args.folder / "checkpoints" / model for model in checkpoints.MODELS}
        if "transformers" not in names and not all(map(Path.is_dir, folders.values())):
            needed = "benchmarks/requirements.txt"
            raise SystemExit(f"transformers makes the checkpoints: pip install -r {needed}")
        for model, folder in folders.items():
            once(folder, model)
        results[args.machine] = measure(folders, names, args)
    if args.rounds >= 3:
        file.write_text(json.dumps(results, indent=1) + "\n")
    if not results:
        raise SystemExit("there is no results.json yet: leave --rounds 0 out")
    for line in report(results):
        print(line)


if __name__ == "__main__":
    main()
