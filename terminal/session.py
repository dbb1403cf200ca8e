"""A session: a loaded model, and the settings to generate with."""

import contextlib
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from string import printable
from typing import Any

import samplers
import utils
from decoding.batching import continuous
from encoder import as_unicode
from generate import Sequence, begin
from loading.config import forced_filters
from loading.errors import UserError
from loading.seq2seq import set_languages
from terminal.chat import Conversation
from terminal.loops import LOOPS
from terminal.options import NEUTRAL, check, resolve
from terminal.plugin import part
from terminal.row import Row
from terminal.streams import about

load_draft = lru_cache(1)(utils.load)


class Session:
    """A loaded model and the settings to generate with. given: the result of options.parse."""

    def __init__(self, given: dict):
        self.name = name = given.get("model", "stories")
        self.tokenizer, self.model = part("model", name)() if ".py:" in name else utils.load(name)
        if given.keys() & {"source_lang", "target_lang"}:
            codes = given.get("source_lang", "en_XX"), given.get("target_lang")
            set_languages(self.tokenizer, self.model, *codes)
        self.config = getattr(self.model, "generation_config", {})
        self.chat: Any = None
        if given.keys() & {"chat", "system"}:
            self.chat = Conversation(self.tokenizer, utils.find(name), given.get("system"))
            self.model.stop_ids = (*self.model.stop_ids, *self.chat.stop_ids)
        self.use(given)
        keys = [k for k in NEUTRAL if self.config.get(k) not in (None, NEUTRAL[k], [], {}, "")]
        if self.settings["method"] == "beam" and "method" not in given:
            keys += ["do_sample with num_beams"] * bool(self.config.get("do_sample"))
        if keys and "score" not in given:
            print(f"(the checkpoint asks for {', '.join(keys)}: not supported)", file=sys.stderr)

    def use(self, given: dict) -> None:
        """Replace all options. If one of them, or its file, cannot be used, nothing changes."""
        settings = resolve(given, self.config)
        check(given, settings["method"])
        names = dict(tokenizer=self.tokenizer, model=self.model)
        filters = [part("filter", where, **names) for where in settings["filter"]]
        own = {k: part(k, given[k], **names) for k in ("loop", "drafter") if k in given}
        self.filters, self.own, self.given, self.settings = filters, own, given, settings

    def rows(self, prompts: list[str]) -> list[Row]:
        """Encode prompts. In a chat, a prompt follows the earlier turns."""
        rows, end = list[Row](), self.tokenizer.end_of_text
        seed = self.settings["seed"]
        seed = secrets.randbits(32) if seed is None else seed
        for number, prompt in enumerate(map(as_unicode, prompts)):
            with about(number, prompts):
                ids = self.chat.ask(prompt) if self.chat else self.tokenizer.encode(prompt)
            ids = ids or [end] * (end is not None)
            rows.append(Row(prompt, ids, "" if self.chat else prompt, number, seed + number))
        return rows

    def start(self, row: Row, generator: Callable = lambda seed: seed) -> Sequence:
        """Begin a row, or continue its text. generator: makes a random generator from the seed."""
        settings, config = self.settings, self.config
        row.started = time.perf_counter()
        model, ids = begin(self.model, row.prompt_ids)
        if model is not self.model:  # it has read the prompt: the text begins without it
            row.source, row.opening = row.prompt_ids, ""
        n_prompt, rng = len(ids), generator(row.seed)
        if row.sequence:
            ids, rng = row.sequence.ids, row.sequence.rng
            row.n_earlier = len(ids) - n_prompt
        n, least = settings["tokens"], settings["min_length"]
        n = max(1, int(config["max_length"]) - n_prompt) if n is None else n
        n += n_prompt + row.n_earlier - len(ids)
        least = config["min_length"] if least is None else n_prompt + least
        first = [samplers.min_length(least, model.stop_ids)]
        last = [own(n_prompt=n_prompt) for own in self.filters]
        last += forced_filters(config, min(len(ids) + n, model.n_ctx))
        chosen = {name: settings[name] for name in samplers.FILTERS}
        sampler = row.watch(samplers.make_sampler(first, last, **chosen))
        row.begin(Sequence(model, ids, n, sampler, rng), self.tokenizer.stream(), settings["stop"])
        return row.sequence

    def loop(self, row: Row) -> Iterator[int]:
        """Return the chosen loop over a row: an iterator of its new tokens."""
        if not row.sequence:
            self.start(row)
        return LOOPS[self.settings["method"]](self, row)

    def run_batch(self, rows: list[Row]) -> None:
        """Run several rows as one batch, if the method can. After an error, `loop` continues each
        row alone, and the row that has failed fails again."""
        if len(rows) > 1 and self.settings["method"] == "cached" and "loop" not in self.own:
            with contextlib.suppress(Exception):
                for sequence, _ in continuous(map(self.start, rows), max_rows=16):
                    next(row for row in rows if row.sequence is sequence).feed()

    def draft_model(self) -> Any:
        """Return the draft model. Download it only if the user, not the checkpoint, named it."""
        if not (name := self.settings["draft"]):
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        tokenizer, draft = load_draft(str(name), "draft" in self.given)
        same = tokenizer.encode(printable) == self.tokenizer.encode(printable)
        if draft.n_vocab != self.model.n_vocab or not same:
            raise UserError(f"the draft model {name} and the model must share one vocabulary")
        return draft
