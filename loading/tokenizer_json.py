"""tokenizer.json, the file of Hugging Face's library `tokenizers` -> a tokenizer.

The file describes a pipeline: a normaliser, a pre-tokenizer (which cuts words), a model (BPE), a
post-processor (which adds BOS) and a decoder. Anything in it that is not known here is refused by
its name, since ids that are nearly right would go unnoticed. The format is documented at
https://huggingface.co/docs/tokenizers; the library itself (0.23) is the reference of the tests.
"""

import contextlib
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import regex  # type: ignore[import-untyped]

from encoder import BYTE_TO_CHAR, PATTERN, Added, Tokenizer, by_patterns
from loading.config import read_json
from loading.errors import UserError, explained
from loading.pieces import SPACE, PieceTokenizer

ANY, FLAG = None, [True, False]
KNOWN: dict = {  # a place in the file -> the types that it may have -> their entries and values
    "normalizer": {
        "NFC": {},
        "Prepend": {"prepend": [SPACE]},
        "Replace": {"pattern": [{"String": " "}], "content": [SPACE]},
    },
    "pre_tokenizer": {
        "ByteLevel": {"add_prefix_space": [False], "trim_offsets": ANY, "use_regex": FLAG},
        "Digits": {"individual_digits": [True]},
        "Metaspace": {"replacement": [SPACE], "prepend_scheme": ["always", "first", "never"],
                      "split": [False]},
        "Split": {"pattern": ANY, "behavior": ANY, "invert": FLAG},
    },
    "model": {
        "BPE": {"vocab": ANY, "merges": ANY, "unk_token": ANY, "fuse_unk": ANY,
                "dropout": [None, 0], "continuing_subword_prefix": [None, ""],
                "end_of_word_suffix": [None, ""], "byte_fallback": FLAG, "ignore_merges": FLAG},
    },
    "post_processor": {
        "ByteLevel": {"add_prefix_space": ANY, "trim_offsets": ANY, "use_regex": ANY},
        "TemplateProcessing": {"single": ANY, "pair": ANY, "special_tokens": ANY},
    },
    "decoder": {
        "ByteLevel": {"add_prefix_space": ANY, "trim_offsets": ANY, "use_regex": ANY},
        "Replace": {"pattern": [{"String": SPACE}], "content": [" "]},
        "ByteFallback": {},
        "Fuse": {},
        "Strip": {"content": [" "], "start": [1], "stop": [0]},
    },
}  # fmt: skip
SEQUENCES = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers",
             "post_processor": "processors", "decoder": "decoders"}  # fmt: skip
SPLITS: dict = {  # (behavior, invert) of a Split by a pattern -> the pattern that finds its words
    ("Isolated", False): r"{0}|(?s:.+?)(?={0}|\Z)",
    ("Removed", True): r"{0}",
    ("MergedWithPrevious", False): r"(?s:.*?){0}|(?s:.+)",
}


def read_tokenizer_json(path: Path, bos: bool = True) -> Tokenizer:
    """The tokenizer of a file. bos=False: without the ids that the post-processor adds. UserError
    for a damaged file, and for one that asks for what is not known here."""
    file = read_json(path)
    malformed = AttributeError, KeyError, RecursionError, TypeError, ValueError
    with explained(f"{path} is damaged", "fetch or save it again", malformed):
        return build(file, bos)


def build(file: dict, bos: bool) -> Tokenizer:
    """The parsed file -> tokenizer. Errors of several kinds where it is malformed."""
    [model] = parts(file["model"], "model")
    added = [read_added(token) for token in file.get("added_tokens") or []]
    check_added(added, model["vocab"])
    cutters = list(parts(file.get("pre_tokenizer"), "pre_tokenizer"))
    decoders = {part["type"] for part in parts(file.get("decoder"), "decoder")}
    start = read_start(file) if bos else []
    vocab, normalize = model["vocab"], read_normalizer(file)
    if changed := [a.text for a in added if a.normalized and normalize(a.text) != a.text]:
        raise UserError(f"tokenizer.json: its normalizer changes the token {changed[0]!r:.50}")
    settings = {
        "vocab": vocab, "merges": read_merges(model["merges"]), "added": added,
        "normalize": normalize, "start": start,
        "ignore_merges": model.get("ignore_merges") is True,
    }  # fmt: skip
    if decoders == {"ByteLevel"}:
        if model.get("unk_token") and not vocab.keys() >= {*BYTE_TO_CHAR.values()}:
            raise UserError("tokenizer.json: bytes are unk_token, which is not known here")
        return Tokenizer(words=read_words(cutters), **settings)
    if model.get("byte_fallback") and "ByteLevel" not in decoders:
        words = piece_words(cutters, vocab)
        return PieceTokenizer(words=words, strips="Strip" in decoders, **settings)
    raise UserError("tokenizer.json: its model has neither bytes as symbols nor byte_fallback")


def parts(part: dict | None, place: str) -> Iterator[dict]:
    """The parts of a place in the file: none, one, or those of a sequence. UserError for one that
    is not known."""
    if part is None:
        return
    kind = part.get("type", "BPE" if place == "model" else None)  # GPT-2's old file has no type
    if kind == "Sequence" and place in SEQUENCES:
        for inner in part[SEQUENCES[place]]:
            yield from parts(inner, place)
        return
    if kind not in KNOWN[place]:
        names = ", ".join(KNOWN[place])
        raise UserError(f"tokenizer.json: its {place} is {kind!r:.50}, known are {names}")
    known = KNOWN[place][kind] | {"type": ANY}
    for key, value in part.items():
        if key not in known or (known[key] is not ANY and value not in known[key]):
            what = f"{place} {kind} has {key} = {value!r:.50}"
            raise UserError(f"tokenizer.json: its {what}, which is not known here")
    yield part


