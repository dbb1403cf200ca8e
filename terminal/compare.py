"""--compare: the same prompt through every method that applies, in one table."""

import copy
import sys
from statistics import median

from terminal.explain import bar
from terminal.options import DRAFTING, METHODS, resolve
from terminal.row import Row
from terminal.session import Session
from terminal.show import print_figures

N_ROUNDS = 3


def compare(session: Session, prompt: str, number: int = 0) -> None:
    """Print the table, with the session's sampler and one seed for all methods."""
    session = copy.copy(session)  # the caller's session stays as it was
    session.row(prompt, number)  # a bad prompt fails here, before the table
    drafts = session.own["drafter"] or session.settings["draft"] and session.draft_model()
    session.keeps_store, session.store = False, None  # each method begins with an empty store
    session.kept = None  # and with an empty cache
    rows: dict[str, list[Row]] = {m: [] for m in METHODS if m != "speculative" or drafts}
    for _ in range(1 + N_ROUNDS):  # in turn, so that a slow minute of the machine slows them all
        for method in rows:
            session.settings = resolve(session.args, session.model.generation_config, method)
            row = session.row(prompt, number)
            if sys.stdout.isatty():
                print(f"{method:<12}...", end="\r", flush=True)
            for _ in session.generate([row]):
                pass
            rows[method].append(row)
    print(f"{'method':<12}{'tokens/s':>8} {'x naive':>8}{'':<11}{'first (s)':>9}{'per pass':>9}"
          f"{'accepted':>9}  ids")  # fmt: skip
    speeds = {method: [row.tokens_per_second or 0.0 for row in rows[method][1:]] for method in rows}
    for method in rows:
        print(compare_line(session, method, rows, speeds))
    if all(map(all, speeds.values())):
        print(verdict(speeds))
    if session.sampled:
        print_figures(f"(seed {session.seed + number})")


def verdict(speeds: dict[str, list[float]]) -> str:
    """Do drafts pay? If all rounds of the best drafting method are faster than all of cached."""
    best = max((m for m in DRAFTING if m in speeds), key=lambda method: median(speeds[method]))
    ratio = f"{best} has {median(speeds[best]) / median(speeds['cached']):.2f} times cached's speed"
    if min(speeds[best]) > max(speeds["cached"]):
        return f"(drafts pay here: {ratio}, {N_ROUNDS} rounds)"
    if max(speeds[best]) < min(speeds["cached"]):
        return f"(drafts do not pay here: {ratio}, {N_ROUNDS} rounds)"
    return f"(cached and {best} are about equal here: their {N_ROUNDS} rounds overlap)"


def compare_line(
    session: Session, method: str, rows: dict[str, list[Row]], speeds: dict[str, list[float]]
) -> str:
    """A row of the table; the speed is the median of the rounds after the first, a warm-up."""
    row, naive = rows[method][-1], rows["naive"][-1]
    speculation = row.speculation
    speed, plain = median(speeds[method]), median(speeds["naive"])
    if not speed or not plain:
        return f"{method:<12} no tokens: the context is full"
    per_pass = f"{speculation.tokens_per_pass:.2f}" if speculation else "1.00"
    accepted = f"{speculation.acceptance:.0%}" if speculation else "-"
    if method == "beam":
        ids = "likeliest"
    elif speculation and session.sampled:
        ids = "sampled"
    else:
        ids = "as naive" if row.ids == naive.ids else "DIFFERENT"
    ratio = speed / plain
    return (f"{method:<12}{speed:>8.1f} {ratio:>8.2f} {bar(ratio / 10, 10):<10}"
            f"{row.seconds_to_first_token:>9.3f}{per_pass:>9}{accepted:>9}  {ids}")  # fmt: skip
