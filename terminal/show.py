"""How rows appear: as text that grows, or as one JSON object each."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any
from unicodedata import category

from terminal.row import Row
from terminal.session import Session


def visible(text: str) -> str:
    """In a terminal, show the characters that control it or the direction of the text as \\x1b."""
    controls = {c for c in text if category(c) in ("Cc", "Cf")} - {*"\n\t\u200c\u200d"}
    escapes = {ord(c): ascii(c)[1:-1] for c in controls}
    return text.translate(escapes) if sys.stdout.isatty() else text


class Text:
    """Prints rows as text: each row's opening, its new text as it grows, and its statistics."""

    def __init__(self, session: Session, rows: list[Row]):
        self.session, self.rows, self.n_done = session, rows, 0

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """If an error or Ctrl-C ends this `with` block, print the rest of the rows so far."""
        try:
            yield
        except BaseException:
            for row in self.rows[self.n_done :]:
                if row.ended:
                    self.end(row)
                elif row.times:
                    row.feed(is_end=True)
                    self.show(row)
                    print("\n" * (row.n_printed is not None), end="", flush=True)
            raise

    def show(self, row: Row) -> None:
        """Print what is new about a row."""
        if row.n_printed is None:
            n = len(self.rows)
            print(f"[{row.number + 1}/{n}]\n" * (n > 1) + visible(row.opening), end="")
        text, row.n_printed = row.text[row.n_printed or 0 :], len(row.text)
        print(visible(text), end="", flush=True)

    def finish(self, row: Row) -> None:
        """Print a row whose loop has ended."""
        row.feed(is_end=True)
        self.end(row)
        self.n_done += 1

    def end(self, row: Row) -> None:
        """Print the rest of a complete row, and its statistics."""
        self.show(row)
        print(flush=True)
        many = len(self.rows) > 1
        print(statistics_line(self.session, row, many), file=sys.stderr)
        if many and row is self.rows[-1] and (times := [t for row in self.rows for t in row.times]):
            seconds = max(max(times) - min(row.started for row in self.rows), 1e-9)
            speed = f"{len(times)} tokens in {seconds:.3f} s: {len(times) / seconds:.0f} tokens/s"
            print(f"({len(self.rows)} texts, {speed})", file=sys.stderr)


class Json(Text):
    """Prints one JSON object for each complete row."""

    def show(self, row: Row) -> None:
        pass

    def end(self, row: Row) -> None:
        sampled = self.session.settings["temperature"] != 0
        result: dict[str, Any] = dict(prompt=row.prompt, text=row.text, prompt_ids=row.prompt_ids)
        result |= dict(ids=row.ids, stop_reason=row.sequence.stop_reason)
        result |= dict(seconds_to_first_token=row.seconds_to_first_token)
        result |= dict(tokens_per_second=row.tokens_per_second, model=self.session.name)
        result |= dict(method=self.session.settings["method"], seed=row.seed if sampled else None)
        print(json.dumps(result), flush=True)


def statistics_line(session: Session, row: Row, batch: bool) -> str:
    """Describe a row in one line. In a batch, omit the times, because rows share passes."""
    ends = {"eos": "end of text", "stop": "a stop text", "length": "the length asked for"}
    ends["context"] = f"the end of the context, {session.model.n_ctx} tokens"
    reason, drafter = row.sequence.stop_reason or "its loop", row.drafter
    parts = [f"{len(row.ids)} token{'s' * (len(row.ids) != 1)}"]
    if row.times and not batch:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if drafter:
        n_drafts = f"{drafter.accepted} of {drafter.tested} drafts accepted"
        parts.append(n_drafts if drafter.tested else "no drafts")
        parts.append(f"{drafter.tokens_per_pass:.2f} tokens per pass")
    if session.settings["temperature"] != 0:
        parts.append(f"seed {row.seed}")
    return f"({', '.join(parts)}; ended by {ends.get(reason, reason)})"
