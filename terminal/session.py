"""A session: a loaded model, and the settings to generate with."""

import contextlib
import copy
import runpy
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from string import printable
from typing import Any

from threadpoolctl import threadpool_limits

import samplers
import utils
from decoding.batching import continuous
from encoder import as_unicode
from families import few_rows
from generate import Sequence, begin
from loading.config import forced_filters
from loading.errors import UserError
from loading.parameters import n_parameters
from terminal.chat import Conversation
from terminal.loops import LOOPS
from terminal.options import OFF, check, resolve
from terminal.row import Row

MAX_ROWS = 16  # how many texts run at once
SMALL = 2**24  # a model with fewer parameters runs faster with one thread than with two
load_draft = lru_cache(1)(utils.load)
N_CORES = few_rows.n_threads()  # read before any session limits the threads


class Session:
    """A loaded model and the settings to generate with. given: the result of options.parse."""

    def __init__(self, given: dict):
        self.name = name = given.get("model", "stories")
        load = part("model", name) if ".py:" in name else partial(utils.load, name)
        self.tokenizer, self.model = load()
        self.reads = hasattr(self.model, "read")  # an encoder-decoder: the prompt is its source
        if given.keys() & {"source_lang", "target_lang"}:
            codes = given.get("source_lang", "en_XX"), given.get("target_lang")
            set_languages(self.tokenizer, self.model, *codes)
        self.config = getattr(self.model, "generation_config", {})
        asked = {key: self.config.get(key) for key in OFF + FORCED * (not self.reads)}
        keys = [key for key, value in asked.items() if value and (value is True or value != 1)]
        if keys and "score" not in given:
            print(f"(the checkpoint asks for {', '.join(keys)}: not supported)", file=sys.stderr)
        is_small = n_parameters(getattr(self.model, "params", [])) < SMALL
        threadpool_limits(1 if is_small else N_CORES)
        few_rows.n_threads.cache_clear()
        self.use(given)
        self.chat: Any = None
        if given.keys() & {"chat", "system"}:
            self.chat = Conversation(self.tokenizer, utils.find(name), given.get("system"))
            self.model = copy.copy(self.model)
            self.model.stop_ids = (*self.model.stop_ids, *self.chat.stop_ids)

    def use(self, given: dict) -> None:
        """Replace all options. If one of them, or its file, cannot be used, nothing changes."""
        settings = resolve(given, self.config)
        check(given, settings["method"])
        filters = [part("filter", where) for where in settings["filter"]]
        own = {name: part(name, given[name]) for name in ("loop", "drafter") if name in given}
        self.filters, self.own, self.given, self.settings = filters, own, given, settings

    def make(self, own: Callable, **names: Any) -> Any:
        """Return what a user's part makes for one text."""
        return own(tokenizer=self.tokenizer, model=self.model, **names)

    @property
    def sampled(self) -> bool:
        return self.settings["temperature"] != 0

    def row(self, prompt: str, number: int = 0) -> Row:
        """Encode a prompt. number: its place among the prompts."""
        model, tokenizer, opening = self.model, self.tokenizer, ""
        n_most, remedy = model.n_ctx, "shorten the prompt"
        if self.reads:  # a source may contain special tokens, such as <mask>
            ids = model.add_special_tokens(tokenizer.encode(prompt, special=True))
            n_most = model.n_source
        elif self.chat:
            ids, remedy = self.chat.ask(prompt), "/reset begins a new conversation"
        else:
            end, opening = tokenizer.end_of_text, as_unicode(prompt)
            ids = tokenizer.encode(prompt) or [end] * (end is not None)
        if len(ids) > n_most:
            found = f"{prompt[:20]!r}... has {len(ids)} tokens"
            remedy = "/reset begins a new conversation" if self.chat else "shorten the prompt"
            raise UserError(f"{found}, but the model takes {n_most}: {remedy}")
        seed = self.settings["seed"]
        seed = secrets.randbits(32) if seed is None else seed + number
        return Row(as_unicode(prompt), ids, opening, number, seed)

    def start(self, row: Row, generator: Callable = lambda seed: seed) -> Sequence:
        """Begin a row, or continue its text. generator: makes a random generator from the seed."""
        model: Any
        settings, config = self.settings, self.config
        if settings["method"] == "speculative" and "drafter" not in self.own:
            self.draft_model()  # load it before the clock starts
        row.started = time.perf_counter()
        model, ids = begin(self.model, row.prompt_ids)
        n_prompt, rng = len(ids), generator(row.seed)
        if row.sequence:
            ids, rng = row.sequence.ids, row.sequence.rng
            row.n_earlier = len(ids) - n_prompt
        n, least = settings["tokens"], settings["min_length"]
        n = max(1, config["max_length"] - n_prompt) if n is None else n
        n += n_prompt + row.n_earlier - len(ids)
        least = config["min_length"] if least is None else n_prompt + least
        first = [samplers.min_length(least, model.stop_ids)]
        last = [self.make(own, n_prompt=n_prompt) for own in self.filters]
        if self.reads:  # forced tokens come last, and overrule all other filters
            last += model.forced_filters(min(n, model.n_ctx - len(ids)))
        chosen = {name: settings[name] for name in samplers.FILTERS}
        sampler = samplers.make_sampler(first, last, **chosen)
        row.begin(Sequence(model, ids, n, sampler, rng), self.tokenizer.stream(), settings["stop"])
        return row.sequence

    def loop(self, row: Row) -> Iterator[int]:
        """Return the chosen loop over a row: an iterator of its new tokens."""
        if not row.sequence:
            self.start(row)
        return LOOPS[self.settings["method"]](self, row)

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
                        grown.feed()
            yield from self.loop(row)

        return loop

    def draft_model(self) -> Any:
        """Return the draft model. Download it only if the user, not the checkpoint, named it."""
        if not (name := self.settings["draft"]):
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        tokenizer, draft = load_draft(name, "draft" in self.given)
        same = tokenizer.encode(printable) == self.tokenizer.encode(printable)
        if draft.n_vocab != self.model.n_vocab or not same:
            raise UserError(f"the draft model {name} and the model must share one vocabulary")
        return draft


def part(option: str, where: str) -> Callable[..., Any]:
    """Return a user's part, which `where` names as "FILE.py:EXPRESSION": a function that evaluates
    the expression with the file's names and others. cli.report knows a part by its run_name."""
    file, _, expression = where.partition(".py:")
    if not expression:
        raise UserError(f"--{option} {where}: the form is FILE.py:EXPRESSION")
    code = compile(expression, f"--{option} {where}", "eval")  # a traceback shows this as the file
    names = runpy.run_path(file + ".py", run_name="own_part")
    return lambda **more: eval(code, names | more)
