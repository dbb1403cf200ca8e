"""A session: a loaded model, the options that generate with it, and the rows that come of it.

The command line, the interactive prompt and the ways to look at generation all work through this.
"""

import functools
import secrets
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

import beam
import generate
import interface
import samplers
import score
import speculative
import utils
from interface import Drafter, Ids, Loop, Model, Sampler
from terminal.options import DEFAULTS, DRAFTING, SAMPLING, load_function, suggestions
from utils import UserError


class StoppingStream:
    """Ids -> text as it may be shown: it ends before a stop text, and what might become one is
    held back until it is known."""

    def __init__(self, decoder: interface.TextStream, stops: list[str]):
        self.decoder, self.stops, self.held, self.stopped = decoder, stops, "", False

    def feed(self, token: int) -> str:
        """The text that is certain once this id has come, and not yet shown."""
        return self._show(self.decoder.feed(token))

    def finish(self) -> str:
        """What is left to show, when no id comes any more."""
        text = self._show(self.decoder.finish()) + self.held
        self.held = ""
        return text

    def _show(self, piece):
        text = self.held + piece
        found = [text.index(stop) for stop in self.stops if stop in text]
        if found:
            self.stopped, self.held = True, ""
            return text[: min(found)]
        certain = next((i for i in range(len(text)) if self._may_stop(text[i:])), len(text))
        self.held = text[certain:]
        return text[:certain]

    def _may_stop(self, end):  # does a stop text begin so?
        return any(stop.startswith(end) for stop in self.stops)


class Row:
    """One prompt on its way: the new ids so far, their text, when each came, and why it ended.

    `start` is what the loop begins with: the prompt's ids, or an encoder-decoder's start token.
    stop_reason: None while it goes on, then "eos", "stop", "length" or "context".
    """

    def __init__(self, session: "Session", prompt: str, prompt_ids: Ids, start: Ids, seed: int):
        self.prompt, self.prompt_ids, self.start, self.seed = prompt, prompt_ids, start, seed
        self.stop_ids = session.model.stop_ids
        self.tokens = max(1, session.n_new("tokens", "max_length", len(start)))
        self.stream = StoppingStream(session.encoder.stream(), session.args.stop)
        self.room = session.model.n_ctx - len(start)
        self.ids, self.text, self.times = [], "", []  # a time for the stop id too
        self.beams: list[beam.Hypothesis] | None = None
        self.speculation: speculative.Statistics | None = None
        self.stop_reason: str | None = None if self.room > 0 else "context"
        self.started = time.perf_counter()

    def feed(self, token: int) -> None:
        """Take the next token: move the text on, and see whether the row has ended."""
        self.times.append(time.perf_counter())
        self.last = token
        if token in self.stop_ids:
            self.stop_reason = "eos"
        else:
            self.ids.append(token)
            self.text += self.stream.feed(token)
            if self.stream.stopped:
                self.stop_reason = "stop"
            elif len(self.ids) == self.tokens:
                self.stop_reason = "length"
            elif len(self.ids) == self.room:
                self.stop_reason = "context"
        if self.stop_reason and not self.stream.stopped:
            self.text += self.stream.finish()

    @property
    def seconds_to_first_token(self) -> float | None:
        return self.times[0] - self.started if self.times else None

    @property
    def tokens_per_second(self) -> float | None:
        """Over all the time, the prompt's pass included, for one pass may yield many at once."""
        return len(self.times) / max(self.times[-1] - self.started, 1e-9) if self.times else None


class Onlooker:
    """What sees a generation from inside (Session.look). This one lets all pass."""

    trace: list | None = None  # a list would get the steps of beam search

    def model(self, model: Model) -> Model:
        """-> the model that is to be run in its place; called for a drafting model too."""
        return model

    def sampler(self, sampler: Sampler) -> Sampler:
        """-> the sampler that is to be asked in its place."""
        return sampler

    def round(self, drafts: Ids, tokens: Ids) -> None:
        """A round of speculation: lists of ids, what was proposed and what came of it."""


