"""A row: one prompt, its growing sequence, and its text."""

import time
from typing import Any

from decoding.drafters import common_prefix
from loading.errors import UserError


class Row:
    """A prompt, its sequence, the new text so far, and the time of each token.

    prompt_ids: the prompt, or an encoder-decoder's source; opening: what to print before the new
    text; sequence: None before the row starts; n_earlier, shown: the number of tokens and the text
    between the prompt and the new text; cache: a chat's KV cache, or None; drafter: a Measured
    drafter, or None; beams, steps: the texts that beam search found, and its steps.
    """

    def __init__(self, prompt: str, prompt_ids: list[int], opening: str, seed: int, stream: Any):
        self.prompt, self.prompt_ids, self.opening, self.seed = prompt, prompt_ids, opening, seed
        self.stream, self.decoded, self.whole, self.stops = stream, "", "", list[str]()
        self.ended, self.n_earlier, self.shown = False, 0, ""
        self.started, self.times = time.perf_counter(), list[float]()
        self.sequence: Any = None
        self.cache: Any = None
        self.drafter: Any = None
        self.beams: list[dict] = []
        self.steps: list = []

    def resume(self, last: "Row") -> None:
        """Continue a row's text after its last id, with the same random generator."""
        self.opening, self.seed, self.sequence, self.shown = "", last.seed, last.sequence, last.whole
        ids = last.sequence.ids[len(last.prompt_ids) :]
        self.n_earlier, self.decoded = len(ids), "".join(map(self.stream.feed, ids))

    def feed(self, token: int) -> None:
        """Add the sequence's newest token to the text. A stop text ends the sequence."""
        if len(self.sequence.new_ids) <= len(self.times):
            raise UserError("--loop must append each token: yield sequence.append(token)")
        self.times.append(time.perf_counter())
        if token not in self.sequence.stop_ids:
            self.decoded += self.stream.feed(token)
        self.finish(more=self.sequence.running)

    def finish(self, more: bool = False) -> None:
        """End the text, unless more of it follows: add what was held back, which is the beginning
        of a stop text or a part of a character."""
        if not (more or self.ended):
            self.decoded += self.stream.finish()
        self.whole, stopped = until_stop(self.decoded, self.stops, more)
        self.ended = self.ended or stopped or not more
        if stopped:
            self.sequence.finish("stop")

    @property
    def text(self) -> str:
        """Return the new text. What was shown earlier may end with a part of a character."""
        return self.whole[common_prefix(self.whole, self.shown) :]

    @property
    def ids(self) -> list[int]:
        """Return the new tokens without the stop id."""
        ids = self.sequence.new_ids
        return ids[:-1] if self.sequence.stop_reason == "eos" else ids

    @property
    def seconds_to_first_token(self) -> float | None:
        return self.times[0] - self.started if self.times else None

    @property
    def tokens_per_second(self) -> float | None:
        """Return the average speed over the whole text, including prefill."""
        return len(self.times) / max(self.times[-1] - self.started, 1e-9) if self.times else None


def until_stop(text: str, stops: list[str], more: bool) -> tuple[str, bool]:
    """Return the text before the first stop text, and whether there is one. If more text may follow
    (`more`), leave out an ending that could become a stop text."""
    if found := [text.index(stop) for stop in stops if stop in text]:
        return text[: min(found)], True
    held = (n for stop in stops for n in range(len(stop)) if more and text.endswith(stop[:n]))
    return text[: len(text) - max(held, default=0)], False
