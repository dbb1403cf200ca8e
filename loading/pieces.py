"""Text <-> token ids by SentencePiece: what encoder.py is to GPT-2, for T5 and mBART.

The model file holds the pieces and their probabilities, and of all ways to cut a text into pieces
the most probable is taken. Kudo & Richardson 2018, https://arxiv.org/abs/1808.06226. The file is
read by the library `sentencepiece`; what is done here is which id belongs to which piece.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from encoder import MARKS, encode_around, read_added_tokens

LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT"
    " lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"  # of mBART cc25; -50 has all
    " af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF"
    " pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
).split()


class Pieces:
    """The interface of encoder.Encoder. `tokens`: the text of each id, a piece of `processor` or a
    special token; special: {text: id} of those tokens that may be named in a text, `added` among
    them; languages: {code: id}; end_of_text is None, for these models end with a stop id that is
    no text."""

    end_of_text = None

    def __init__(
        self, processor: Any, tokens: list[str], added: Sequence[str] = (),
        languages: Sequence[str] = (),
    ):  # fmt: skip
        self.processor, self.tokens, self.n_vocab = processor, tokens, len(tokens)
        ids = {token: id for id, token in enumerate(tokens)}
        special = *MARKS, "<unk>", "<mask>", *added, *languages
        self.special = {token: ids[token] for token in special if token in ids}
        self.languages = {code: ids[code] for code in languages}
        # From the library's ids to ours. A token of ours that it has no piece for has no id there.
        self._ids = [ids[processor.id_to_piece(i)] for i in range(len(processor))]

    def encode(self, text: str, special: bool = False) -> list[int]:
        """str -> list of ids. The text of a special token is plain text, unless `special`."""
        return encode_around(self.special if special else {}, text, self._encode_text)

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> str; marks such as </s> give nothing. ValueError for an unknown id."""
        ids = list(ids)
        for id in ids:
            if not 0 <= id < self.n_vocab:
                raise ValueError(f"no token {id} in a vocabulary of {self.n_vocab} tokens")
        tokens = [self.tokens[id] for id in ids]
        silent = {*MARKS, *self.languages}
        return self.processor.decode([token for token in tokens if token not in silent])

    def _encode_text(self, text):
        return [self._ids[i] for i in self.processor.encode(text)]

    def stream(self) -> "PieceStream":
        """A new PieceStream, which decodes ids as they come."""
        return PieceStream(self)


class PieceStream:
    """Decodes ids one by one: all that it returns, joined, is what decode returns for them all."""

    def __init__(self, pieces: Pieces):
        self._pieces, self._ids, self._shown = pieces, [], 0

    def feed(self, id: int) -> str:
        """The text that is certain after this id: a character appears with its last byte."""
        self._ids.append(id)
        return self._show(self._pieces.decode(self._ids).rstrip("\ufffd"))

    def finish(self) -> str:
        """What is left: "", or U+FFFD for a character that was never completed."""
        return self._show(self._pieces.decode(self._ids))

    def _show(self, text):  # the whole text: a piece's space shows only behind another piece
        new, self._shown = text[self._shown :], max(self._shown, len(text))
        return new


def t5_pieces(path: Path, n_vocab: int) -> Pieces:
    """spiece.model of a T5 -> Pieces. Where the model's vocabulary has room for them, 100 sentinels
    (they mark what was cut out of a text) come after the pieces, counted down; then the tokens of
    added_tokens.json."""
    processor = read_processor(path)
    room = n_vocab >= len(processor) + 100
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(100))] if room else []
    tokens = texts_of(processor) + sentinels
    ids = read_added_tokens(path.parent)
    added = sorted(ids.keys() - set(tokens), key=ids.__getitem__)
    if [ids[token] for token in added] != list(range(len(tokens), len(tokens) + len(added))):
        raise ValueError(f"the ids of added_tokens.json do not follow the {len(tokens)} others")
    return Pieces(processor, tokens + added, sentinels + added)


def mbart_pieces(path: Path, n_vocab: int) -> Pieces:
    """sentencepiece.bpe.model of an mBART -> Pieces. fairseq's own four tokens come first, then
    the pieces, then the language codes, 25 or 52, as n_vocab tells, and <mask>."""
    processor = read_processor(path)
    texts = texts_of(processor)
    first, own = texts[:3], texts[3:]
    if first != ["<unk>", "<s>", "</s>"]:
        raise ValueError(f"{path.name} begins with {', '.join(first)}: not as an mBART's")
    languages = LANGUAGES[: max(0, n_vocab - len(own) - 5)]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *own, *languages, "<mask>"]
    return Pieces(processor, tokens, (), languages)


def texts_of(processor: Any) -> list[str]:
    """The texts of the pieces of `sentencepiece`'s reader, by id."""
    return [processor.id_to_piece(i) for i in range(len(processor))]


def read_processor(path: Path) -> Any:
    """The library's reader of a model file. ValueError where the file is damaged."""
    import sentencepiece  # late: GPT-2 and BART need none

    if not path.is_file():  # no folder, and no device, which may have no end
        raise FileNotFoundError(f"no tokenizer in {path.parent}: it needs {path.name}")
    data = path.read_bytes()
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data or b"nothing")
    except RuntimeError:
        raise ValueError(f"{path.name} is damaged, or no SentencePiece model") from None