class Session:
    """A loaded model and the options that generate with it. `args` is an argparse.Namespace, as
    options.parser() makes it, where None means not given."""

    def __init__(self, args: Namespace):
        name = DEFAULTS["model"] if args.model is None else args.model
        self.model: Any  # a Model; one that reads a source has more to it, see seq2seq.py
        self.encoder, self.model = utils.load(name, args.models_dir)
        if args.source_lang or args.target_lang:
            self.model = self.between(args.source_lang, args.target_lang)
        self.drafts = {}  # name -> a drafting model, once it is loaded
        self.keeps_store = False  # is the n-gram store kept between prompts?
        self.store: speculative.NGramStore | None = None
        self.look = Onlooker()
        self.use(args)

    def between(self, source: str | None, target: str | None) -> Model:
        """The model for a source in one language and an answer in another, by their codes."""
        codes = getattr(self.encoder, "languages", {})
        if not codes:
            raise UserError("--source-lang and --target-lang are for mBART, not this model")
        source = source or "en_XX"
        for code in (source, target or source):
            if code not in codes:
                raise UserError(f"no language {code!r}, the model knows {', '.join(sorted(codes))}")
        return self.model.between(codes[source], codes[target] if target else None)

    def use(self, args: Namespace) -> None:
        """Set the options: those of the command line over the checkpoint's over the defaults."""
        if args.truncate and not self.has_source:
            raise UserError("--truncate is for the source of an encoder-decoder")
        own = [load_function(args.sampler)] if args.sampler is not None else []
        self.args, self.own = args, own  # not before: the file may be no good
        self.options = self.settle()
        seed = self.options.get("seed")
        self.seed = secrets.randbits(32) if seed is None else seed

    def settle(self, method: str | None = None) -> dict:
        """The options in force: `method`, if named, over the command line's over the checkpoint's
        over the defaults. Greedy where nothing asks for sampling, and for beam search."""
        suggested = suggestions(self.model.defaults)
        given = {name: v for name, v in vars(self.args).items() if v is not None}
        if suggested.get("beams", 1) > 1 and not given.keys() & set(SAMPLING):
            suggested["method"] = "beam"  # the checkpoint was tuned for it
        self.chosen = suggested.keys() | given.keys()
        options = {**DEFAULTS, **suggested, **given}
        options["method"] = method or options["method"]
        sampled = self.own or any(options.get(name) is not None for name in SAMPLING)
        if options["method"] == "beam" or not sampled:
            options |= dict.fromkeys(SAMPLING) | {"temperature": 0}
        return options

    def n_new(self, option: str, theirs: str, n_start: int) -> int:
        """An option that counts new tokens. A checkpoint may set, by `theirs`, the length of the
        whole text instead, which begins with n_start ids."""
        length = self.model.defaults.get(theirs)
        if option in self.chosen or type(length) is not int:
            return self.options[option]
        return length - n_start

    @property
    def sampled(self) -> bool:
        return self.options.get("temperature") != 0

    @property
    def has_source(self) -> bool:
        """Is it an encoder-decoder, whose prompt is a source to read, not a text to go on with?"""
        return hasattr(self.model, "condition")

    def row(self, prompt: str, number: int = 0) -> Row:
        """Encode one prompt. UserError if it does not fit the context."""
        if self.has_source:
            ids = self.model.wrap(self.source_ids(prompt), self.args.truncate)
            start, room = self.model.start_ids, self.model.n_source
        else:
            if not prompt and self.encoder.end_of_text is None:
                raise UserError("an empty prompt: this model has no end-of-text to start from")
            start = ids = self.encoder.encode(prompt) or [self.encoder.end_of_text]
            room = self.model.n_ctx
        if len(ids) > room:
            cut = "; --truncate cuts it" if self.has_source else ""
            raise UserError(f"the prompt has {len(ids)} tokens, the model takes {room}{cut}")
        return Row(self, prompt, ids, start, self.seed + number)

    def source_ids(self, prompt: str) -> Ids:
        """Encode a source, in which <mask>, <extra_id_0> and </s> are tokens. UserError for a token
        that the model has no embedding for."""
        ids = self.encoder.encode(prompt, special=True)
        if missing := [id for id in ids if id >= self.model.n_vocab]:
            token = self.encoder.decode(missing[:1])
            raise UserError(f"the model has no embedding for {token}: leave it out of the prompt")
        return ids

    def opening(self, row: Row) -> str:
        """What stands before the new text when it is printed: the prompt that it continues."""
        return "" if self.has_source else row.prompt

    def text(self, ids: Ids) -> str:
        """A list of new ids -> their text, without a stop id, up to a stop text."""
        stream = StoppingStream(self.encoder.stream(), self.args.stop)
        text = ""
        for token in ids:
            if token not in self.model.stop_ids and not stream.stopped:
                text += stream.feed(token)
        return text if stream.stopped else text + stream.finish()

    def sampler(self, row: Row) -> samplers.Sampler:
        """The options' filters in their usual order, between no stop before the minimum length and
        what an encoder-decoder's checkpoint forces."""
        settings = {name: self.options.get(name) for name in samplers.USUAL_ORDER}
        least, forced = self.n_new("min_length", "min_length", len(row.start)), []
        first = [samplers.min_length(len(row.start) + least, row.stop_ids)] if least else []
        if self.has_source:
            forced = self.model.filters(min(row.tokens, row.room))
        return samplers.usual(first, [*self.own, *forced], **settings)

    def drafter(self, row: Row, sampler: Sampler) -> Drafter:
        """What proposes tokens for one row (see speculative.py); those that copy may copy from a
        source too."""
        method, n_vocab, n = self.options["method"], self.model.n_vocab, self.options["ngram"]
        source = row.prompt_ids if self.has_source else []
        if method == "ngram":
            top_k = self.options["filler_top_k"]
            store = self.store or speculative.NGramStore(n_vocab, n, top_k)
            store.read(source)
            self.store = store if self.keeps_store else None
            return store
        if method == "lookup":
            return speculative.PromptLookup(n_vocab, n, source)
        draft = self.conditioned(self.draft_model(self.options.get("draft")), [row])
        return speculative.DraftModel(draft, sampler, np.random.default_rng([row.seed, 1]))

    def draft_model(self, name: str | None) -> Model:
        """A model that drafts for this one. UserError if it can't."""
        if not name:
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        if name not in self.drafts:
            suggested = self.args.draft is None and name == self.options.get("draft")
            self.drafts[name] = utils.load(name, self.args.models_dir, fetch=not suggested)[1]
        draft = self.drafts[name]
        if hasattr(draft, "condition") != self.has_source:
            raise UserError("an encoder-decoder can only draft for one, and GPT-2 for GPT-2")
        if draft.n_vocab != self.model.n_vocab:
            raise UserError(
                f"the draft model has {draft.n_vocab} tokens, the model {self.model.n_vocab}:"
                " they must share one vocabulary"
            )
        return draft

    def conditioned(self, model: Any, rows: list[Row]) -> Model:
        """The model as it is run; an encoder-decoder has read the rows' prompts, its sources."""
        if self.has_source:
            # A drafting model may read less of a source: it drafts by what it has read.
            model = model.condition([row.prompt_ids[: model.n_source] for row in rows])
        return self.look.model(model)

    def score(self, prompt: str, target: str | None = None) -> dict:
        """score.score of a prompt, or of a target, which an encoder-decoder might answer to it."""
        if not self.has_source:
            if target is not None:
                raise UserError("--target is for an encoder-decoder, which might answer it")
            return score.score(self.encoder, self.model, prompt)
        if target is None:
            raise UserError("an encoder-decoder scores an answer: --target TEXT, and at the"
                            " interactive prompt /score SOURCE => TARGET")  # fmt: skip
        model = self.conditioned(self.model, [self.row(prompt)])
        return score.score(self.encoder, model, target)

    def generate(self, rows: list[Row]) -> Iterator[Row | None]:
        """Run rows by the chosen method; yields a row each time that it has a new token, and None
        when one that runs by itself is complete, its statistics too."""
        method = self.options["method"]
        if method in ("naive", "cached"):
            longest = max(len(row.prompt_ids) + min(row.tokens, row.room) for row in rows)
            n = max(1, self.options["batch_tokens"] // longest)  # rows that run at once
            for i in range(0, len(rows), n):
                yield from self.follow(getattr(generate, method), rows[i : i + n])
            return
        for row in rows:  # these go one by one
            if method in DRAFTING:
                yield from self.follow(self.speculation(row), [row])
            else:
                self.search(row)
                yield row
            yield None

    def follow(self, loop: Loop, rows: list[Row]) -> Iterator[Row]:
        """Feed what a loop yields to the rows, which say when they are done."""
        chosen = [self.look.sampler(self.sampler(row)) for row in rows]
        rngs = [np.random.default_rng(row.seed) for row in rows]
        prompts = [row.start for row in rows]
        for row in rows:
            row.started = time.perf_counter()

        def done(i, ids):
            return rows[i].stop_reason is not None

        for i, token in loop(self.conditioned(self.model, rows), prompts, chosen, rngs, done):
            rows[i].feed(token)
            yield rows[i]

    def speculation(self, row: Row) -> Loop:
        """The speculative loop for one row."""
        row.speculation = found = speculative.Statistics()

        def watch(number, drafts, tokens):
            found.record(number, drafts, tokens)
            self.look.round(drafts, tokens)

        drafters, gamma = [self.drafter(row, self.sampler(row))], self.options["gamma"]
        return functools.partial(
            speculative.speculative, drafters=drafters, gamma=gamma, watch=watch
        )

    def search(self, row: Row) -> None:
        """Beam search: the best hypothesis becomes the row's text, all are kept in row.beams."""
        row.started = time.perf_counter()
        o, room = self.options, min(row.tokens, row.room)
        row.beams = []
        if room == 0:
            return
        row.beams = beam.beam_search(
            self.conditioned(self.model, [row]), row.start, room, o["beams"], o["length_penalty"],
            o["early_stopping"], o["return"], self.sampler(row).filters, self.look.trace,
        )  # fmt: skip
        for token in row.beams[0].ids:
            if row.stop_reason is None:
                row.feed(token)
