"""A session: a loaded model, the options that generate with it, and the rows that come of it.

The command line, the interactive prompt and the ways to look at generation all work through this.
"""

import functools
import importlib.util
import secrets
import time
from pathlib import Path

import numpy as np

import beam
import generate
import samplers
import score
import speculative
import utils
from utils import UserError

METHODS = ("naive", "cached", "beam", "speculative", "ngram", "lookup")
DRAFTING = ("speculative", "ngram", "lookup")
DEFAULTS = {
    "model": "stories", "method": "cached", "tokens": 100, "beams": 4, "length_penalty": 1.0,
    "early_stopping": False, "n_return": 1, "gamma": 4, "ngram": 3, "filler_top_k": 1,
    "min_length": 0,
}  # fmt: skip
SUGGESTIONS = {  # what a checkpoint's generation_config.json may set, and our name for it
    "max_new_tokens": "tokens", "temperature": "temperature", "top_k": "top_k", "top_p": "top_p",
    "min_p": "min_p", "repetition_penalty": "repetition_penalty", "seed": "seed",
    "no_repeat_ngram_size": "no_repeat_ngram", "num_beams": "beams", "draft": "draft",
    "length_penalty": "length_penalty", "early_stopping": "early_stopping",
    "min_new_tokens": "min_length",
}  # fmt: skip
RANGES = {  # of these options, where a checkpoint sets them: int or float, from, to
    "tokens": (int, 1, 10**9), "top_k": (int, 0, 10**9), "seed": (int, 0, 2**63),
    "no_repeat_ngram": (int, 0, 10**9), "beams": (int, 1, 1000), "min_length": (int, 0, 10**9),
    "temperature": (float, 0, 1e6), "top_p": (float, 1e-9, 1), "min_p": (float, 0, 1),
    "repetition_penalty": (float, 1e-9, 1e6), "length_penalty": (float, -20, 20),
}  # fmt: skip
SAMPLING = ("temperature", "top_k", "top_p", "min_p")  # one of these given: not greedy
SAMPLER_OPTIONS = (*SAMPLING, "repetition_penalty", "no_repeat_ngram", "sampler")


class TextStream:
    """Ids -> text as it may be shown: it ends before a stop text, and what might become one is
    held back until it is known."""

    def __init__(self, decoder, stops):
        self.decoder, self.stops, self.held, self.stopped = decoder, stops, "", False

    def feed(self, token):
        return self._show(self.decoder.feed(token))

    def finish(self):
        text = self._show(self.decoder.finish()) + self.held
        self.held = ""
        return text

    def _show(self, piece):
        text = self.held + piece
        found = [text.index(stop) for stop in self.stops if stop in text]
        if found:
            self.stopped, self.held = True, ""
            return text[: min(found)]
        prefixes = [stop[:n] for stop in self.stops for n in range(1, len(stop))]
        n_held = max((len(prefix) for prefix in prefixes if text.endswith(prefix)), default=0)
        self.held = text[len(text) - n_held :]
        return text[: len(text) - n_held]


class Row:
    """One prompt on its way: the ids made so far, their text, when, and why it ended.

    `start` is what the loop begins with: the prompt's ids, or an encoder-decoder's start token.
    """

    def __init__(self, session, prompt, prompt_ids, start, seed):
        self.prompt, self.prompt_ids, self.start, self.seed = prompt, prompt_ids, start, seed
        self.stop_ids, self.tokens = session.model.stop_ids, session.options["tokens"]
        self.stream = TextStream(session.encoder.stream(), session.args.stop)
        self.room = session.model.n_ctx - len(start)
        self.ids, self.text, self.times, self.extra = [], "", [], {}
        self.stop_reason = None if self.room > 0 else "context"
        self.started = time.perf_counter()

    def feed(self, token):
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
    def seconds_to_first_token(self):
        return self.times[0] - self.started if self.times else None

    @property
    def tokens_per_second(self):
        """Tokens after the first, over the time from first to last; None where there is none
        after it, or where all came at once, as beams do."""
        if len(self.times) < 2 or "beams" in self.extra:
            return None
        return (len(self.times) - 1) / max(self.times[-1] - self.times[0], 1e-9)


