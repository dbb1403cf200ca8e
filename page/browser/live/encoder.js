// Text <-> token ids: the byte-pair encoding of encoder.py, with the same names.

// GPT-2's pattern for words. Like Python's \s, S is Unicode's white space; JavaScript's \s is not.
const S = "\\p{White_Space}";
const PATTERN = RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${S}\\p{L}\\p{N}]+`
  + `|${S}+(?!\\P{White_Space})|${S}+`, "gu");

function merge_all(symbols, ranks) {  // merge the pair of lowest rank until no pair has a rank
  while (true) {
    const rank = (right, i) => ranks.get(`${symbols[i]}→${right}`) ?? Infinity;
    const found = symbols.slice(1).map(rank), best = Math.min(...found), at = found.indexOf(best);
    if (best === Infinity) return symbols;
    symbols.splice(at, 2, symbols[at] + symbols[at + 1]);
  }
}

class Tokenizer {
  // tokens: texts with one character per byte; merges: ["left→right", ...]; special: {text: id}
  constructor({tokens, merges, special}) {
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    this.special = new Set(Object.values(special));
  }

  encode(text) {  // special tokens are read as ordinary text
    return (text.match(PATTERN) ?? []).flatMap((word) => {
      const symbols = [...String.fromCharCode(...new TextEncoder().encode(word))];
      return merge_all(symbols, this.ranks).map((symbol) => this.ids.get(symbol));
    });
  }

  token_bytes(id) {
    return Uint8Array.from(this.tokens[id], (char) => char.charCodeAt(0));
  }

  pieces(ids) {  // return the text that each token adds; a character is added by its last byte
    const utf8 = new TextDecoder("utf-8", {ignoreBOM: true});
    return ids.map((id) => utf8.decode(this.token_bytes(id), {stream: true}));
  }
}
