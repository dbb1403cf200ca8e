"""A row: one prompt and its sequence, as text."""

import time

from beam import Hypothesis
from drafters import Measured
from generate import Sequence
from interface import Ids, TextStream


class Row:
    """A prompt, its sequence, the new text so far, and when each token came.

    prompt_ids: the prompt's, or an encoder-decoder's source. beams: the results of beam search;
    speculation: the counts of a drafting method.
    """

    def __init__(self, prompt: str, prompt_ids: Ids, sequence: Sequence, seed: int,
                 stream: "StoppingStream"):  # fmt: skip
        self.prompt, self.prompt_ids, self.sequence, self.seed = prompt, prompt_ids, sequence, seed
        self.stream, self.text = stream, ""
        self.started, self.times = time.perf_counter(), []
        self.beams: list[Hypothesis] | None = None
        self.speculation: Measured | None = None

    def feed(self, token: int) -> None:
        """Add the sequence's newest token to the text; a stop text ends the sequence."""
        self.times.append(time.perf_counter())
        if token not in self.sequence.stop_ids:
            self.text += self.stream.feed(token)
        if self.stream.stopped:
            self.sequence.finish("stop")
        elif not self.sequence.running:
            self.text += self.stream.finish()

    @property
    def ids(self) -> Ids:
        """The new tokens, without the stop id."""
        ids = self.sequence.new_ids
        return ids[:-1] if self.sequence.stop_reason == "eos" else ids

    @property
    def seconds_to_first_token(self) -> float | None:
        return self.times[0] - self.started if self.times else None

    @property
    def tokens_per_second(self) -> float | None:
        """Over the whole time, prefill included: one pass may yield many tokens."""
        return len(self.times) / max(self.times[-1] - self.started, 1e-9) if self.times else None


class StoppingStream:
    """Decodes ids to printable text: ends before a stop text and holds back anything that may still
    become one."""

    def __init__(self, stream: TextStream, stops: list[str]):
        self.stream, self.stops, self.held, self.stopped = stream, stops, "", False

    def feed(self, token: int) -> str:
        """The new text that can no longer become a stop text."""
        return self._release(self.stream.feed(token))

    def finish(self) -> str:
        """The rest, when no id follows."""
        return self._release(self.stream.finish()) + self.held

    def _release(self, piece):
        text = "" if self.stopped else self.held + piece
        found = [text.index(stop) for stop in self.stops if stop in text]
        if found:
            self.stopped, self.held = True, ""
            return text[: min(found)]
        places = (i for i in range(len(text)) for stop in self.stops if stop.startswith(text[i:]))
        certain = min(places, default=len(text))  # after it a stop text may have begun
        self.held = text[certain:]
        return text[:certain]