class Session:
    """A loaded model and the options that generate with it. `args` is an argparse.Namespace, as
    cli.parser() makes it, where None means not given."""

    def __init__(self, args):
        self.encoder, self.model = utils.load(args.model or DEFAULTS["model"], args.models_dir)
        if args.source_lang or args.target_lang:
            self.model = self.between(args.source_lang, args.target_lang)
        self.drafts = {}  # name -> a drafting model, loaded at its first use
        self.keeps_store, self.store = False, None  # the n-gram store, kept between prompts or not
        self.use(args)

    def between(self, source, target):
        """The model for a source in one language and an answer in another, by their codes."""
        codes = getattr(self.encoder, "languages", {})
        if not codes:
            raise UserError("--source-lang and --target-lang are for mBART, not this model")
        for code in filter(None, (source, target)):
            if code not in codes:
                raise UserError(f"no language {code!r}, the model knows {', '.join(sorted(codes))}")
        return self.model.between(codes[source or "en_XX"], codes.get(target))

    def use(self, args):
        """Set the options: those of the command line over the checkpoint's over the defaults."""
        own = [load_function(args.sampler)] if args.sampler is not None else []
        self.args, self.own = args, own  # not before: the file may be no good
        self.options = self.settle()
        seed = self.options.get("seed")
        self.seed = secrets.randbits(32) if seed is None else seed

    def settle(self, method=None):
        """The options in force: `method`, if named, over the command line's over the checkpoint's
        over the defaults. Greedy where nothing asks for sampling, and for beam search."""
        suggested = suggestions(self.model.defaults)
        given = {name: v for name, v in vars(self.args).items() if v is not None}
        if suggested.get("beams", 1) > 1 and not given.keys() & set(SAMPLING):
            suggested["method"] = "beam"  # the checkpoint was tuned for it
        options = {**DEFAULTS, **suggested, **given}
        options["method"] = method or options["method"]
        sampled = self.own or any(options.get(name) is not None for name in SAMPLING)
        if options["method"] == "beam" or not sampled:
            options |= dict.fromkeys(SAMPLING) | {"temperature": 0}
        return options

    @property
    def sampled(self):
        return self.options.get("temperature") != 0

    @property
    def has_source(self):
        """Is it an encoder-decoder, whose prompt is a source to read, not a text to go on with?"""
        return hasattr(self.model, "condition")

    def row(self, prompt, number=0):
        """Encode one prompt. UserError if it does not fit the context."""
        if self.has_source:
            ids, room = self.model.wrap(self.encoder.encode(prompt), self.args.truncate), "n_source"
            start = self.model.start_ids
        else:
            if not prompt and self.encoder.end_of_text is None:
                raise UserError("an empty prompt: this model has no end-of-text to start from")
            ids, room = self.encoder.encode(prompt) or [self.encoder.end_of_text], "n_ctx"
            start = ids
        room = getattr(self.model, room)
        if len(ids) > room:
            cut = "; --truncate cuts it" if self.has_source else ""
            raise UserError(f"the prompt has {len(ids)} tokens, the model takes {room}{cut}")
        return Row(self, prompt, ids, start, self.seed + number)

    def opening(self, row):
        """What stands before the new text when it is printed: the prompt that it continues."""
        return "" if self.has_source else row.prompt

    def text(self, ids):
        """The text of new ids, without a stop id, up to a stop text."""
        stream = TextStream(self.encoder.stream(), self.args.stop)
        text = ""
        for token in ids:
            if token not in self.model.stop_ids and not stream.stopped:
                text += stream.feed(token)
        return text if stream.stopped else text + stream.finish()

    def sampler(self, row):
        """The options' filters in their usual order, between no stop before the minimum length and
        what an encoder-decoder's checkpoint forces."""
        settings = {name: self.options.get(name) for name in samplers.USUAL_ORDER}
        least, forced = self.options["min_length"], []
        first = [samplers.min_length(len(row.start) + least, row.stop_ids)] if least else []
        if self.has_source:
            forced = self.model.filters(min(row.tokens, row.room))
        return samplers.usual(first, [*self.own, *forced], **settings)

    def drafter(self, row, sampler):
        """What proposes tokens for one row; those that copy may copy from a source too."""
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
        draft = self.draft_model(self.options.get("draft"))
        draft = draft.condition([row.prompt_ids]) if self.has_source else draft
        return speculative.DraftModel(draft, sampler, np.random.default_rng([row.seed, 1]))

    def draft_model(self, name):
        """A model that drafts for this one. UserError if it can't."""
        if not name:
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        if name not in self.drafts:
            self.drafts[name] = utils.load(name, self.args.models_dir)[1]
        draft = self.drafts[name]
        if hasattr(draft, "condition") != self.has_source:
            raise UserError("an encoder-decoder can only draft for one, and GPT-2 for GPT-2")
        if draft.n_vocab != self.model.n_vocab:
            raise UserError(
                f"the draft model has {draft.n_vocab} tokens, the model {self.model.n_vocab}:"
                " they must share one vocabulary"
            )
        return draft

    def model_for(self, rows):
        """The model; an encoder-decoder is conditioned on the rows' prompts, its sources."""
        if self.has_source:
            return self.model.condition([row.prompt_ids for row in rows])
        return self.model

    def score(self, prompt, target=None):
        """score.score of a prompt, or of a target, which an encoder-decoder might answer to it."""
        if self.has_source != (target is not None):
            needs = "needs" if self.has_source else "has no use for"
            raise UserError(f"--score {needs} --target TEXT, what an encoder-decoder might answer")
        if not self.has_source:
            return score.score(self.encoder, self.model, prompt)
        return score.score(self.encoder, self.model_for([self.row(prompt)]), target)

    def generate(self, rows, wrap=lambda row, sampler: sampler, watch=None):
        """Run rows by the chosen method; yields a row each time that it has a new token, and None
        when one that runs by itself is complete, its statistics too. `wrap` and `watch` let an
        onlooker see each distribution and each round of speculation."""
        method = self.options["method"]
        if method in ("naive", "cached"):
            yield from self.follow(getattr(generate, method), rows, wrap)
            return
        for row in rows:  # these go one by one
            loop = self.speculation(row, watch) if method in DRAFTING else None
            row.started = time.perf_counter()
            if loop:
                yield from self.follow(loop, [row], wrap)
            else:
                self.search(row)
                yield row
            yield None

    def follow(self, loop, rows, wrap):
        """Feed what a loop yields to the rows, which say when they are done."""
        chosen = [wrap(row, self.sampler(row)) for row in rows]
        rngs = [np.random.default_rng(row.seed) for row in rows]
        prompts = [row.start for row in rows]

        def done(i, ids):
            return rows[i].stop_reason is not None

        for i, token in loop(self.model_for(rows), prompts, chosen, rngs, done):
            rows[i].feed(token)
            yield rows[i]

    def speculation(self, row, watch=None):
        """The speculative loop for one row; its statistics go to row.extra."""
        statistics = row.extra["speculation"] = speculative.Statistics()

        def see(_, drafts, tokens):
            statistics.record(row, drafts, tokens)
            if watch:
                watch(row, drafts, tokens)

        drafters, gamma = [self.drafter(row, self.sampler(row))], self.options["gamma"]
        return functools.partial(
            speculative.speculative, drafters=drafters, gamma=gamma, watch=see
        )

    def search(self, row, trace=None):
        """Beam search; the best hypothesis becomes the row's text, all are kept in row.extra."""
        o, room = self.options, min(row.tokens, row.room)
        found = room and beam.beam_search(
            self.model_for([row]), row.start, room, o["beams"], o["length_penalty"],
            o["early_stopping"], o["n_return"], self.sampler(row).filters, trace,
        )  # fmt: skip
        row.extra["beams"] = found or []
        for token in found[0].ids if found else []:
            if row.stop_reason is None:
                row.feed(token)


