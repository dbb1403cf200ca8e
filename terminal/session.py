"""A session: a loaded model, the settings to generate with, and the rows that are generated.

The command line, the interactive prompt and the views of generation all work through this.
"""

import copy
import functools
import itertools
import secrets
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import beam
import samplers
import score
import utils
from batching import Prefill, continuous
from drafters import DraftModel, Measured, NGramStore, PromptLookup
from generate import Loop, Sequence, cached, lengthen, naive
from gpt2 import n_parameters
from interface import Drafter, Ids, Model
from loading.errors import UserError
from loading.few_rows import blocks_pay
from speculative import speculative
from terminal import options
from terminal.chat import Conversation, kept
from terminal.plugin import Plug, errors
from terminal.row import Row, until_stop

try:
    import threadpoolctl  # type: ignore[import-untyped]

    CORES = max((pool["num_threads"] for pool in threadpoolctl.threadpool_info()), default=1)
except ModuleNotFoundError:  # NumPy's own number of threads stands then
    threadpoolctl = None
# Below so many parameters a second thread hardly helps, and slows the products several times where
# another process wants its core.
SMALL = 2**24


class Session:
    """A loaded model and the settings that generate with it. `args` is an argparse.Namespace, as
    options.parser() makes it, where None means not given.

    measure: wraps each row's drafter; trace: None, or a list that gets the steps of beam search.
    """

    def __init__(self, args: Namespace):
        name = options.OPTIONS["model"].default if args.model is None else args.model
        self.model: Any  # a Model; an encoder-decoder has more methods, see seq2seq.py
        self.own: dict[str, Plug | None]  # the user's own model, drafter and loop
        self.own = {"model": Plug("model", name) if ".py:" in name else None}
        if own := self.own["model"]:
            self.tokenizer, self.model = own.make_model()
        else:
            self.tokenizer, self.model = utils.load(name)
        if args.source_lang or args.target_lang:
            self.model = self.for_languages(args.source_lang, args.target_lang)
        limit_threads(args.threads, n_parameters(getattr(self.model, "params", [])))
        self.chat: Conversation | None = None
        if args.chat:
            if self.model.has_source:
                raise UserError("--chat needs a decoder, an encoder-decoder answers one source")
            self.chat, self.model = Conversation(self.tokenizer), copy.copy(self.model)
            self.model.stop_ids = (*self.model.stop_ids, self.chat.end)
        chats = args.chat and args.interactive
        self.kept: Loop | None = functools.partial(kept, Prefill()) if chats else None
        self.drafts: dict[str, Model] = {}  # name -> a draft model, once it is loaded
        self.keeps_store = args.interactive  # is the n-gram store kept between prompts?
        self.store: NGramStore | None = None
        self.measure: Callable[[Drafter], Measured] = Measured
        self.trace: list | None = None
        self.use(args)

    def for_languages(self, source: str | None, target: str | None) -> Model:
        """The model for a source in one language and an answer in another, by their codes."""
        codes = getattr(self.tokenizer, "languages", {})
        if not codes:
            raise UserError("--source-lang and --target-lang are for mBART, not this model")
        source = source or "en_XX"
        for code in (source, target or source):
            if code not in codes:
                raise UserError(f"no language {code!r}, the model has {', '.join(sorted(codes))}")
        return self.model.for_languages(codes[source], codes[target] if target else None)

    def answered(self, row: Row) -> None:
        """In a conversation, keep a row as a turn, if the model has begun to answer."""
        if self.chat and row.sequence.new_ids:
            self.chat.answered(row.prompt_ids, row.ids)

    def use(self, args: Namespace) -> None:
        """Replace the options and compute the settings."""
        if args.truncate and not self.model.has_source:
            raise UserError("--truncate is for the source of an encoder-decoder")
        filters = [Plug("filter", where) for where in args.filter]
        own = {name: where and Plug(name, where) for name, where in
               [("drafter", args.drafter), ("loop", args.loop)]}  # fmt: skip
        self.args, self.own_filters = args, filters  # only now, as a file may be faulty
        self.own |= own
        self.settings = options.resolve(args, self.model.generation_config)
        self.new_seed()

    def new_seed(self) -> None:
        """The seed of the settings, or where they have none, another one each time."""
        seed = self.settings["seed"]
        self.seed = secrets.randbits(32) if seed is None else seed

    def errors(self) -> AbstractContextManager:
        """An error in the user's own model, drafter or loop becomes a UserError."""
        return errors(*filter(None, self.own.values()))

    @property
    def sampled(self) -> bool:
        return self.settings["temperature"] != 0

    # --- rows -------------------------------------------------------------------------------------

    def row(self, prompt: str, number: int = 0) -> Row:
        """The row of a prompt; its seed is the session's + number. UserError if it does not fit."""
        ids = self.encode(prompt)
        start = self.model.start_ids if self.model.has_source else ids
        config, n_start = self.model.generation_config, len(start)
        n, least = self.settings["tokens"], self.settings["min_length"]
        n = max(1, config["max_length"] - n_start) if n is None else n
        least = max(0, config["min_length"] - n_start) if least is None else least
        seed = self.seed + number
        sequence = Sequence(self.model, start, n, seed=seed)
        sequence.sampler = self.sampler(sequence, least)
        opening = "" if self.model.has_source or self.chat else prompt
        return Row(prompt, ids, sequence, seed, self.tokenizer.stream(), self.args.stop, opening)

    def encode(self, prompt: str) -> Ids:
        """The ids of a prompt: in a source, <mask>, <extra_id_0> and </s> are tokens. UserError if
        it is too long, or has a token without an embedding."""
        if self.model.has_source:
            ids, n_most = self.tokenizer.encode(prompt, special=True), self.model.n_source
            if missing := [id for id in ids if id >= self.model.n_vocab]:
                token = self.tokenizer.decode(missing[:1])
                raise UserError(f"the model has no embedding for {token}: leave it out")
            ids = self.model.add_special_tokens(ids, self.args.truncate)
        else:
            ids = self.chat.ask(prompt) if self.chat else self.tokenizer.encode(prompt)
            n_most = self.model.n_ctx
            if not ids and self.tokenizer.end_of_text is None:
                raise UserError("an empty prompt: this model has no end-of-text to start from")
            ids = ids or [self.tokenizer.end_of_text]  # type: ignore[list-item]  # not None
        if len(ids) > n_most:
            what, remedy = "prompt", "; --truncate cuts it" if self.model.has_source else ""
            if self.chat and self.chat.ids:
                what, remedy = "conversation", ": /reset begins another"
            raise UserError(f"the {what} has {len(ids)} tokens, the model takes {n_most}{remedy}")
        return ids

    def unknown_characters(self, row: Row) -> str:
        """Those of a prompt that its ids have <unk> for."""
        unknown = getattr(self.tokenizer, "special", {}).get("<unk>")
        if unknown not in row.prompt_ids:
            return ""
        return "".join(c for c in dict.fromkeys(row.prompt) if unknown in self.tokenizer.encode(c))

    def sampler(self, sequence: Sequence, least: int) -> samplers.Sampler:
        """The filters of the settings: no stop id before `least` new tokens, those of the sampling
        options, the user's own, and what an encoder-decoder's checkpoint forces."""
        first = [samplers.min_length(sequence.n_prompt + least, sequence.stop_ids)]
        offered = {"tokenizer": self.tokenizer, "model": self.model, "n_prompt": sequence.n_prompt}
        last = [plug.make_filter(**offered) for plug in self.own_filters]
        if self.model.has_source:
            last += self.model.forced_filters(sequence.n_left)
        chosen = {name: self.settings[name] for name in samplers.FILTERS}
        return samplers.make_sampler(first, last, **chosen)

    def text(self, ids: Ids) -> str:
        """New ids -> their text, without a stop id, up to a stop text."""
        text = self.tokenizer.decode([token for token in ids if token not in self.model.stop_ids])
        return until_stop(text, self.args.stop, more=False)[0]

    # --- generation -------------------------------------------------------------------------------

    def generate(self, rows: list[Row]) -> Iterator[Row]:
        """Run rows by the chosen method, max_rows at once; yield a row for each new token."""
        try:
            yield from self._generate(rows)
        except ValueError as error:
            if guilty := [plug.where for plug in self.own_filters if plug.emptied]:
                raise UserError(f"{guilty[0]} has left no token: {error}") from None
            raise

    def _generate(self, rows):
        method, n = self.settings["method"], self.settings["max_rows"]
        if method == "speculative" and not self.own["drafter"]:
            self.draft_model()  # loaded before the first row's clock starts
        many = len(rows) > n or self.settings["samples"] > 1
        if method == "cached" and many and not self.own["loop"]:
            steps = continuous(self.model, self.arrivals(rows), n)
        else:
            batches = (rows[i : i + n] for i in range(0, len(rows), n))
            steps = itertools.chain.from_iterable(map(self.run, batches))
        row_of = {row.sequence: row for row in rows}
        for sequence, token in steps:
            row_of[sequence].feed(token)
            yield row_of[sequence]

    def run(self, rows: list[Row]) -> Iterable[tuple[Sequence, int]]:
        """One batch by the loop of the chosen method."""
        for row in rows:
            row.started = time.perf_counter()
        model, _ = self.model.begin([row.prompt_ids for row in rows])
        return self.loop(rows)(model, [row.sequence for row in rows])

    def arrivals(self, rows: list[Row]) -> Iterator[Sequence]:
        """The rows' sequences as they are asked for. Equal prompts that follow each other share
        the model that has read them."""
        for _, group in itertools.groupby(rows, lambda row: row.prompt_ids):
            model = None
            for row in group:
                row.started = time.perf_counter()
                model = model or self.model.begin([row.prompt_ids])[0]
                row.sequence.model = model
                yield row.sequence

    def loop(self, rows: list[Row]) -> Loop:
        """The loop of the chosen method, for these rows."""
        row_of = {row.sequence: row for row in rows}

        def new_drafter(sequence):  # Sequence -> Measured
            row = row_of[sequence]
            row.speculation = self.measure(self.drafter(row))
            return row.speculation

        search = functools.partial(self.search, row_of)
        loops: dict[str, Loop] = {"naive": naive, "cached": self.kept or cached, "beam": search}
        if own := self.own["loop"]:
            loops["cached"] = own.make_loop(tokenizer=self.tokenizer, model=self.model)
        drafting = functools.partial(speculative, new_drafter=new_drafter,
                                     gamma=self.settings["gamma"])  # fmt: skip
        return loops.get(self.settings["method"], drafting)

    def search(
        self, row_of: dict[Sequence, Row], model: Model, sequences: list[Sequence]
    ) -> Iterator[tuple[Sequence, int]]:
        """Beam search as a loop: the best hypothesis becomes the text, row.beams holds all."""
        s = self.settings
        searches = [
            beam.Search(model, list(sequence.ids), sequence.n_left, s["beams"], s["length_penalty"],
                        s["early_stopping"], sequence.sampler.filters, self.trace)
            for sequence in sequences
        ]  # fmt: skip
        beam.run_together(model, searches)
        for sequence, search in zip(sequences, searches):
            if sequence.running:
                row_of[sequence].beams = found = search.hypotheses(s["return"])
                yield from lengthen(sequence, found[0].ids)

    def drafter(self, row: Row) -> Drafter:
        """The drafter of one row's tokens; n-grams and lookup copy from a source too."""
        method, n_vocab, n = self.settings["method"], self.model.n_vocab, self.settings["ngram"]
        source = row.prompt_ids if self.model.has_source else []
        if method == "ngram":
            store = self.store or NGramStore(n_vocab, n, self.settings["filler_top_k"])
            store.read(source)
            self.store = store if self.keeps_store else None
            return store
        if method == "lookup":
            return PromptLookup(n_vocab, n, source)
        if own := self.own["drafter"]:
            offered = {"tokenizer": self.tokenizer, "model": self.model}
            return own.make_drafter(**offered, sequence=row.sequence)
        draft: Any = self.draft_model()
        if draft.has_source:  # it drafts by as much of the source as it can read
            draft = draft.condition([source[: draft.n_source]])
        return DraftModel(draft, row.sequence.sampler, np.random.default_rng([row.seed, 1]))

    def draft_model(self, name: str | None = None) -> Model:
        """A model that drafts for this one, by default the settings'. One that only the checkpoint
        names is not fetched. UserError if it can't."""
        suggested = name is None and self.args.draft is None
        name = name or self.settings["draft"]
        if not name:
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        if name not in self.drafts:
            self.drafts[name] = utils.load(name, fetch=not suggested)[1]
        draft = self.drafts[name]
        if draft.n_vocab != self.model.n_vocab:
            raise UserError(
                f"the draft model has {draft.n_vocab} tokens, the model {self.model.n_vocab}:"
                " they must share one vocabulary"
            )
        return draft

    def score(self, prompt: str, target: str | None = None) -> dict:
        """score.score of a prompt, or of target, an encoder-decoder's answer to it."""
        if not self.model.has_source:
            if target is not None:
                raise UserError("--target is for an encoder-decoder, as its answer")
            return score.score(self.tokenizer, self.model, prompt)
        if target is None:
            raise UserError("an encoder-decoder scores an answer: --target TEXT, and at the"
                            " interactive prompt /score SOURCE => TARGET")  # fmt: skip
        model, _ = self.model.begin([self.encode(prompt)])
        return score.score(self.tokenizer, model, target)


def limit_threads(wanted: int | None, n_parameters: int) -> None:
    """Compute from now on with the threads that are wanted, or as many as suit the model."""
    if threadpoolctl is None:
        if wanted:
            raise UserError("--threads needs threadpoolctl: pip install threadpoolctl")
        return
    n = wanted or (1 if n_parameters < SMALL else CORES)
    threadpoolctl.threadpool_limits(n)
    blocks_pay.cache_clear()  # it may have been measured with another number of threads