def read_added(token: dict) -> Added:
    """An entry of added_tokens. UserError for one that must be a whole word."""
    if token.get("single_word"):
        raise UserError(f"tokenizer.json: {token['content']!r:.50} is single_word, not known here")
    flags = {name: token.get(name, False) for name in Added._fields[2:]}
    if {*map(type, flags.values())} != {bool}:
        raise ValueError(f"the flags of the token {token['content']!r:.50} are {flags!r:.200}")
    return Added(token["content"], token["id"], **flags)


def check_added(added: list[Added], vocab: dict) -> None:
    """ValueError unless the ids are those that the library gives: the vocabulary's, or else the
    next ones, in turn. It passes over the file's own."""
    ids = dict(vocab)
    for token in added:
        if token.id != ids.setdefault(token.text, len(ids)):
            right = ids[token.text]
            raise ValueError(f"the token {token.text!r:.50} is {token.id!r:.20}, not {right!r:.20}")
    if len({token.text for token in added}) < len(added):
        raise ValueError("an added token occurs twice")


def read_merges(merges: list) -> list[tuple[str, str]]:
    """Each "left right" or [left, right] -> pairs. ValueError for anything else."""
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    return [(left, right) for left, right in pairs]


def read_normalizer(file: dict) -> Callable[[str], str]:
    """The normalisers, one after the other, as a function of the text between added tokens."""
    steps: dict[str, Callable[[str], str]] = {
        "NFC": lambda text: unicodedata.normalize("NFC", text),
        "Prepend": lambda text: SPACE + text if text else "",
        "Replace": lambda text: text.replace(" ", SPACE),
    }
    chosen = [steps[part["type"]] for part in parts(file.get("normalizer"), "normalizer")]

    def normalize(text):  # str -> str
        for step in chosen:
            text = step(text)
        return text

    return normalize


def read_words(cutters: list[dict]) -> Callable[[str, bool], list[str]]:
    """The pre-tokenizers of a byte-level BPE -> the function that cuts words."""
    if not cutters or cutters[-1]["type"] != "ByteLevel":
        raise UserError("tokenizer.json: its pre_tokenizer does not end with ByteLevel")
    *others, last = cutters
    own = [PATTERN] if last.get("use_regex", True) else []
    return by_patterns(*map(read_pattern, others), *own)


def read_pattern(part: dict) -> str:
    """Digits or Split -> the pattern that finds its words. UserError for anything else."""
    if part["type"] == "Digits":
        return r"\p{N}|\P{N}+"
    if part["type"] == "Split" and (part["behavior"], part["invert"]) in SPLITS:
        [(kind, pattern)] = part["pattern"].items()
        odd = kind == "Regex" and regex.search(r"&&|\\[hH]", pattern)  # not the library's meaning
        # m: for the library, ^ and $ are the ends of lines. Groups are what findall would give.
        pattern = regex.escape(pattern) if kind == "String" else f"(?m:{pattern})"
        with contextlib.suppress(regex.error):
            if not odd and not regex.compile(pattern).groups:
                return SPLITS[part["behavior"], part["invert"]].format(pattern)
    shown = ", ".join(f"{key!r}: {value!r:.80}" for key, value in part.items())
    raise UserError(f"tokenizer.json: its pre_tokenizer is {shown}, which is not known here")


def piece_words(cutters: list[dict], vocab: dict) -> Callable[[str, bool], list[str]]:
    """The pre-tokenizer of a BPE over characters -> the function that cuts words.

    Most have none: the whole text is a word. It may be cut before spaces nevertheless, unless a
    piece has a space after another character: no merge joins what is cut.
    """
    inside = any(SPACE in piece.lstrip(SPACE) for piece in vocab)
    any_piece = "(?s).+" if inside else f"{SPACE}*[^{SPACE}]+|{SPACE}+"
    if [part["type"] for part in cutters] != ["Metaspace"]:
        return by_patterns(*map(read_pattern, cutters), any_piece)
    find, scheme = by_patterns(any_piece), cutters[0]["prepend_scheme"]
    if "split" not in cutters[0]:
        raise UserError("tokenizer.json: its Metaspace has split = True by default")

    def words(text, first):  # str, is it the beginning? -> list of str
        text = text.replace(" ", SPACE)
        prefix = scheme == "always" or (scheme == "first" and first)
        if prefix and text and not text.startswith(SPACE):
            text = SPACE + text
        return find(text, first)

    return words


def read_start(file: dict) -> list[int]:
    """The ids that the post-processor puts before a text. UserError if it puts any after it."""
    start, text_seen = [], False
    for part in parts(file.get("post_processor"), "post_processor"):
        if part["type"] == "ByteLevel":  # it changes offsets only
            continue
        single = part["single"]
        if sum("Sequence" in item for item in single) != 1:
            raise UserError(f"tokenizer.json: its post_processor makes {single!r:.200} of a text")
        for item in single:
            text_seen = text_seen or "Sequence" in item
            if "SpecialToken" in item:
                name = item["SpecialToken"]["id"]
                if text_seen:
                    raise UserError(f"tokenizer.json: its post_processor ends a text with {name}")
                start += part["special_tokens"][name]["ids"]
    return start
