"""Tokenizer files -> a tokenizer: the byte-level BPE of encoder.py, or SentencePiece (T5, mBART).

A SentencePiece model file holds pieces and their probabilities; a text is cut into its most
probable sequence of pieces (Kudo & Richardson 2018, https://arxiv.org/abs/1808.06226). The library
`sentencepiece` does that; the code here decides which id belongs to which piece.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from encoder import BYTE_TO_CHAR, MARKS, Added, Tokenizer, split
from loading.pieces import LibraryTokenizer
from loading.tokenizer_json import read_tokenizer_json

FILES = ("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")  # OpenAI, Hugging Face
LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT"
    " lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"  # mBART cc25's; mBART-50 has all
    " af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF"
    " pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
).split()


def read_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer of a decoder: tokenizer.json, or else tokenizer.model (SentencePiece). If texts
    begin with BOS, encode adds it. FileNotFoundError where both are missing, ValueError or
    UserError for a file that is damaged or asks for what is not known."""
    folder = Path(folder)
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer_json(folder / "tokenizer.json")
    if (folder / "tokenizer.model").is_file():
        return read_model(folder / "tokenizer.model")
    raise FileNotFoundError(f"no tokenizer in {folder}: it needs tokenizer.json or tokenizer.model")


def read_gpt2_tokenizer(folder: str | Path, bos: bool = True) -> Tokenizer:
    """The tokenizer of GPT-2 or BART: tokenizer.json; or else encoder.json and vocab.bpe, or the
    same files named vocab.json and merges.txt, and added_tokens.json, if it is there. bos=False:
    encode adds nothing that tokenizer.json puts around a text. Errors as above."""
    folder = Path(folder)
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer_json(folder / "tokenizer.json", bos)
    for vocab, merges in FILES:
        if (folder / vocab).is_file() and (folder / merges).is_file():
            try:
                return read_pair(folder / vocab, folder / merges)
            except (ValueError, RecursionError) as error:  # of UTF-8, of JSON, or our own
                files = f"{folder / vocab} or {merges}"
                raise ValueError(f"{files} is damaged, get both again: {error}") from None
    wanted = ", or ".join(" and ".join(names) for names in FILES)
    raise FileNotFoundError(f"no tokenizer in {folder}: it needs {wanted}, or tokenizer.json")


def read_pair(vocab_path: Path, merges_path: Path) -> Tokenizer:
    """A vocabulary and its merges -> Tokenizer. The vocabulary has all bytes; a token that is not a
    byte, nor made by a merge, is special. Raises ValueError."""
    vocab = read_vocab(vocab_path) | read_added_tokens(vocab_path.parent)
    merges = read_merges(merges_path)
    made = {*BYTE_TO_CHAR.values(), *map("".join, merges)}
    if missing := made - vocab.keys():
        raise ValueError(f"{len(missing)} symbols have no id, such as {min(missing)!r}")
    others = sorted(vocab.keys() - made)
    # Special tokens are stored verbatim: a token with a byte's character comes from a merge.
    wanted = {token for token in others if BYTE_TO_CHAR[ord(" ")] in token}
    if unmade := wanted.union(*merges) - made:
        raise ValueError(f"{len(unmade)} symbols come from no merge, such as {min(unmade)!r}")
    # BART's <mask> takes the place of a word, and of the space before it.
    special = [Added(token, vocab[token], lstrip=token == "<mask>") for token in others]
    return Tokenizer(vocab, merges, special)


def read_model(path: Path) -> LibraryTokenizer:
    """tokenizer.model of a Llama, Mistral or Gemma, and added_tokens.json, if it is there ->
    tokenizer. Raises ValueError."""
    processor = read_processor(path)
    pieces = {piece: id for id, piece in enumerate(read_pieces(processor))}
    special = {piece: id for piece, id in pieces.items()
               if processor.is_control(id) or processor.is_unknown(id)}  # fmt: skip
    added = [Added(text, id) for text, id in (special | read_added_tokens(path.parent)).items()]
    start = [processor.bos_id()] if processor.bos_id() >= 0 else []
    return LibraryTokenizer(processor, pieces, added=added, start=start)


def read_vocab(path: Path) -> dict[str, int]:
    """A JSON object {token: id} -> dict. Raises ValueError."""
    vocab = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(vocab, dict):
        raise ValueError("the JSON is not an object of tokens and their ids")
    return vocab


def read_added_tokens(folder: str | Path) -> dict[str, int]:
    """added_tokens.json: {token: id} of what came to a vocabulary after its training, or {} where
    the file is missing. Raises ValueError."""
    path = Path(folder, "added_tokens.json")
    return read_vocab(path) if path.is_file() else {}


