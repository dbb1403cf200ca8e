"""How rows appear: as text that grows, or as one JSON object each."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator

from terminal.row import Row
from terminal.session import Session

# Characters that control the terminal or the direction of the text, except \n and \t.
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Attributes of a drafter that has been measured.
SPECULATION = "drafted tested accepted acceptance tokens_per_pass expected_tokens_per_pass lengths"


def visible(text: str) -> str:
    """Replace control characters with escapes such as \\x1b, if the text goes to a terminal."""
    if not sys.stdout.isatty():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def bold(text: str) -> str:
    """Make a text bold in a terminal, except if NO_COLOR is set (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not text or not sys.stdout.isatty() else f"\x1b[1m{text}\x1b[0m"


def print_figures(line: str) -> None:
    """Print a line of statistics, or a note, to stderr."""
    print(line, file=sys.stderr)


class Text:
    """Prints rows as text: each row's opening, its new text as it grows, and its statistics."""

    def __init__(self, session: Session, rows: list[Row]):
        self.session, self.rows = session, rows

    @contextlib.contextmanager
    def showing(self, row: Row) -> Iterator[None]:
        """Show a row, which grows in this `with` block. After an error, even Ctrl-C, print what was
        held back of its text, and the later rows that are complete."""
        try:
            yield
        except BaseException:
            if row.times:
                row.feed(is_end=True)
                self.show(row)
            print("\n" * (row.n_printed is not None), end="", flush=True)
            for later in self.rows[row.number + 1 :]:
                if later.ended:
                    self.end(later)
            raise
        row.feed(is_end=True)  # a loop may end before its sequence
        self.end(row)

    def heading(self, row: Row) -> str:
        """Return what to print before the first token."""
        n = len(self.rows)
        return f"[{row.number + 1}/{n}]\n" * (n > 1) + visible(row.opening)

    def newest(self, row: Row) -> str:
        """Return what to print about the tokens that have not been printed."""
        text, row.n_printed = row.text[row.n_printed :], len(row.text)
        return bold(visible(text))

    def show(self, row: Row) -> None:
        """Print what is new about a row."""
        if row.n_printed is None:
            print(self.heading(row), end="")
            row.n_printed = 0
        print(self.newest(row), end="", flush=True)

    def rest(self, row: Row) -> str:
        """Return what to print after the last token: the other beams."""
        return "\n".join(["", *(visible(row.opening + beam["text"]) for beam in row.beams[1:])])

    def end(self, row: Row) -> None:
        """Print the rest of a row, and its statistics."""
        self.show(row)
        print(self.rest(row), flush=True)
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

    def end(self, row: Row) -> None:
        print(json.dumps(as_json(self.session, row)), flush=True)


def statistics_line(session: Session, row: Row, batch: bool) -> str:
    """Describe a row in one line. In a batch, omit the times, because rows share passes."""
    ends = {"eos": "end of text", "stop": "a stop text", "length": "the length asked for"}
    ends |= {"context": f"the end of the context, {session.model.n_ctx} tokens"}
    reason, drafter = row.sequence.stop_reason or "its loop", row.drafter
    parts = [n_tokens(row.ids)]
    if row.times and not batch:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if drafter:
        parts.append(f"{drafter.acceptance:.0%} of drafts accepted")
        parts.append(f"{drafter.tokens_per_pass:.2f} tokens per pass")
    if session.settings["temperature"]:
        parts.append(f"seed {row.seed}")
    return f"({', '.join(parts)}; ended by {ends.get(reason, reason)})"


def n_tokens(ids: list) -> str:
    return f"{len(ids)} token{'s' * (len(ids) != 1)}"


def as_json(session: Session, row: Row) -> dict:
    """Return one row as the object that --json prints."""
    result = {name: getattr(row, name) for name in ("prompt", "text", "prompt_ids", "ids")}
    result["stop_reason"] = row.sequence.stop_reason
    result["seconds_to_first_token"] = row.seconds_to_first_token
    result["tokens_per_second"] = row.tokens_per_second
    result |= dict(model=session.name, method=session.settings["method"])
    result["seed"] = row.seed if session.settings["temperature"] else None
    result |= {"beams": row.beams} if row.beams else {}
    if row.drafter:
        result["speculation"] = {name: getattr(row.drafter, name) for name in SPECULATION.split()}
    return result
