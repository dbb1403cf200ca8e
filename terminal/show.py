"""Prints generated rows: text as it comes, or JSON objects."""

import itertools
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

from interface import Ids
from loading.errors import UserError
from terminal.options import decoded
from terminal.row import Row
from terminal.session import Session

COLOURS = {"new": "1", "figures": "2", "accepted": "32", "rejected": "31;9", "corrected": "33;1"}
COLOURS |= {"surprise 1": "30;48;5;229", "surprise 2": "30;48;5;221", "surprise 3": "30;48;5;208"}
# Characters that move the cursor, control the terminal or reverse the text; not \n, \t.
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str, stream: Any = None) -> str:
    """Text that is safe to print: on a terminal, control characters appear as \\x1b or so."""
    if not (stream or sys.stdout).isatty():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def colour(text: str, kind: str, stream: Any = None) -> str:
    """Colour a text, where colours are wanted, and the kind has one."""
    if not (text and kind in COLOURS and is_coloured(stream)):
        return text
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m"


def is_coloured(stream: Any = None) -> bool:
    """Not if the stream (stdout) is piped, or NO_COLOR is set (no-color.org)."""
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR")


def one_line(error: BaseException) -> str:
    """An error's message in one line, without control characters."""
    return str(UserError(str(error))) or type(error).__name__


class Wrapped:
    """Breaks text at words as it comes: one that passes the edge of the terminal is taken back, and
    begins the next line. Elsewhere (a stream that is not a terminal) nothing is broken."""

    def __init__(self, stream: Any = None):
        is_terminal = (stream or sys.stdout).isatty()
        self.width = terminal_size().columns - 1 if is_terminal else 10**9
        self.column, self.word = 0, ""

    def feed(self, text: str) -> str:
        """More text -> what to print."""
        printed = ""
        for part in re.findall(r"\n|[^\S\n]+|\S+", text):
            n, n_word = n_columns(part), n_columns(self.word)
            self.word = "" if part.isspace() else self.word + part
            if self.word and n_word < self.column and self.column + n > self.width >= n_word + n:
                printed += "\b \b" * n_word + "\n" + self.word
                self.column = n_word + n
            else:
                printed += part
                n_line = self.width + 1  # a longer word is broken by the terminal
                self.column = 0 if part == "\n" else (self.column + n - 1) % n_line + 1
        return printed


def terminal_size() -> os.terminal_size:
    """(columns, lines), the usual ones where the terminal has none: Python 3.10 returns 0 then."""
    columns, lines = shutil.get_terminal_size()
    return os.terminal_size((columns or 80, lines or 24))


def n_columns(text: str) -> int:
    """How many columns of a terminal it takes: two for a Chinese character."""
    wide = (unicodedata.east_asian_width(c) in "WF" for c in text if not unicodedata.combining(c))
    return sum(1 + is_wide for is_wide in wide)


def wrapped(text: str, stream: Any = None) -> str:
    """A text, broken at words on a terminal."""
    return Wrapped(stream).feed(visible(text, stream))


def stream(session: Session, rows: list[Row]) -> None:
    """Print rows in their order, no matter which ends first: text as it comes, or a JSON object."""
    steps = session.generate(rows)
    next(steps, None)  # where the first step fails, nothing has been printed
    for number, row in enumerate(rows, 1):
        if session.args.json:
            for _ in growing(row, steps):
                pass
            print(json.dumps(as_json(session, row)), flush=True)
            continue
        if len(rows) > 1:
            print(f"[{number}/{len(rows)}]")
        show(session, row, steps)
        print_figures(statistics_line(session, row, len(rows) > 1))
    if len(rows) > 1 and not session.args.json:
        print_figures(total_line(rows))


def growing(row: Row, steps: Iterator[Row]) -> Iterator[None]:
    """Yield where a row may have new text, until it has ended."""
    for _ in itertools.chain([None], steps):
        yield
        if not row.sequence.running:
            return


def show(session: Session, row: Row, steps: Iterator[Row]) -> None:
    """Print a row's text as it comes, then its other beams."""
    if unknown := session.unknown_characters(row):
        print_figures(f"(unknown to the model, which reads <unk>: {visible(unknown)})")
    lines, shown = Wrapped(), 0
    print(lines.feed(visible(row.opening)), end="")
    for _ in growing(row, steps):
        print(colour(lines.feed(visible(row.text[shown:])), "new"), end="", flush=True)
        shown = len(row.text)
    print(flush=True)
    for hypothesis in (row.beams or [])[1:]:
        print(wrapped(row.opening + session.text(hypothesis.ids)), flush=True)


def print_figures(line: str) -> None:
    """Print a line of statistics, or a note, to stderr."""
    print(colour(wrapped(line, sys.stderr), "figures", sys.stderr), file=sys.stderr)


def statistics_line(session: Session, row: Row, batch: bool = False) -> str:
    """One line about a row, for stderr: tokens, seconds, seed, why it ended. In a batch without the
    seconds, of which other rows have taken a part."""
    ends = {
        "eos": "end of text", "stop": "a stop text", "length": "the length asked for",
        "context": f"the end of the context, {session.model.n_ctx} tokens",
    }  # fmt: skip
    reason = row.sequence.stop_reason or "its loop"
    parts = [n_tokens(row.ids)]
    if row.times and not batch:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if row.speculation:
        parts.append(f"{row.speculation.acceptance:.0%} of drafts accepted")
        parts.append(f"{row.speculation.tokens_per_pass:.2f} tokens per pass")
    if session.sampled:
        parts.append(f"seed {row.seed}")
    return f"({', '.join(parts)}; ended by {ends.get(reason, reason)})"


def total_line(rows: list[Row]) -> str:
    """One line about a batch."""
    n, times = sum(len(row.times) for row in rows), [t for row in rows for t in row.times]
    if not times:
        return f"({len(rows)} texts without a token)"
    seconds = max(max(times) - min(row.started for row in rows), 1e-9)
    return f"({len(rows)} texts, {n} tokens in {seconds:.3f} s: {n / seconds:.0f} tokens/s)"


def n_tokens(ids: Ids) -> str:
    return f"{len(ids)} token{'s' * (len(ids) != 1)}"


def as_json(session: Session, row: Row) -> dict:
    """One row as the object that --json prints."""
    sequence, settings = row.sequence, session.settings
    result = {
        "prompt": row.prompt, "text": row.text, "prompt_ids": row.prompt_ids, "ids": row.ids,
        "stop_reason": sequence.stop_reason, "seconds_to_first_token": row.seconds_to_first_token,
        "tokens_per_second": row.tokens_per_second, "model": decoded(settings["model"]),
        "method": settings["method"], "seed": row.seed if session.sampled else None,
    }  # fmt: skip
    if row.beams is not None:
        result["beams"] = [
            {"ids": [t for t in h.ids if t not in sequence.stop_ids], "text": session.text(h.ids),
             "log_probability": h.log_probability, "score": h.score}
            for h in row.beams
        ]  # fmt: skip
    if s := row.speculation:
        result["speculation"] = {
            "drafted": s.drafted, "tested": s.tested, "accepted": s.accepted,
            "acceptance": s.acceptance, "tokens_per_call": s.tokens_per_pass,
            "expected_tokens_per_call": s.expected_tokens_per_pass,
            "accepted_lengths": dict(sorted(s.lengths.items())),
        }  # fmt: skip
    return result
