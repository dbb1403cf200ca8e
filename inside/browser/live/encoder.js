// Text <-> token ids: the byte-pair encoding of encoder.py, with the same names.

// GPT-2's pattern of a word. Python's \s is Unicode's white space; JavaScript's \s is not.
const S = "\\p{White_Space}";
const PATTERN = RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${S}\\p{L}\\p{N}]+`
  + `|${S}+(?!\\P{White_Space})|${S}+`, "gu");

// The vocabulary writes each byte as a printable character: itself, or one from 256 on.
let other = 256;
const BYTE_TO_CHAR = range(256).map((byte) => {
  const char = String.fromCharCode(byte);
  return /[!-~¡-¬®-ÿ]/.test(char) ? char : String.fromCharCode(other++);
});
const CHAR_TO_BYTE = new Map(BYTE_TO_CHAR.map((char, byte) => [char, byte]));

function merge_all(symbols, ranks) {  // merge the best pair until no pair has a rank
  while (true) {
    const rank = (right, i) => ranks.get(`${symbols[i]} ${right}`) ?? Infinity;
    const found = symbols.slice(1).map(rank), best = Math.min(...found), at = found.indexOf(best);
    if (best === Infinity) return symbols;
    symbols.splice(at, 2, symbols[at] + symbols[at + 1]);
  }
}

class Tokenizer {
  // tokens: by their ids; merges: [[left, right], ...]; special: {text: id}
  constructor({tokens, merges, special}) {
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank]));
    this.special = new Set(Object.values(special));
  }

  encode(text) {  // special tokens in the text are not recognized
    return (text.match(PATTERN) ?? []).flatMap((word) => {
      const symbols = Array.from(new TextEncoder().encode(word), (byte) => BYTE_TO_CHAR[byte]);
      return merge_all(symbols, this.ranks).map((symbol) => this.ids.get(symbol));
    });
  }

  token_bytes(id) {
    if (this.special.has(id)) return new TextEncoder().encode(this.tokens[id]);
    return Uint8Array.from(this.tokens[id], (char) => CHAR_TO_BYTE.get(char));
  }

  pieces(ids) {  // the text that each token adds; a character appears with its last byte
    const utf8 = new TextDecoder("utf-8", {ignoreBOM: true});
    return ids.map((id) => utf8.decode(this.token_bytes(id), {stream: true}));
  }
}
