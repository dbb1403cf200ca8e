"""A row: one prompt, its growing sequence, and its text."""

import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Row:
    """A prompt, and after `begin` its sequence and its text. opening: what to print before the
    text; source: the prompt's ids, if an encoder-decoder reads them; n_printed: how much of the
    text has been printed; drafter: a Measured drafter; steps: those of beam search."""

    prompt: str
    prompt_ids: list[int]
    opening: str
    number: int
    seed: int
    n_earlier: int = 0  # how many tokens of the text are older than its newest part

    def __post_init__(self):
        self.watch: Any = lambda sampler: sampler  # a view may put its own in this place
        self.sequence: Any = None
        self.cache: Any = None
        self.source, self.text, self.started = list[int](), "", 0.0
        self.decoded, self.n_known = "", 0
        self.times, self.ended = list[float](), False
        self.n_printed: int | None = None  # not even the opening

    def begin(self, sequence: Any, stream: Any, stops: list[str]) -> None:
        """Begin a sequence, or continue the earlier one after its last id."""
        n_prompt = len(self.prompt_ids) if self.sequence else sequence.n_prompt
        self.sequence, self.stream, self.stops = sequence, stream, stops
        before = "".join(map(stream.feed, sequence.ids[:n_prompt]))
        self.n_known = len(before + stream.finish())  # how many characters the prompt has
        self.decoded = before + "".join(map(stream.feed, sequence.ids[n_prompt:]))
        self.times, self.ended, self.steps = [], False, list[Any]()
        self.drafter: Any = None
        if self.n_printed:  # complete the character at the end
            self.n_printed = len(self.text.rstrip("\ufffd"))

    def feed(self, is_end: bool = False) -> None:
        """Decode the tokens that the loop has appended. A stop text ends the sequence. At the end,
        add a part of a character or of a stop text that was held back."""
        new, more = self.sequence.new_ids[len(self.times) :], self.sequence.running and not is_end
        if not (new or is_end):
            raise ValueError("a loop must append each token: yield sequence.append(token)")
        for token in new:
            self.times.append(time.perf_counter())
            if token not in self.sequence.stop_ids:
                self.decoded += self.stream.feed(token)
        if not (more or self.ended):
            self.decoded += self.stream.finish()
        text, stops = self.written, self.stops
        if found := [text.index(stop) for stop in stops if stop in text]:
            self.sequence.finish("stop")
        # If more text may follow, hold back an ending that could become a stop text.
        held = [n for stop in stops for n in range(len(stop)) if more and text.endswith(stop[:n])]
        self.text = text[: min(found, default=len(text) - max(held, default=0))]
        self.ended = self.ended or bool(found) or not more

    @property
    def written(self) -> str:
        """Return the decoded text after the prompt, with what is held back."""
        return self.decoded[self.n_known :]

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