def suggestions(defaults):
    """What a checkpoint's generation_config.json asks for, by our names. Its sampling options count
    if it says do_sample. UserError for a value that makes no sense."""
    found = {ours: defaults[name] for name, ours in SUGGESTIONS.items()
             if defaults.get(name) is not None}  # fmt: skip
    for name, (kind, low, high) in RANGES.items():
        value = found.get(name, low)
        right = type(value) is int or (type(value) is float and kind is float)
        if not right or not low <= value <= high:
            raise UserError(f"the model's generation_config.json says {name} = {value!r}")
    if defaults.get("do_sample") is True:
        return {"temperature": 1.0} | found
    return {name: value for name, value in found.items() if name not in SAMPLING}


def load_function(where):
    """FILE:FUNCTION -> the function. UserError if there is none."""
    file, _, name = where.rpartition(":")
    if not Path(file).is_file() or not file.endswith(".py"):
        raise UserError(f"--sampler {where}: no Python file {file!r}; the form is FILE:FUNCTION")
    spec = importlib.util.spec_from_file_location("own_sampler", file)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise UserError(f"--sampler {where}: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, name, None)):
        raise UserError(f"--sampler {where}: {file} has no function {name!r}")
    return checked(getattr(module, name), where)


def checked(function, where):
    """The user's filter, with its mistakes told in one line."""

    def own(logits, ids):
        try:
            result = np.asarray(function(logits.copy(), list(ids)), np.float32)
        except Exception as error:
            raise UserError(f"--sampler {where}: {type(error).__name__}: {error}") from error
        if result.shape != logits.shape:
            raise UserError(
                f"--sampler {where} must return logits {list(logits.shape)},"
                f" not {list(result.shape)}"
            )
        return result

    return own
