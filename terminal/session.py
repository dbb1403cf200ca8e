"""A session: a loaded model, the settings to generate with, and the rows that are generated.

The command line, the interactive prompt and all views work through this.
"""

import copy
import secrets
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import samplers
import utils
from decoding.batching import continuous
from decoding.beam import beam_search
from decoding.drafters import DraftModel, Measured, NGramStore, PromptLookup, common_prefix
from decoding.score import score, score_ids
from encoder import as_unicode
from generate import Ids, Sequence, begin, cached, naive
from loading import few_rows
from loading.errors import UserError
from loading.parameters import n_parameters
from speculative import speculative
from terminal.chat import Conversation
from terminal.options import DRAFTING, Usage, misplaced, resolve
from terminal.plugin import Part
from terminal.row import Row, until_stop

SMALL = 2**24  # parameters; in a smaller model a second thread costs more than it brings
N_CORES: list[int] = []  # only the first number counts; later ones were asked for


class Session:
    """A loaded model and the settings that generate with it. given: as options.parse returns it."""

    def __init__(self, given: dict):
        name = given.get("model", "stories")
        own = Part("model", name) if ".py:" in name else None
        self.tokenizer, self.model = own.make() if own else utils.load(name)
        self.reads = hasattr(self.model, "read")  # an encoder-decoder: a prompt is a source
        if given.keys() & {"source_lang", "target_lang"}:
            self.choose_languages(given.get("source_lang", "en_XX"), given.get("target_lang"))
        self.config = getattr(self.model, "generation_config", {})
        limit_threads(given.get("threads"), n_parameters(getattr(self.model, "params", [])))
        self.drafts: dict[str, Any] = {}  # name -> a draft model, once it is loaded
        self.use(given)
        self.begin_conversation()
        self.offered = {"tokenizer": self.tokenizer, "model": self.model}  # to the user's parts

    def choose_languages(self, *codes: str | None) -> None:
        """Set the languages of the source and of the answer."""
        ids = [code and self.tokenizer.special.get(code) for code in codes]
        if not hasattr(self.model, "for_languages") or any(c and not i for c, i in zip(codes, ids)):
            raise UserError(f"this model has no languages {' and '.join(filter(None, codes))}")
        self.model = self.model.for_languages(*ids)

    def use(self, given: dict) -> None:
        """Replace the options. Nothing changes if one of their files cannot be used."""
        settings = resolve(given, self.config)
        message = misplaced(given, settings["method"])
        if message and "compare" not in given:
            raise Usage(message)
        filters = [Part("filter", where) for where in settings["filter"]]
        self.own = {name: Part(name, given[name]) for name in ("loop", "drafter") if name in given}
        self.filters, self.given, self.settings = filters, given, settings
        self.new_seed()

    def new_seed(self) -> None:
        """Set the seed: the settings' own, or a different one each time if they have none."""
        seed = self.settings["seed"]
        self.seed = secrets.randbits(32) if seed is None else seed

    @property
    def sampled(self) -> bool:
        return self.settings["temperature"] != 0

    def begin_conversation(self) -> None:
        """Forget the turns so far. With --chat, each prompt is a turn from now on."""
        self.chat: Any = None
        self.cache: Any = None
        self.cached_ids: Ids = []
        if self.settings["chat"]:
            if self.reads or ".py:" in self.settings["model"]:
                raise UserError("--chat needs a decoder with a chat template")
            folder = utils.find(self.settings["model"])
            self.chat = Conversation(self.tokenizer, folder, self.settings["system"])
            self.model = copy.copy(self.model)
            self.model.stop_ids = tuple({*self.model.stop_ids, *self.chat.stop_ids})

    def kept_cache(self, sequence: Sequence) -> Any:
        """Return the conversation's cache, cut to the ids that it shares; None without --chat."""
        if self.chat:
            self.cache = self.cache or self.model.new_cache()
            self.cache.cut(common_prefix(self.cached_ids, sequence.ids))
            self.cached_ids = sequence.ids
        return self.cache

    def answered(self, row: Row) -> None:
        """Keep a row as two turns, if the model has begun to answer."""
        if self.chat and row.sequence.new_ids:
            self.chat.add("user", row.prompt)
            self.chat.add("assistant", row.text)

    def row(self, prompt: str, number: int = 0) -> Row:
        """Make the row of a prompt; its seed is the session's + number."""
        prompt = as_unicode(prompt)
        ids, stream = self.encode(prompt), self.tokenizer.stream()
        opening = "" if self.reads or self.chat else prompt
        return Row(prompt, ids, opening, self.seed + number, stream)

    def encode(self, prompt: str) -> Ids:
        """Return the ids of a prompt. In a source, <mask>, <extra_id_0> and </s> are tokens."""
        model, n_most, remedy = self.model, self.model.n_ctx, "shorten it"
        if self.reads:
            ids, n_most = self.tokenizer.encode(prompt, special=True), model.n_source
            ids, remedy = model.add_special_tokens(ids, self.settings["truncate"]), "or --truncate"
        elif self.chat:
            ids, remedy = self.chat.ask(prompt), "/reset begins another conversation"
        else:
            end = self.tokenizer.end_of_text
            ids = self.tokenizer.encode(prompt) or [end] * (end is not None)
        if len(ids) > n_most:
            raise UserError(f"{len(ids)} tokens, the model takes {n_most}: {remedy}")
        return ids

    def start(self, row: Row, before: Row | None = None) -> Sequence:
        """Begin the sequence of a row. If the row before has the same prompt, reuse its reading."""
        row.started = time.perf_counter()
        if before and before.prompt_ids == row.prompt_ids:
            model, ids = before.sequence.model, before.sequence.ids[: before.sequence.n_prompt]
        else:
            model, ids = begin(self.model, row.prompt_ids)
        n, least, n_ids = self.settings["tokens"], self.settings["min_length"], len(ids)
        n = max(1, self.config["max_length"] - n_ids) if n is None else n
        least = max(0, self.config["min_length"] - n_ids) if least is None else least
        row.sequence = Sequence(model, ids, n, seed=row.seed)
        first = [samplers.min_length(n_ids + least, model.stop_ids)]
        last = [own.make(**self.offered, n_prompt=n_ids) for own in self.filters]
        if self.reads:  # what the checkpoint forces comes after all others
            last += model.forced_filters(row.sequence.n_left)
        chosen = {name: self.settings[name] for name in samplers.FILTERS}
        row.sequence.sampler = samplers.make_sampler(first, last, **chosen)
        return row.sequence

    def text(self, ids: Ids) -> str:
        """Decode new ids without a stop id, up to a stop text."""
        text = self.tokenizer.decode([token for token in ids if token not in self.model.stop_ids])
        return until_stop(text, self.settings["stop"], more=False)[0]

    def generate(self, rows: list[Row]) -> Iterator[Row]:
        """Run rows by the chosen method; yield a row for each new token."""
        method, pairs = self.settings["method"], zip(rows, [None, *rows])
        if method == "speculative" and "drafter" not in self.own:
            self.draft_model()  # loaded before the first row's clock starts
        if method == "cached" and len(rows) > 1 and "loop" not in self.own:
            arriving = (self.start(row, before) for row, before in pairs)
            for sequence, token in continuous(arriving, self.settings["max_rows"]):
                row = next(row for row in rows if row.sequence is sequence)
                row.feed(token, self.settings["stop"])
                yield row
            return
        for row, before in pairs:
            sequence = row.sequence or self.start(row, before)
            for token in self.loop(row):
                if len(sequence.new_ids) <= len(row.times):
                    raise UserError("--loop: append a token first: yield sequence.append(token)")
                row.feed(token, self.settings["stop"])
                yield row

    def loop(self, row: Row) -> Iterator[int]:
        """Lengthen a row by the chosen method; yield its tokens."""
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
        return cached(model, sequence, self.kept_cache(sequence))

    def search(self, row: Row) -> Iterator[int]:
        """Search beams; the best hypothesis becomes the text, row.beams holds all."""
        s, sequence = self.settings, row.sequence
        if sequence.running:
            how = s["beams"], s["length_penalty"], s["early_stopping"], s["return"]
            more = sequence.sampler.filters, row.steps
            row.beams = beam_search(sequence.model, sequence.ids, sequence.n_left, *how, *more)
            for token in row.beams[0].ids:
                if sequence.running:
                    yield sequence.append(token)

    def new_drafter(self, row: Row) -> Any:
        """Make the drafter of one row's tokens; n-grams and lookup copy from a source, too."""
        method, n_vocab, n = self.settings["method"], self.model.n_vocab, self.settings["ngram"]
        source = row.prompt_ids if self.reads else []
        if method == "ngram":
            return NGramStore(n_vocab, n, self.settings["filler_top_k"], source)
        if method == "lookup":
            return PromptLookup(n_vocab, n, source)
        if "drafter" in self.own:
            return self.own["drafter"].make(**self.offered, sequence=row.sequence)
        draft = self.draft_model()
        if hasattr(draft, "read"):  # it drafts by as much of the source as it can read
            draft = draft.read(source[: draft.n_source])
        return DraftModel(draft, row.sequence.sampler, np.random.default_rng([row.seed, 1]))

    def draft_model(self) -> Any:
        """Return the model that drafts for this one. It is downloaded only if the user has named
        it."""
        name = self.settings["draft"]
        if not name:
            raise UserError("--method speculative needs --draft MODEL, a smaller model")
        if name not in self.drafts:
            self.drafts[name] = utils.load(name, fetch="draft" in self.given)[1]
        draft, n_vocab = self.drafts[name], self.model.n_vocab
        if draft.n_vocab != n_vocab:
            sizes = f"the draft model has {draft.n_vocab} tokens, the model {n_vocab}"
            raise UserError(f"{sizes}: they must share one vocabulary")
        return draft

    def score(self, text: str, target: str | None = None) -> dict:
        """Score a text, or an encoder-decoder's answer: target, or the text after " => "."""
        if not self.reads and target is None:
            return score(self.tokenizer, self.model, text)
        if target is None:
            text, _, target = text.partition(" => ")
        if not self.reads or not target:
            raise UserError("an encoder-decoder, and nothing else, needs --target, its answer")
        model: Any = begin(self.model, self.encode(text))[0]
        return score(self.tokenizer, model, target, model.prefix)

    def score_row(self, row: Row) -> dict:
        """Score the ids of a row's text as they are. An answer is scored given its prompt."""
        ids, end = row.sequence.ids, self.tokenizer.end_of_text
        n = row.sequence.n_prompt if self.reads or self.chat else len(self.tokenizer.encode(""))
        n = n or int(end is None or ids[0] == end)
        n_bytes = len(self.tokenizer.decode(ids[n:]).encode())
        return score_ids(row.sequence.model, ids[:n] or [end], ids[n:], n_bytes)


def limit_threads(wanted: int | None, n_parameters: int) -> None:
    """Set the number of threads: the wanted number, or a number that suits the model."""
    try:
        import threadpoolctl
    except ModuleNotFoundError:  # then NumPy keeps its own number of threads
        if wanted:
            raise
        return
    pools = threadpoolctl.threadpool_info()
    N_CORES.append(max((pool["num_threads"] for pool in pools), default=1))
    few_rows.n_threads = wanted or (1 if n_parameters < SMALL else N_CORES[0])
    threadpoolctl.threadpool_limits(few_rows.n_threads)
