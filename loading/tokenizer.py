"""Reads a tokenizer: GPT-2's files with encoder.py, others with the library `tokenizers`."""

import contextlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import encoder
from loading.config import read_json
from loading.errors import UserError, again, explained

DECODERS = "Sequence", "ByteLevel", "Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")  # a token for one byte of a rare character
WRITE = "transformers writes it: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
PREFIXED = "gpt2", "bart", "GPT2Tokenizer", "BartTokenizer", "RobertaTokenizer"
# What encoder.py's added tokens are; PLAIN <= token.items() if a token is one of them.
PLAIN = dict(special=True, lstrip=False, rstrip=False, single_word=False).items()
# Settings of byte-pair encoding that encoder.py does not have.
CHANGES = "dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"
MARKS = re.compile("<s>|<pad>|</s>|[a-z]{2}_[A-Z]{2}")  # tokens around a text; en_XX is English


def read_tokenizer(folder: Path, model_type: str) -> Any:
    """Return the tokenizer of a model of this type. Its `encode` adds the marks of tokenizer.json,
    such as BOS, but none that would end a text. UserError if files are missing or damaged."""
    settings = read_json(folder / "tokenizer_config.json", optional=True)
    if (path := folder / "tokenizer.json").is_file():
        if model_type == "gpt2" and (tokenizer := read_gpt2_json(folder)):
            return tokenizer
        return read_library(path, settings, model_type)
    # Other tokenizers also have vocab.json and merges.txt, but cut texts in a different way.
    is_gpt2 = model_type == "gpt2" or settings.get("tokenizer_class") == "GPT2Tokenizer"
    if is_gpt2 and all((folder / name).is_file() for name in ("vocab.json", "merges.txt")):
        return read_gpt2_tokenizer(folder)
    raise UserError(f"{folder} has no tokenizer.json; {WRITE}")


def read_library(path: Path, settings: dict, model_type: str) -> "LibraryTokenizer":
    """Read tokenizer.json with the library, and apply tokenizer_config.json's `settings`."""
    import tokenizers  # only here, because GPT-2's two files do not need it

    with explained(f"{path} is damaged", again(path), (BaseException,)):
        library = tokenizers.Tokenizer.from_file(str(path))
        library.no_truncation()
        library.no_padding()
        any_text = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")).encode("a")
        whole = library.post_process(any_text)  # marks such as BOS, the text, and </s>
    if "add_prefix_space" in settings and hasattr(library.pre_tokenizer, "add_prefix_space"):
        if (settings.get("tokenizer_class") or model_type) in PREFIXED:  # as in transformers 5
            library.pre_tokenizer.add_prefix_space = settings["add_prefix_space"]
    listed = settings.get("added_tokens_decoder") or {}
    for id in sorted(listed, key=int):
        library.add_tokens([tokenizers.AddedToken(**listed[id])])
        if library.token_to_id(text := listed[id]["content"]) != int(id):
            raise ValueError(f"the added token {text!r:.50} cannot have the id {id}")
    place, reads = whole.special_tokens_mask.index(0), model_type in ("t5", "bart", "mbart")
    return LibraryTokenizer(library, whole.ids[:place], whole.ids[place + 1 :] * reads)


def read_gpt2_json(folder: Path) -> encoder.Tokenizer | None:
    """Return encoder.py's tokenizer if it does all that tokenizer.json says, else None."""
    with contextlib.suppress(Exception):  # the library reads what encoder.py refuses
        file = read_json(folder / "tokenizer.json")
        model, cuts, added = file["model"], file["pre_tokenizer"], file["added_tokens"]
        pairs = [x.split(" ") if isinstance(x, str) else x for x in model["merges"]]
        special = {token["content"]: token["id"] for token in added}
        merges = [(left, right) for left, right in pairs]
        tokenizer = with_added(folder, model["vocab"] | special, merges)
        steps = cuts, file["decoder"], file["post_processor"] or cuts
        asks = file["normalizer"], cuts["add_prefix_space"], *map(model.get, CHANGES)
        asks += not cuts.get("use_regex", True), special.keys() != tokenizer.special.keys()
        asks += *map(MARKS.fullmatch, special), *(not PLAIN <= token.items() for token in added)
        if {step["type"] for step in steps} == {"ByteLevel"} and not any(asks):
            return tokenizer
    return None


def read_decoder(decoder: Any) -> set[str]:
    """Return the kinds of a decoder's steps, such as {"ByteLevel"}. UserError for other kinds."""
    steps = [json.loads(decoder.__getstate__())] if decoder else []  # as in tokenizer.json
    for step in steps:
        if step["type"] not in DECODERS or (step.get("start", 1), step.get("stop", 0)) != (1, 0):
            raise UserError(f"decoder {step!s:.80} in tokenizer.json is unknown; use another model")
        steps += step.get("decoders", [])  # a Sequence has steps of its own
    return {step["type"] for step in steps} - {"Sequence", "Fuse"}


