"""--compare: the same prompt through every method that applies, in one table."""

import copy
import sys

from terminal.explain import bar
from terminal.options import DRAFTING, METHODS, resolve
from terminal.row import Row
from terminal.session import Session


def compare(session: Session, prompt: str, number: int = 0) -> None:
    """Print the table, with the session's sampler and one seed for all methods."""
    session = copy.copy(session)  # the caller's session stays as it was
    session.row(prompt, number)  # a bad prompt fails here, before the table
    draft = session.settings["draft"]
    if draft:
        session.draft_model()
    print(f"{'method':<12}{'tokens/s':>8} {'x naive':>8}{'':<11}{'first, s':>9}{'per pass':>9}"
          f"{'accepted':>9}  ids")  # fmt: skip
    naive, speeds = None, {}
    session.keeps_store, session.store = False, None  # each method begins with an empty store
    for method in METHODS:
        if method == "speculative" and not draft:
            continue
        session.settings = resolve(session.args, session.model.generation_config, method)
        row = session.row(prompt, number)
        if sys.stdout.isatty():
            print(f"{method} ...", end="\r", flush=True)
        for _ in session.generate([row]):
            pass
        naive = naive or row
        speeds[method] = row.tokens_per_second or 0.0
        print(compare_line(session, row, naive), flush=True)
    if max(speeds[method] for method in speeds.keys() & DRAFTING) < speeds["cached"]:
        print("(speculation does not pay here: verifying drafts costs more than it saves)")


def compare_line(session: Session, row: Row, naive: Row) -> str:
    """A row of the table."""
    method, speculation = session.settings["method"], row.speculation
    speed, plain = row.tokens_per_second, naive.tokens_per_second
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
