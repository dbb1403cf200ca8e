"""Prints rows: their texts as they are generated, or one JSON object per row."""

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from terminal.row import Row
from terminal.session import Session

COLOURS = {"new": "1", "figures": "2", "accepted": "32", "rejected": "31;9", "corrected": "33;1"}
AMBER = (230, 229, 222, 214)  # four of a terminal's 256 colours, from low to high surprise
# Characters that control the terminal or the direction of the text, except \n and \t.
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str, stream: Any = None) -> str:
    """Replace control characters with escapes such as \\x1b, if the text goes to a terminal."""
    if not (stream or sys.stdout).isatty():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def colour(text: str, kind: str, stream: Any = None) -> str:
    """Colour a text if it goes to a terminal, rather than to a pipe or a file. It stays plain if
    NO_COLOR is set (https://no-color.org) or TERM is dumb."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not text or not (stream or sys.stdout).isatty():
        return text
    return f"\x1b[{COLOURS.get(kind, kind)}m{text}\x1b[0m"


def tint(text: str, bits: float) -> str:
    """Tint a token by its surprise, most strongly from 10 bits on. Leading spaces stay plain."""
    word, level = text.lstrip(" "), min(4, int(bits / 2.5))
    tinted = colour(word, f"30;48;5;{AMBER[level - 1]}") if level > 0 else word
    return text[: len(text) - len(word)] + tinted


def stream(session: Session, rows: list[Row]) -> None:
    """Print the rows in their order, even if a later one ends first: text as it grows, or JSON."""
    steps, many, is_json = session.generate(rows), len(rows) > 1, session.settings["json"]
    number = 1
    try:
        next(steps, None)  # if this first step fails, nothing has been printed yet
        for number, row in enumerate(rows, 1):
            if is_json:
                list(pieces(row, steps))
                print(json.dumps(as_json(session, row)), flush=True)
                continue
            print(f"[{number}/{len(rows)}]\n" * many + visible(row.opening), end="")
            for piece in pieces(row, steps):
                print(colour(visible(piece), "new"), end="", flush=True)
            others = [row.opening + beam["text"] for beam in row.beams[1:]]
            print(*["", *map(visible, others)], sep="\n", flush=True)
            print_figures(statistics_line(session, row, many))
    except Exception as error:  # name the row, and keep the later texts that are complete
        vars(error)["row"] = f"[{number}/{len(rows)}] " * many
        done = [json.dumps(as_json(session, row)) for row in rows[number:] if is_json and row.ended]
        print(*done, sep="\n", end="\n" * bool(done))
        raise
    times = [time for row in rows for time in row.times]
    if many and times and not is_json:
        n, seconds = len(times), max(max(times) - min(row.started for row in rows), 1e-9)
        speed = f"{n} tokens in {seconds:.3f} s: {n / seconds:.0f} tokens/s"
        print_figures(f"({len(rows)} texts, {speed})")


def pieces(row: Row, steps: Iterator) -> Iterator[str]:
    """Yield a row's text piece by piece. Some steps may extend other rows instead."""
    n_yielded = 0
    while True:
        yield (text := row.text)[n_yielded:]
        n_yielded = len(text)
        if row.ended:
            return
        try:
            next(steps, None)
        except BaseException:  # even Ctrl-C
            row.finish()
            yield row.text[n_yielded:]
            raise


def print_figures(line: str) -> None:
    """Print a line of statistics, or a note, to stderr."""
    print(colour(visible(line, sys.stderr), "figures", sys.stderr), file=sys.stderr)


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
            "expected_tokens_per_call": drafter.expected_tokens_per_pass,
            "accepted_lengths": dict(sorted(drafter.lengths.items())),
        }
    return result
