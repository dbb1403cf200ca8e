"""The view --compare: run one prompt through every possible method, and print one table."""

import copy
from statistics import median

from terminal.explain import bar
from terminal.options import METHODS, resolve
from terminal.row import Row
from terminal.session import Session
from terminal.show import print_figures

N_ROUNDS = 3
HEADING = f"{'method':<12}tokens/s  x naive{'':<11}first (s) per pass accepted  ids"


def compare(session: Session, prompt: str | Row, number: int = 0) -> None:
    """Print the table. All methods get the session's options, and its seed plus `number`."""
    session = copy.copy(session)  # the caller's session must not change
    session.row(prompt, number)  # let a bad prompt fail here, before the table
    drafts = session.own.get("drafter") or session.settings["draft"] and session.draft_model()
    rows: dict[str, list[Row]] = {m: [] for m in METHODS if m != "speculative" or drafts}
    for _ in range(1 + N_ROUNDS):  # take turns, so that a slow moment affects all methods
        for method in rows:
            session.settings = resolve(session.given | {"method": method}, session.config)
            rows[method].append(session.row(prompt, number))
            list(session.generate(rows[method][-1:]))
    print(HEADING)
    for method in rows:
        print(compare_line(method, rows[method], rows["naive"], session.sampled))
    if session.sampled:
        print_figures(f"(seed {session.seed + number})")


def compare_line(method: str, rows: list[Row], naive: list[Row], sampled: bool) -> str:
    """Return a method's line in the table. Its speed is the median of the rounds after warm-up."""
    speed, plain = (median(r.tokens_per_second or 0.0 for r in x[1:]) for x in (rows, naive))
    if not speed or not plain:
        return f"{method:<12} no tokens: the context is full"
    row, drafter, ratio = rows[-1], rows[-1].drafter, speed / plain
    ids = "as naive" if row.ids == naive[-1].ids else "DIFFERENT"
    if method == "beam" or drafter and sampled:
        ids = "likeliest" if method == "beam" else "sampled"
    per_pass = f"{drafter.tokens_per_pass:.2f}" if drafter else "1.00"
    accepted = f"{drafter.acceptance:.0%}" if drafter else "-"
    line = f"{method:<12}{speed:>8.1f} {ratio:>8.2f} {bar(ratio / 10, 10):<10}"
    return f"{line}{row.seconds_to_first_token:>9.3f}{per_pass:>9}{accepted:>9}  {ids}"