def read_gpt2_tokenizer(folder: Path) -> encoder.Tokenizer:
    """Return a tokenizer from vocab.json, merges.txt and the tokens that other files add."""
    lines = (folder / "merges.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    merges: list = [(*line.split(" "),) for line in lines[lines[0].startswith("#version") :]]
    if wrong := [pair for pair in merges if len(pair) != 2]:
        raise ValueError(f"merges.txt is damaged: {wrong[0]!r} is not a pair of symbols")
    return with_added(folder, read_json(folder / "vocab.json"), merges)


def with_added(folder: Path, vocab: dict, merges: list) -> encoder.Tokenizer:
    """Return a tokenizer with the tokens that a folder's other files add."""
    settings = read_json(folder / "tokenizer_config.json", optional=True)
    listed = settings.get("added_tokens_decoder") or {}
    needs = [key for key in ("add_prefix_space", "add_bos_token") if settings.get(key)]
    needs += [token["content"] for token in listed.values() if not PLAIN <= token.items()]
    if needs:
        raise UserError(f"{folder}: {needs[0]!r:.50} needs tokenizer.json; {WRITE}")
    added = read_json(folder / "added_tokens.json", optional=True)
    added |= {token["content"]: int(id) for id, token in listed.items()}
    tokenizer = encoder.Tokenizer(vocab | added, merges)
    if unmade := [token for token in tokenizer.special.keys() - added if "\u0120" in token]:
        raise ValueError(f"merges.txt is damaged: no merge makes {unmade[0]!r}")
    return tokenizer


class LibraryTokenizer:
    """The interface of encoder.Tokenizer for the library `tokenizers`. tokens: id -> token, as in
    the file; start, end: the ids before and after each text, such as BOS. Only the sources of an
    encoder-decoder have an `end`. `start` and MARKS decode to no text."""

    def __init__(self, library: Any, start: list[int], end: list[int]):
        self.library, self.start, self.end = library, start, end
        self.n_vocab = library.get_vocab_size()
        self.tokens = [library.id_to_token(id) for id in range(self.n_vocab)]
        if None in self.tokens:
            raise ValueError(f"the {self.n_vocab} ids are not 0 to {self.n_vocab - 1}")
        self._added = library.get_added_tokens_decoder()
        self.special = {token.content: id for id, token in self._added.items() if token.special}
        self.end_of_text = self.special.get("<|endoftext|>")
        self.silent = {*start, *(id for text, id in self.special.items() if MARKS.fullmatch(text))}
        self._decoder = read_decoder(library.decoder)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Return a text's ids, from `start` to `end`. Special tokens in it count as plain text
        unless `special`. In a source they are special; T5's and mBART's are always special."""
        return [*self.start, *self.plain_ids(text, special or bool(self.end)), *self.end]

    def plain_ids(self, text: str, special: bool = False) -> list[int]:
        """Return the ids of a text that continues another: without `start` and `end`."""
        self.library.encode_special_tokens = not special
        with explained("tokenizer.json cannot encode it", "try another text", (BaseException,)):
            return self.library.encode(encoder.as_unicode(text), add_special_tokens=False).ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the ids' text. It is a whole text, which loses the space that `encode` added, or
        a continuation if there is a `start` but not first. Raises ValueError for an unknown id."""
        ids = list(ids)
        if self._decoder == {"ByteLevel"}:
            return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")
        texts = [id for id in ids if self._token(id) and id not in self.silent]
        is_whole = self.end or ids[:1] == self.start[:1]
        return self._after([] if is_whole else self.start[:1], texts)

    def stream(self) -> "Stream":
        """Return a new Stream, which decodes ids one by one."""
        return Stream(self)

    def token_bytes(self, id: int) -> bytes:
        """Return a token's bytes inside a text, perhaps a part of a character. A mark has none."""
        token = self._token(id)
        if id in self.silent:
            return b""
        if "ByteLevel" in self._decoder:
            found = [encoder.CHAR_TO_BYTE.get(char, -1) for char in token]
            return token.encode() if id in self._added or -1 in found else bytes(found)
        text = self._after([id], [id])
        byte = "\ufffd" in text and BYTE_PIECE.fullmatch(token)
        return bytes.fromhex(byte[1]) if byte else text.encode()

    def _after(self, ids, more):  # return the text that `more` adds to the text of `ids`
        n_known = len(self.library.decode(ids, skip_special_tokens=False))
        return self.library.decode([*ids, *more], skip_special_tokens=False)[n_known:]

    def _token(self, id):
        if not 0 <= id < self.n_vocab:
            raise ValueError(f"no token {id} in a vocabulary of {self.n_vocab} tokens")
        return self.tokens[id]


class Stream:
    """Decodes ids one by one. The returned texts, joined, equal decode(all ids). Each token is
    decoded together with the token before it, which settles the space between them. Tokens of one
    byte wait for a token of a different kind, because only then are their characters certain."""

    def __init__(self, tokenizer: LibraryTokenizer):
        self._tokenizer, self._ids, self._shown = tokenizer, list[int](), ""

    def feed(self, id: int) -> str:
        """Return the text that this id makes certain, which is "" in the middle of a character."""
        self._ids.append(id)
        is_byte = BYTE_PIECE.fullmatch(self._tokenizer._token(id))
        if is_byte or id in self._tokenizer.silent or (whole := self.finish()).endswith("\ufffd"):
            return ""
        self._ids, self._shown = [id], self._tokenizer.decode([id])
        return whole

    def finish(self) -> str:
        """Return the text that is left. A character that was never completed becomes U+FFFD."""
        return self._tokenizer.decode(self._ids).removeprefix(self._shown)