def read_merges(path: Path) -> list[tuple[str, str]]:
    """Lines "left right", best first; the first line may be the format's version."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    lines = lines[lines[0].startswith("#version") :]
    merges = re.findall("^([^ \n]*) ([^ \n]*)$", "\n".join(lines), re.MULTILINE)
    if len(merges) < len(lines):  # not checked line by line, which is slow in a debugger
        wrong = next(line for line in lines if line.count(" ") != 1)
        raise ValueError(f"{wrong!r} is not a pair of symbols")
    return merges


class SentencePieceTokenizer:
    """The interface of encoder.Tokenizer. `tokens`: the text of each id, a piece of `processor` or
    a special token; special: {text: id} of the tokens that may be named in a text, `added` among
    them; languages: {code: id}; end_of_text is None: these models end with a stop id that has no
    text."""

    end_of_text = None

    def __init__(
        self, processor: Any, tokens: list[str], added: Sequence[str] = (),
        languages: Sequence[str] = (),
    ):  # fmt: skip
        self.processor, self.tokens, self.n_vocab = processor, tokens, len(tokens)
        ids = {token: id for id, token in enumerate(tokens)}
        special = *MARKS, "<unk>", "<mask>", *added, *languages
        self.special = {token: ids[token] for token in special if token in ids}
        self._added = [Added(*token) for token in self.special.items()]
        self.languages = {code: ids[code] for code in languages}
        # From the library's ids to ours. Tokens without a piece, as sentinels, have no library id.
        self._ids = [ids[piece] for piece in read_pieces(processor)]

    def encode(self, text: str, special: bool = False) -> list[int]:
        """str -> list of ids. The text of a special token is plain text, unless `special`."""
        ids = list[int]()
        for part in split(text, self._added if special else []):
            ids += self._encode_text(part) if isinstance(part, str) else [part]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> str; MARKS and languages become nothing. ValueError for an unknown id."""
        ids = list(ids)
        if wrong := [id for id in ids if not 0 <= id < self.n_vocab]:
            raise ValueError(f"no token {wrong[0]} in a vocabulary of {self.n_vocab} tokens")
        tokens = [self.tokens[id] for id in ids]
        silent = {*MARKS, *self.languages}
        return self.processor.decode([token for token in tokens if token not in silent])

    def stream(self) -> "SentencePieceStream":
        """A new SentencePieceStream, which decodes ids as they come."""
        return SentencePieceStream(self)

    def _encode_text(self, text):
        return [self._ids[i] for i in self.processor.encode(text)]


class SentencePieceStream:
    """Decodes ids one by one; the returned pieces concatenate to decode(all ids)."""

    def __init__(self, tokenizer: SentencePieceTokenizer):
        self._tokenizer, self._ids, self._shown = tokenizer, list[int](), 0

    def feed(self, id: int) -> str:
        """The text that is certain after this id: a character appears with its last byte."""
        self._ids.append(id)
        return self._show(self._tokenizer.decode(self._ids).rstrip("\ufffd"))

    def finish(self) -> str:
        """The rest: "", or U+FFFD for a character that was never completed."""
        return self._show(self._tokenizer.decode(self._ids))

    def _show(self, text):  # the whole text: a piece's space appears only after another piece
        new, self._shown = text[self._shown :], max(self._shown, len(text))
        return new


def t5_tokenizer(path: Path, n_vocab: int) -> SentencePieceTokenizer:
    """spiece.model of a T5 -> tokenizer. Where the model's vocabulary has room for them, 100
    sentinels (they mark what was cut out of a text) come after the pieces, counted down; then the
    tokens of added_tokens.json."""
    processor = read_processor(path)
    pieces = read_pieces(processor)
    room = n_vocab >= len(pieces) + 100
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(100))] if room else []
    tokens = pieces + sentinels
    ids = read_added_tokens(path.parent)
    added = sorted(ids.keys() - set(tokens), key=ids.__getitem__)
    if [ids[token] for token in added] != list(range(len(tokens), len(tokens) + len(added))):
        raise ValueError(f"the ids of added_tokens.json do not follow the {len(tokens)} others")
    return SentencePieceTokenizer(processor, tokens + added, sentinels + added)


def mbart_tokenizer(path: Path, n_vocab: int) -> SentencePieceTokenizer:
    """sentencepiece.bpe.model of an mBART -> tokenizer. fairseq's own four tokens come first, then
    the pieces, then as many language codes as n_vocab has room for, 25 or 52, and <mask>."""
    processor = read_processor(path)
    pieces = read_pieces(processor)
    first, own = pieces[:3], pieces[3:]
    if first != ["<unk>", "<s>", "</s>"]:
        raise ValueError(f"{path.name} begins with {', '.join(first)}: not as an mBART's")
    languages = LANGUAGES[: max(0, n_vocab - len(own) - 5)]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *own, *languages, "<mask>"]
    return SentencePieceTokenizer(processor, tokens, (), languages)


def read_pieces(processor: Any) -> list[str]:
    """The texts of the library's pieces, by its ids."""
    return [processor.id_to_piece(i) for i in range(len(processor))]


def read_processor(path: Path) -> Any:
    """The library's reader of a model file. ValueError where the file is damaged."""
    import sentencepiece  # late: only T5 and mBART need it

    if not path.is_file():  # refuses folders, and devices, which may never end
        raise FileNotFoundError(f"no tokenizer in {path.parent}: it needs {path.name}")
    data = path.read_bytes()
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data or b"nothing")
    except RuntimeError:
        raise ValueError(f"{path.name} is damaged, or not a SentencePiece model") from None
