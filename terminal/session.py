"""A session: a loaded model, and the settings to generate with."""

import contextlib
import copy
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import samplers
import utils
from decoding.batching import continuous
from encoder import as_unicode
from families import few_rows
from generate import Sequence, begin
from loading.config import forced_filters
from loading.errors import UserError
from loading.seq2seq import set_languages
from page.live import arrays_in
from terminal import plugin
from terminal.chat import Conversation
from terminal.loops import LOOPS
from terminal.options import OFF, check, resolve
from terminal.row import Row

MAX_ROWS = 16  # how many texts run at once
SMALL = 2**24  # a model with fewer parameters runs faster with one thread than with two
N_CORES = few_rows.n_threads()  # read before any session limits the threads


class Session:
    """A loaded model and the settings to generate with. given: the result of options.parse."""

    def __init__(self, given: dict):
        self.name = name = given.get("model", "stories")
        self.parts = [plugin.Part("model", name)] if ".py:" in name else []
        self.tokenizer, self.model = self.parts[0].make() if self.parts else utils.load(name)
        if given.keys() & {"source_lang", "target_lang"}:
            codes = given.get("source_lang", "en_XX"), given.get("target_lang")
            set_languages(self.tokenizer, self.model, *codes)
        self.config = getattr(self.model, "generation_config", {})
        keys = [key for key in OFF if self.config.get(key) not in (None, OFF[key])]
        if keys and "score" not in given:
            print(f"(the checkpoint asks for {', '.join(keys)}: not supported)", file=sys.stderr)
        arrays = arrays_in(getattr(self.model, "params", []))
        is_small = sum(map(np.size, arrays)) < SMALL
        threadpool_limits(1 if is_small else N_CORES)
        few_rows.n_threads.cache_clear()
        self.drafts: dict[str, Any] = {}  # name -> model, for each draft model loaded so far
        self.use(given)
        self.chat: Any = None
        if self.settings["chat"]:
            if self.parts:
                raise UserError("--chat needs a decoder with a chat template")
            self.chat = Conversation(self.tokenizer, utils.find(name), self.settings["system"])
            self.model = copy.copy(self.model)
            self.model.stop_ids = tuple({*self.model.stop_ids, *self.chat.stop_ids})
        self.offered = {"tokenizer": self.tokenizer, "model": self.model}  # to the user's parts

    def use(self, given: dict) -> None:
        """Replace all options. If one of them, or its file, cannot be used, nothing changes."""
        settings = resolve(given, self.config)
        check(given, settings["method"])
        filters = [plugin.Part("filter", where) for where in settings["filter"]]
        own = {name: plugin.Part(name, given[name]) for name in {"loop", "drafter"} & given.keys()}
        self.filters, self.own, self.given, self.settings = filters, own, given, settings
        plugin.PARTS[:] = self.in_use
        self.new_seed()

    @property
    def in_use(self) -> list[plugin.Part]:
        return [*self.parts, *self.filters, *self.own.values()]

    def new_seed(self) -> None:
        """Set the seed: the one in the settings, or else a random one."""
        seed = self.settings["seed"]
        self.seed = secrets.randbits(32) if seed is None else seed

    @property
    def sampled(self) -> bool:
        return self.settings["temperature"] != 0

    def row(self, prompt: str | Row, number: int = 0) -> Row:
        """Return a prompt's row, or a row that repeats one. Its seed is the session's + number."""
        n_earlier, n_most = 0, self.model.n_ctx
        if isinstance(prompt, Row):
            ids, n_earlier, prompt = prompt.prompt_ids, prompt.n_earlier, prompt.prompt
        else:
            ids = self.encode(prompt)
        if len(ids) > n_most:
            found = f"{prompt[:20]!r}... has {len(ids)} tokens"
            remedy = "/reset begins a new conversation" if self.chat else "shorten the prompt"
            raise UserError(f"{found}, but the model takes {n_most}: {remedy}")
        seed, stream, prompt = self.seed + number, self.tokenizer.stream(), as_unicode(prompt)
        row = Row(prompt, ids, seed, stream, self.settings["stop"])
        row.n_earlier, row.opening = n_earlier, "" if self.chat else prompt
        return row

    def encode(self, prompt: str) -> list[int]:
        """Return a prompt's ids. In a chat they begin with the earlier turns."""
        if self.chat:
            return self.chat.ask(prompt)
        end = self.tokenizer.end_of_text
        return self.tokenizer.encode(prompt) or [end] * (end is not None)

    def start(self, row: Row, rng: Any = None, watch: Callable = lambda x: x) -> Sequence:
        """Begin or continue a row's sequence. rng: a generator to use instead of the row's seed;
        watch: a function, sampler -> the sampler to use."""
        if self.settings["method"] == "speculative" and "drafter" not in self.own:
            self.draft_model()  # load it before the clock starts
        row.started, earlier, settings = time.perf_counter(), row.sequence, self.settings
        model: Any
        model, ids = begin(self.model, row.prompt_ids)
        if model is not self.model:  # it has read the prompt: the text begins without it
            row.source, row.opening = row.prompt_ids, ""
        n, least, n_prompt = settings["tokens"], settings["min_length"], len(ids)
        most = int(self.config["max_length"]) if n is None else n_prompt + row.n_earlier + n
        least = int(self.config["min_length"]) if least is None else n_prompt + least
        ids, seed = (earlier.ids, earlier.rng) if earlier else (ids, rng or row.seed)
        n_left = max(1, most - len(ids))
        first = [samplers.min_length(least, model.stop_ids)]
        last = [own.make(**self.offered, n_prompt=n_prompt) for own in self.filters]
        last += forced_filters(self.config, min(len(ids) + n_left, model.n_ctx))
        chosen = {name: settings[name] for name in samplers.FILTERS}
        sampler = watch(samplers.make_sampler(first, last, **chosen))
        row.sequence = Sequence(model, ids, n_left, sampler, seed)
        return row.sequence

    def loop(self, row: Row) -> Iterator[int]:
        """Return the chosen loop over a row: an iterator of its new tokens."""
        sequence = row.sequence or self.start(row)
        method, own = self.settings["method"], self.own.get("loop")
        if own and method == "cached":
            return own.make(**self.offered, sequence=sequence)(sequence.model, sequence)
        return LOOPS[method](self, row)

    def loop_over(self, rows: list[Row]) -> Callable[[Row], Iterator[int]]:
        """Return `loop`, or for several rows a loop that lets the other rows grow, too."""
        if len(rows) == 1 or self.settings["method"] != "cached" or "loop" in self.own:
            return self.loop
        steps = continuous((self.start(row) for row in rows), MAX_ROWS)

        def loop(row: Row) -> Iterator[int]:
            with contextlib.suppress(Exception):  # the row that fails will fail again, alone
                while not row.ended and (step := next(steps, None)):
                    sequence, token = step
                    grown = next(other for other in rows if other.sequence is sequence)
                    if grown is row:
                        yield token
                    else:
                        grown.feed(token)
            yield from self.loop(row)

        return loop

    def draft_model(self) -> Any:
        """Return the draft model. Download it only if the user, not the checkpoint, named it."""
        if not (name := self.settings["draft"]):
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        if name not in self.drafts:
            tokenizer, draft = utils.load(name, fetch="draft" in self.given)
            differ = set(enumerate(tokenizer.tokens)) ^ set(enumerate(self.tokenizer.tokens))
            special = {*tokenizer.special, *self.tokenizer.special}  # only their names may differ
            if draft.n_vocab != self.model.n_vocab or {token for _, token in differ} - special:
                raise UserError(f"the draft model {name} and the model must share one vocabulary")
            self.drafts[name] = draft
        return self.drafts[name]
