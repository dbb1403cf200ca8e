"""--compare: the same prompt through every method that applies, in one table."""

import copy

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
    print(f"{'method':<12}{'tokens/s':>9}{'x naive':>8}{'first, s':>9}{'tokens':>7}"
          f"{'per pass':>9}{'accepted':>9}  ids")  # fmt: skip
    naive, speeds = None, {}
    session.keeps_store, session.store = False, None  # each method begins with an empty store
    session.kept = None  # and with an empty cache
    for method in METHODS:
        if method == "speculative" and not draft:
            continue
        session.settings = resolve(session.args, session.model.generation_config, method)
        row = session.row(prompt, number)
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
        ids = "the likeliest text found"
    elif speculation and session.sampled:
        ids = "sampled: the same distribution"
    else:
        ids = "identical to naive" if row.ids == naive.ids else "DIFFERENT from naive"
    return (f"{method:<12}{speed:>9.1f}{speed / plain:>8.2f}"
            f"{row.seconds_to_first_token:>9.3f}{len(row.times):>7}{per_pass:>9}{accepted:>9}"
            f"  {ids}")  # fmt: skip
