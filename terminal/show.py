"""How rows appear: as text that grows, or as one JSON object each."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from terminal.row import Row
from terminal.session import Session

# Characters that control the terminal or the direction of the text, except \n and \t.
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str, stream: Any = None) -> str:
    """Replace control characters with escapes such as \\x1b, if the text goes to a terminal."""
    if not (stream or sys.stdout).isatty():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def styled(text: str, code: int, stream: Any = None) -> str:
    """Make a text bold (1) or dim (2) if it goes to a terminal, rather than to a pipe or a file. It
    stays plain if NO_COLOR is set (https://no-color.org) or TERM is dumb."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not text or not (stream or sys.stdout).isatty():
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def print_figures(line: str) -> None:
    """Print a line of statistics, or a note, to stderr."""
    print(styled(visible(line, sys.stderr), 2, sys.stderr), file=sys.stderr)


class Text:
    """Prints rows as text: each row's opening, its new text as it grows, and its statistics."""

    def __init__(self, session: Session, rows: list[Row]):
        self.session, self.rows, self.heading = session, rows, ""

    @contextlib.contextmanager
    def showing(self, row: Row) -> Iterator[None]:
        """Show a row, which grows in this `with` block. An error gets the row's number as `row`."""
        n, number = len(self.rows), 1 + self.rows.index(row)
        self.heading = f"[{number}/{n}]\n" * (n > 1)
        self.is_new = True
        try:
            self.begin(row)
            yield
        except BaseException as error:  # even Ctrl-C
            vars(error)["row"] = f"[{number}/{n}] " * (n > 1)
            self.fail(row)
            raise
        row.finish()  # a loop may end before its sequence
        self.end(row)

    def begin(self, row: Row) -> None:
        """Prepare a row that has not begun."""

    def show(self, row: Row) -> None:
        """Print a row's newest text, and its opening before the first token."""
        if self.is_new:
            print(self.heading + visible(row.opening), end="")
        self.is_new = False
        print(styled(visible(row.unprinted()), 1), end="", flush=True)

    def fail(self, row: Row) -> None:
        """Print the part of the text that was held back, if any text has been printed."""
        if row.times:
            row.finish()
            self.show(row)

    def end(self, row: Row) -> None:
        self.show(row)
        others = [row.opening + beam["text"] for beam in row.beams[1:]]
        print(*["", *map(visible, others)], sep="\n", flush=True)
        many = len(self.rows) > 1
        print_figures(statistics_line(self.session, row, many))
        if many and row is self.rows[-1] and (times := [t for row in self.rows for t in row.times]):
            seconds = max(max(times) - min(row.started for row in self.rows), 1e-9)
            speed = f"{len(times)} tokens in {seconds:.3f} s: {len(times) / seconds:.0f} tokens/s"
            print_figures(f"({len(self.rows)} texts, {speed})")


class Json(Text):
    """Prints one JSON object for each row."""

    def show(self, row: Row) -> None:
        """Print nothing before the end."""

    def fail(self, row: Row) -> None:
        """Print the later rows that are complete."""
        for later in self.rows[self.rows.index(row) + 1 :]:
            if later.ended:
                self.end(later)

    def end(self, row: Row) -> None:
        print(json.dumps(as_json(self.session, row)), flush=True)


def statistics_line(session: Session, row: Row, batch: bool = False) -> str:
    """Describe a row in one line. In a batch, omit the times, because rows share passes."""
    ends = {"eos": "end of text", "stop": "a stop text", "length": "the length asked for"}
    ends["context"] = f"the end of the context, {session.model.n_ctx} tokens"
    reason = row.sequence.stop_reason or "its loop"
    parts = [n_tokens(row.ids)]
    if row.times and not batch:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if row.drafter:
        parts.append(f"{row.drafter.acceptance:.0%} of drafts accepted")
        parts.append(f"{row.drafter.tokens_per_pass:.2f} tokens per pass")
    if session.sampled:
        parts.append(f"seed {row.seed}")
    return f"({', '.join(parts)}; ended by {ends.get(reason, reason)})"


def n_tokens(ids: list) -> str:
    return f"{len(ids)} token{'s' * (len(ids) != 1)}"


def as_json(session: Session, row: Row) -> dict:
    """Return one row as the object that --json prints."""
    first, speed, drafter = row.seconds_to_first_token, row.tokens_per_second, row.drafter
    reason, seed = row.sequence.stop_reason, row.seed if session.sampled else None
    result: dict[str, Any] = dict(prompt=row.prompt, text=row.text, prompt_ids=row.prompt_ids)
    result |= dict(ids=row.ids, stop_reason=reason)
    result |= dict(seconds_to_first_token=first, tokens_per_second=speed)
    result |= dict(model=session.name, method=session.settings["method"], seed=seed)
    if row.beams:
        result["beams"] = row.beams
    if drafter:
        names = "drafted", "tested", "accepted", "acceptance"
        result["speculation"] = {name: getattr(drafter, name) for name in names} | {
            "tokens_per_call": drafter.tokens_per_pass,
            "accepted_lengths": dict(sorted(drafter.lengths.items())),
        }
    return result
