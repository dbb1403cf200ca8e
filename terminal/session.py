"""A session: a loaded model, and the settings to generate with.

The command line, the interactive shell and all views use a session. Its `generate` continues the
prompts of rows (terminal/row.py) with the loops in generate.py, speculative.py and decoding/.
"""

import contextlib
import copy
import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import samplers
import utils
from decoding.batching import continuous
from decoding.beam import beam_search
from decoding.drafters import Checked, DraftModel, Measured, NGramStore, PromptLookup
from decoding.score import score, score_ids
from encoder import as_unicode
from families import few_rows
from generate import Sequence, begin, cached, naive
from loading.errors import UserError
from loading.parameters import n_parameters
from speculative import speculative
from terminal.chat import Conversation
from terminal.options import DRAFTING, FORCED, OFF, check, resolve
from terminal.plugin import Part
from terminal.row import Row, until_stop

MAX_ROWS = 16  # how many texts run at once
SMALL = 2**24  # a model with fewer parameters runs faster with one thread than with two
N_CORES = few_rows.n_threads()  # read before any session limits the threads


class Session:
    """A loaded model and the settings to generate with. given: the result of options.parse."""

    def __init__(self, given: dict):
        name = given.get("model", "stories")
        own = Part("model", name) if ".py:" in name else None
        self.tokenizer, self.model = own.make() if own else utils.load(name)
        self.name, self.own_model = as_unicode(name), own  # plugin.PARTS holds a part weakly
        self.reads = hasattr(self.model, "read")  # an encoder-decoder: the prompt is its source
        if given.keys() & {"source_lang", "target_lang"}:
            self.choose_languages(given.get("source_lang", "en_XX"), given.get("target_lang"))
        self.config = getattr(self.model, "generation_config", {})
        off = OFF if self.reads else OFF | FORCED
        keys = [key for key in off if self.config.get(key) not in (None, off[key])]
        if keys and "score" not in given:
            print(f"(the checkpoint asks for {', '.join(keys)}: not supported)", file=sys.stderr)
        is_small = n_parameters(getattr(self.model, "params", [])) < SMALL
        threadpool_limits(1 if is_small else N_CORES)
        few_rows.n_threads.cache_clear()
        self.drafts: dict[str, Any] = {}  # name -> model, for each draft model loaded so far
        self.use(given)
        self.chat: Any = None
        if self.settings["chat"]:
            if self.reads or own:
                raise UserError("--chat needs a decoder with a chat template")
            self.chat = Conversation(self.tokenizer, utils.find(name), self.settings["system"])
            self.model = copy.copy(self.model)
            self.model.stop_ids = tuple({*self.model.stop_ids, *self.chat.stop_ids})
        self.offered = {"tokenizer": self.tokenizer, "model": self.model}  # to the user's parts

    def choose_languages(self, *codes: str | None) -> None:
        """Set the languages of the source and the answer."""
        ids = [code and self.tokenizer.special.get(code) for code in codes]
        if not hasattr(self.model, "for_languages") or any(c and not i for c, i in zip(codes, ids)):
            raise UserError(f"this model lacks the language {' or '.join(filter(None, codes))}")
        self.model = self.model.for_languages(*ids)

    def use(self, given: dict) -> None:
        """Replace all options. If one of them, or its file, cannot be used, nothing changes."""
        settings = resolve(given, self.config)
        check(given, settings["method"])
        filters = [Part("filter", where) for where in settings["filter"]]
        self.own = {name: Part(name, given[name]) for name in ("loop", "drafter") if name in given}
        self.filters, self.given, self.settings = filters, given, settings
        self.new_seed()

    def new_seed(self) -> None:
        """Set the seed: the one in the settings, or else a random one."""
        seed = self.settings["seed"]
        self.seed = secrets.randbits(32) if seed is None else seed

    @property
    def sampled(self) -> bool:
        return self.settings["temperature"] != 0

    def row(self, prompt: str | Row, number: int = 0) -> Row:
        """Return a prompt's row, or a row that repeats one. Its seed is the session's + number."""
        model, n_earlier = self.model, 0
        n_most, remedy = model.n_ctx, "shorten the prompt"
        if isinstance(prompt, Row):
            ids, n_earlier, prompt = prompt.prompt_ids, prompt.n_earlier, prompt.prompt
        elif self.reads:  # a source may contain special tokens, such as <mask>
            ids = self.tokenizer.encode(prompt, special=True)
            ids = model.add_special_tokens(ids)
            n_most = model.n_source
        elif self.chat:
            ids, remedy = self.chat.ask(prompt), "/reset begins a new conversation"
        else:
            end = self.tokenizer.end_of_text
            ids = self.tokenizer.encode(prompt) or [end] * (end is not None)
        if len(ids) > n_most:
            found = f"{prompt[:20]!r}... has {len(ids)} tokens"
            raise UserError(f"{found}, but the model takes {n_most}: {remedy}")
        seed, stream, prompt = self.seed + number, self.tokenizer.stream(), as_unicode(prompt)
        row = Row(prompt, ids, seed, stream, self.settings["stop"])
        row.n_earlier, row.opening = n_earlier, "" if self.reads or self.chat else prompt
        return row

    def generate(self, rows: list[Row]) -> Iterator[Row]:
        """Generate the rows' texts with the chosen method. Yield the row of each new token."""
        method, pairs = self.settings["method"], [*zip(rows, [None, *rows])]
        if method == "speculative" and "drafter" not in self.own:
            self.draft_model()  # load it before the first row's clock starts
        if method == "cached" and len(rows) > 1 and "loop" not in self.own:
            arriving = (self.start(row, before) for row, before in pairs)
            with contextlib.suppress(Exception):  # the row that fails will fail again, alone
                for sequence, token in continuous(arriving, MAX_ROWS):
                    row = next(row for row in rows if row.sequence is sequence)
                    row.feed(token)
                    yield row
        for row, before in pairs:
            if row.sequence is None:
                self.start(row, before)
            for token in self.loop(row):
                row.feed(token)
                yield row
            row.finish()  # a loop may end before its sequence

    def start(
        self, row: Row, before: Row | None = None, rng: Any = np.random.default_rng
    ) -> Sequence:
        """Begin or continue a row's sequence. before: a row whose model serves an equal prompt."""
        row.started = time.perf_counter()
        if before and before.prompt_ids == row.prompt_ids:
            model, ids = before.sequence.model, before.sequence.ids[: before.sequence.n_prompt]
        else:
            model, ids = begin(self.model, row.prompt_ids)
        n, least, n_prompt = self.settings["tokens"], self.settings["min_length"], len(ids)
        most = int(self.config["max_length"]) if n is None else n_prompt + row.n_earlier + n
        least = int(self.config["min_length"]) if least is None else n_prompt + least
        ids, seed = (row.sequence.ids, row.sequence.rng) if row.sequence else (ids, row.seed)
        row.sequence = Sequence(model, ids, max(1, most - len(ids)), seed=rng(seed))
        first = [samplers.min_length(least, model.stop_ids)]
        last = [own.make(**self.offered, n_prompt=n_prompt) for own in self.filters]
        if self.reads:  # forced tokens come last, and overrule all other filters
            last += model.forced_filters(row.sequence.n_left)
        chosen = {name: self.settings[name] for name in samplers.FILTERS}
        row.sequence.sampler = samplers.make_sampler(first, last, **chosen)
        return row.sequence

    def loop(self, row: Row) -> Iterator[int]:
        """Continue a row's text with the chosen method. Yield its new tokens."""
        method, sequence, model = self.settings["method"], row.sequence, row.sequence.model
        if method == "naive":
            return naive(model, sequence)
        if method == "beam":
            return self.search(row)
        if method in DRAFTING:
            row.drafter = row.drafter or Measured(self.new_drafter(row))
            return speculative(model, sequence, row.drafter, self.settings["gamma"])
        if "loop" in self.own:
            return self.own["loop"].make(**self.offered, sequence=sequence)(model, sequence)
        if self.chat:  # keep the cache for the next turn
            row.cache = row.cache or model.new_cache()
        return cached(model, sequence, row.cache)

    def search(self, row: Row) -> Iterator[int]:
        """Run beam search, and yield the best beam's ids. Add all beams to row.beams."""
        s, sequence, decode = self.settings, row.sequence, self.tokenizer.decode
        if sequence.running:
            how = s["beams"], s["length_penalty"], s["early_stopping"], s["return"]
            filters, stops = sequence.sampler.filters, row.stops
            more = filters, row.steps, lambda ids: any(stop in decode(ids) for stop in stops)
            found = beam_search(sequence.model, sequence.ids, sequence.n_left, *how, *more)
            for beam in found:
                ids = [token for token in beam.ids if token not in sequence.stop_ids]
                text, _ = until_stop(decode(ids), row.stops, more=False)
                row.beams.append(beam._asdict() | {"ids": ids, "text": text})
            for token in found[0].ids:
                if sequence.running:
                    yield sequence.append(token)

    def new_drafter(self, row: Row) -> Any:
        """Return a new drafter. For an encoder-decoder, ngram and lookup also read the source."""
        method, n_vocab = self.settings["method"], self.model.n_vocab
        source = row.prompt_ids if self.reads else []
        if method == "ngram":
            return NGramStore(n_vocab, before=source)
        if method == "lookup":
            return PromptLookup(n_vocab, before=source)
        if "drafter" in self.own:
            own = self.own["drafter"].make(**self.offered, sequence=row.sequence)
            return Checked(own, n_vocab)
        draft = self.draft_model()
        if hasattr(draft, "read"):  # an encoder-decoder: it reads all of the source that fits
            draft = draft.read(source[: draft.n_source])
        return DraftModel(draft, row.sequence.sampler, np.random.default_rng([row.seed, 1]))

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

    def score(self, text: str, target: str | None = None) -> dict:
        """Score a text; in a chat or with an encoder-decoder, its answer: `target`, or after =>."""
        if not (self.reads or self.chat):
            if target is not None:
                raise UserError("--target is only for --chat and encoder-decoders")
            return score(self.tokenizer, self.model, text)
        if target is None:
            text, _, target = text.partition(" => ")
        if not target:
            raise UserError("an encoder-decoder or --chat needs --target ANSWER")
        model, ids = begin(self.model, self.row(text).prompt_ids)
        return score(self.tokenizer, model, target, getattr(model, "prefix", ids))

    def score_row(self, row: Row) -> dict:
        """Score a row's ids. For a chat or an encoder-decoder, skip the ids of the prompt."""
        ids, end = row.sequence.ids, self.tokenizer.end_of_text
        n = row.sequence.n_prompt if self.reads or self.chat else len(self.tokenizer.encode(""))
        n = n or int(end is None or ids[0] == end)
        n_bytes = len(self.tokenizer.decode(ids[n:]).encode())
        return score_ids(row.sequence.model, ids[:n] or [end], ids[n:], n_bytes)
