"""Prints generated rows: text as it comes, or JSON objects."""

import itertools
import json
import re
import sys

from interface import Ids
from loading.errors import UserError
from terminal.options import decoded
from terminal.row import Row
from terminal.session import Session

# Characters that move the cursor, control the terminal or reverse the text; not \n, \t.
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text that is safe to print: on a terminal, control characters appear as \\x1b or so."""
    if not sys.stdout.isatty():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(error: BaseException) -> str:
    """An error's message in one line, without control characters."""
    return str(UserError(str(error))) or type(error).__name__


def stream(session: Session, rows: list[Row]) -> None:
    """Print rows in their order, no matter which ends first: text as it comes, or a JSON object."""
    steps = session.generate(rows)
    next(steps, None)  # where the first step fails, nothing has been printed
    for row in rows:
        shown = ""
        for _ in itertools.chain([None], steps):
            if not session.args.json:
                text = session.opening(row) + row.text
                print(visible(text[len(shown) :]), end="", flush=True)
                shown = text
            if not row.sequence.running:
                break
        finish(session, row)


def finish(session: Session, row: Row) -> None:
    """Print the end of a row: its JSON object, or its other beams and its statistics."""
    if session.args.json:
        print(json.dumps(as_json(session, row)), flush=True)
        return
    print(flush=True)
    for hypothesis in (row.beams or [])[1:]:
        print(visible(session.opening(row) + session.text(hypothesis.ids)), flush=True)
    print(statistics_line(session, row), file=sys.stderr)


def statistics_line(session: Session, row: Row) -> str:
    """One line about a row, for stderr: tokens, seconds, why it ended."""
    ends = {
        "eos": "end of text", "stop": "a stop text", "length": "the length asked for",
        "context": f"the end of the context, {session.model.n_ctx} tokens",
    }  # fmt: skip
    reason = row.sequence.stop_reason or "its loop"
    parts = [n_tokens(row.ids)]
    if row.times:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if row.speculation:
        parts.append(f"{row.speculation.acceptance:.0%} of drafts accepted")
        parts.append(f"{row.speculation.tokens_per_pass:.2f} tokens per pass")
    return f"({', '.join(parts)}; ended by {ends.get(reason, reason)})"


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
