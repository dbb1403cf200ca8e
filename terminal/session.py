"""A session: a loaded model, the settings to generate with, and the rows that are generated.

The command line, the interactive prompt and all views of generation work through this.
"""

import copy
import secrets
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import samplers
import utils
from drafters import DraftModel, Measured, NGramStore, PromptLookup, common_prefix
from loading.errors import UserError
from terminal._centre import (
    Sequence,
    beam_search,
    begin,
    cached,
    continuous,
    n_parameters,
    naive,
    score,
    speculative,
)
from terminal.chat import Conversation
from terminal.options import DRAFTING, resolve
from terminal.plugin import Part
from terminal.row import Row, until_stop

SMALL = 2**24  # parameters; in a smaller model a second thread costs more than it brings
N_CORES: list[int] = []  # the first number counts: later ones are what we have asked for


class Session:
    """A loaded model and the settings that generate with it. given: as options.parse returns it."""

    def __init__(self, given: dict):
        name = given.get("model", "stories")
        own = Part("model", name) if ".py:" in name else None
        self.tokenizer, self.model = own.make() if own else utils.load(name)
        self.reads = self.model.has_source  # an encoder-decoder: a prompt is a source
        if "source_lang" in given or "target_lang" in given:
            self.model = self.for_languages(given.get("source_lang"), given.get("target_lang"))
        limit_threads(given.get("threads"), n_parameters(getattr(self.model, "params", [])))
        self.drafts: dict[str, Any] = {}  # name -> a draft model, once it is loaded
        self.use(given)
        self.reset()

    def for_languages(self, source: str | None, target: str | None) -> Any:
        """Return the model for a source in one language and an answer in another."""
        codes = getattr(self.tokenizer, "languages", {})
        if not codes:
            raise UserError("--source-lang and --target-lang are for mBART, not this model")
        source = source or "en_XX"
        for code in (source, target or source):
            if code not in codes:
                raise UserError(f"no language {code!r}, the model has {', '.join(sorted(codes))}")
        return self.model.for_languages(codes[source], codes[target] if target else None)

    def use(self, given: dict) -> None:
        """Replace the options. Nothing changes if one of their files cannot be used."""
        if "truncate" in given and not self.reads:
            raise UserError("--truncate is for the source of an encoder-decoder")
        settings = resolve(given, getattr(self.model, "generation_config", {}))
        filters = [Part("filter", where) for where in settings["filter"]]
        parts = {
            name: settings[name] and Part(name, settings[name]) for name in ("loop", "drafter")
        }
        self.given, self.settings, self.filters, self.parts = given, settings, filters, parts
        self.new_seed()

    def reset(self) -> None:
        """Begin another conversation, if this is one."""
        self.chat, self.cache, self.last = None, None, None
        if self.settings["chat"]:
            if self.reads:
                raise UserError("--chat needs a decoder; an encoder-decoder answers one source")
            name, system = self.settings["model"], self.settings["system"]
            self.chat = Conversation(self.tokenizer, utils.find(name), system)
            self.model = copy.copy(self.model)
            self.model.stop_ids = tuple({*self.model.stop_ids, *self.chat.stop_ids})

    def answered(self, row: Row) -> None:
        """Keep a row as a turn of the conversation, if the model has begun to answer."""
        if self.chat and row.sequence.new_ids:
            self.chat.answered(row.prompt, row.text)

    def new_seed(self) -> None:
        """Take the seed of the settings; where they have none, another one each time."""
        seed = self.settings["seed"]
        self.seed = secrets.randbits(32) if seed is None else seed

    @property
    def sampled(self) -> bool:
        return self.settings["temperature"] != 0

    # --- rows -------------------------------------------------------------------------------------

    def row(self, prompt: str, number: int = 0) -> Row:
        """Make the row of a prompt; its seed is the session's + number. UserError if it does not
        fit."""
        ids, stream = self.encode(prompt), self.tokenizer.stream()
        opening = "" if self.reads or self.chat else prompt
        return Row(prompt, ids, opening, self.seed + number, stream, self.settings["stop"])

    def encode(self, prompt: str) -> list[int]:
        """Return the ids of a prompt. In a source, <mask>, <extra_id_0> and </s> are tokens."""
        if self.reads:
            ids = self.tokenizer.encode(prompt, special=True)
            if missing := [id for id in ids if id >= self.model.n_vocab]:
                token = self.tokenizer.decode(missing[:1])
                raise UserError(f"the model has no embedding for {token}: leave it out")
            ids = self.model.add_special_tokens(ids, self.settings["truncate"])
            what, n_most, remedy = "prompt", self.model.n_source, "; --truncate cuts it"
        elif self.chat:
            ids = self.chat.ask(prompt)
            what, n_most, remedy = "conversation", self.model.n_ctx, ": /reset begins another"
        else:
            ids = self.tokenizer.encode(prompt)
            if not ids and self.tokenizer.end_of_text is None:
                raise UserError("an empty prompt: this model has no end-of-text to start from")
            ids = ids or [self.tokenizer.end_of_text]
            what, n_most, remedy = "prompt", self.model.n_ctx, ""
        if len(ids) > n_most:
            raise UserError(f"the {what} has {len(ids)} tokens, the model takes {n_most}{remedy}")
        return ids

    def start(self, row: Row, before: Row | None = None) -> None:
        """Begin the sequence of a row. A source that the row before it has read is not read again."""
        row.started = time.perf_counter()
        if before and before.prompt_ids == row.prompt_ids:
            model, ids = before.sequence.model, before.sequence.ids[: before.sequence.n_prompt]
        else:
            model, ids = begin(self.model, row.prompt_ids)
        config = getattr(self.model, "generation_config", {})
        n, least = self.settings["tokens"], self.settings["min_length"]
        n = max(1, config["max_length"] - len(ids)) if n is None else n
        least = max(0, config["min_length"] - len(ids)) if least is None else least
        row.sequence = Sequence(model, ids, n, seed=row.seed)
        row.sequence.sampler = self.sampler(row.sequence, least)

    def sampler(self, sequence: Sequence, least: int) -> samplers.Sampler:
        """Make the sampler: no stop id before `least` new tokens, the filters of the settings, the
        user's own, and what an encoder-decoder's checkpoint forces."""
        first = [samplers.min_length(sequence.n_prompt + least, sequence.stop_ids)]
        last = [part.make(**self.offered(n_prompt=sequence.n_prompt)) for part in self.filters]
        if self.reads:
            last += self.model.forced_filters(sequence.n_left)
        chosen = {name: self.settings[name] for name in samplers.FILTERS}
        return samplers.make_sampler(first, last, **chosen)

    def offered(self, **more: Any) -> dict:
        """Return what a part of the user's own knows by name."""
        return {"tokenizer": self.tokenizer, "model": self.model, **more}

    def text(self, ids: list[int]) -> str:
        """Decode new ids without a stop id, up to a stop text."""
        text = self.tokenizer.decode([token for token in ids if token not in self.model.stop_ids])
        return until_stop(text, self.settings["stop"], more=False)[0]

    # --- generation -------------------------------------------------------------------------------

    def generate(self, rows: list[Row]) -> Iterator[Row]:
        """Run rows by the chosen method; yield a row for each new token."""
        method = self.settings["method"]
        if method == "speculative" and not self.parts["drafter"]:
            self.draft_model()  # loaded before the first row's clock starts
        if method == "cached" and len(rows) > 1 and not self.parts["loop"]:
            row_of: dict[Any, Row] = {}
            arriving = self.arrivals(rows, row_of)
            for sequence, token in continuous(self.model, arriving, self.settings["max_rows"]):
                row_of[sequence].feed(token)
                yield row_of[sequence]
            return
        for row, before in zip(rows, [None, *rows]):
            if row.sequence is None:
                self.start(row, before)
            for token in self.loop(row):
                row.feed(token)
                if len(row.times) > len(row.sequence.new_ids):
                    raise UserError("--loop must append a token, then yield it")
                yield row

    def arrivals(self, rows: list[Row], row_of: dict) -> Iterator[Sequence]:
        """Start the rows as they are asked for."""
        for row, before in zip(rows, [None, *rows]):
            self.start(row, before)
            row_of[row.sequence] = row
            yield row.sequence

    def loop(self, row: Row) -> Iterator[int]:
        """Lengthen a row by the chosen method; yield its tokens."""
        method, sequence = self.settings["method"], row.sequence
        if method == "beam":
            return self.search(row)
        if method == "naive":
            return naive(sequence.model, sequence)
        if method in DRAFTING:
            row.drafter = row.drafter or Measured(self.new_drafter(row))
            return speculative(sequence.model, sequence, row.drafter, self.settings["gamma"])
        if own := self.parts["loop"]:
            return own.make(**self.offered(sequence=sequence))(sequence.model, sequence)
        return cached(sequence.model, sequence, self.kept(sequence))

    def kept(self, sequence: Sequence) -> Any:
        """Return the cache of a conversation, cut to what it shares with the turns before."""
        if not self.chat:
            return None
        self.cache = self.cache or sequence.model.new_cache()
        passed = self.last.ids[: self.cache.length] if self.last else []
        self.cache.cut(common_prefix(passed, sequence.ids[:-1]))
        self.last = sequence
        return self.cache

    def search(self, row: Row) -> Iterator[int]:
        """Search beams; the best hypothesis becomes the text, row.beams holds all."""
        s, sequence = self.settings, row.sequence
        if not sequence.running:
            return
        row.beams = beam_search(
            sequence.model, list(sequence.ids), sequence.n_left, s["beams"], s["length_penalty"],
            s["early_stopping"], s["return"], sequence.sampler.filters, row.steps,
        )  # fmt: skip
        for token in row.beams[0].ids:
            if sequence.running:
                sequence.append(token)
                yield token

    def new_drafter(self, row: Row) -> Any:
        """Make the drafter of one row's tokens; n-grams and lookup copy from a source, too."""
        method, n_vocab, n = self.settings["method"], self.model.n_vocab, self.settings["ngram"]
        source = row.prompt_ids if self.reads else []
        if method == "ngram":
            return NGramStore(n_vocab, n, self.settings["filler_top_k"], source)
        if method == "lookup":
            return PromptLookup(n_vocab, n, source)
        if own := self.parts["drafter"]:
            return own.make(**self.offered(sequence=row.sequence))
        draft = self.draft_model()
        if hasattr(draft, "read"):  # it drafts by as much of the source as it can read
            draft = draft.read(source[: draft.n_source])
        return DraftModel(draft, row.sequence.sampler, np.random.default_rng([row.seed, 1]))

    # --- other uses of the model ------------------------------------------------------------------

    def score(self, text: str, target: str | None = None) -> dict:
        """Return score.score of a text, or of target, an encoder-decoder's answer to it."""
        if not self.reads:
            if target is not None:
                raise UserError("--target is for an encoder-decoder, as its answer")
            return score(self.tokenizer, self.model, text)
        if target is None:
            raise UserError(
                "an encoder-decoder scores an answer: --target TEXT, and at the interactive"
                " prompt /score SOURCE => TARGET"
            )
        return score(self.tokenizer, begin(self.model, self.encode(text))[0], target)

    def draft_model(self) -> Any:
        """Return the model that drafts for this one. One that only the checkpoint names is not
        downloaded."""
        name = self.settings["draft"]
        if not name:
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        if name not in self.drafts:
            self.drafts[name] = utils.load(name, fetch="draft" in self.given)[1]
        draft = self.drafts[name]
        if draft.n_vocab != self.model.n_vocab:
            raise UserError(
                f"the draft model has {draft.n_vocab} tokens, the model {self.model.n_vocab}:"
                " they must share one vocabulary"
            )
        return draft


def limit_threads(wanted: int | None, n_parameters: int) -> None:
    """Compute with the threads that are wanted, or as many as suit the model."""
    try:
        import threadpoolctl
    except ModuleNotFoundError:  # NumPy's own number of threads stands then
        if wanted:
            raise
        return
    pools = threadpoolctl.threadpool_info()
    N_CORES.append(max((pool["num_threads"] for pool in pools), default=1))
    threadpoolctl.threadpool_limits(wanted or (1 if n_parameters < SMALL else N_CORES[0]))
