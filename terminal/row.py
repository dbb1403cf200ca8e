"""A row: one prompt, its growing sequence, and its text."""

import time
from typing import Any


class Row:
    """A prompt, its sequence, the new text so far, and the time of each token.

    prompt_ids: the prompt's ids; source: the same, if an encoder-decoder has read them; opening:
    what to print before the new text; n_earlier: the number of tokens between the prompt and this
    text; sequence: None before the row starts; ended: no more text follows; n_printed: how many
    characters have been printed; cache: a chat's KV cache; drafter: a Measured drafter, or None;
    beams, steps: beam search's texts and its steps.
    """

    def __init__(self, prompt: str, prompt_ids: list[int], seed: int, stream: Any, stops: list):
        self.prompt, self.prompt_ids, self.opening, self.seed = prompt, prompt_ids, "", seed
        self.stream, self.stops, self.decoded, self.text = stream, stops, "", ""
        self.n_earlier, self.n_before, self.n_printed, self.ended = 0, 0, 0, False
        self.started, self.times = time.perf_counter(), list[float]()
        self.sequence: Any = None
        self.cache: Any = None
        self.drafter: Any = None
        self.beams: list[dict] = []
        self.steps: list = []
        self.source: list[int] = []

    def resume(self, last: "Row") -> None:
        """Continue a row's text after its last id, with the same random generator."""
        self.opening, self.seed, self.sequence = "", last.seed, last.sequence
        ids = last.sequence.ids[len(last.prompt_ids) :]
        self.n_earlier, self.decoded = len(ids), "".join(map(self.stream.feed, ids))
        self.n_before = last.n_before + len(last.text.rstrip("\ufffd"))  # complete a character

    def feed(self, token: int) -> None:
        """Add the sequence's newest token to the text. A stop text ends the sequence."""
        if self.sequence.new_ids[len(self.times) :] != [token]:
            raise ValueError("a loop must append each token: yield sequence.append(token)")
        self.times.append(time.perf_counter())
        if token not in self.sequence.stop_ids:
            self.decoded += self.stream.feed(token)
        self.finish(more=self.sequence.running)

    def finish(self, more: bool = False) -> None:
        """Find the text. If no more follows, add a part of a character that was held back."""
        if not (more or self.ended):
            self.decoded += self.stream.finish()
        text, stopped = until_stop(self.decoded, self.stops, more)
        self.text, self.ended = text[self.n_before :], self.ended or stopped or not more
        if stopped:
            self.sequence.finish("stop")

    def unprinted(self) -> str:
        """Return the part of the text that no earlier call has returned."""
        text, self.n_printed = self.text[self.n_printed :], len(self.text)
        return text

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
