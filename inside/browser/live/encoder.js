// Text <-> token ids: the byte-pair encoding of encoder.py, with the same names.

// GPT-2's pattern of a word. Python's \s is Unicode's white space, JavaScript's \s is not quite.
const S = "\\p{White_Space}";
const PATTERN = RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${S}\\p{L}\\p{N}]+`
  + `|${S}+(?!\\P{White_Space})|${S}+`, "gu");

// The character that represents each byte in the vocabulary: itself if printable, else another.
let other = 256;
const BYTE_TO_CHAR = range(256).map((byte) => {
  const char = String.fromCharCode(byte);
  return /[!-~¡-¬®-ÿ]/.test(char) ? char : String.fromCharCode(other++);
});
const CHAR_TO_BYTE = new Map(BYTE_TO_CHAR.map((char, byte) => [char, byte]));

function merge_all(symbols, ranks) {  // merge the best pair of neighbours, until none has a rank
  const rank = (pair) => ranks.get(pair) ?? Infinity;
  while (symbols.length > 1) {
    const pairs = symbols.slice(1).map((right, i) => `${symbols[i]} ${right}`);
    const best = pairs.reduce((a, b) => (rank(b) < rank(a) ? b : a));
    if (!ranks.has(best)) break;
    symbols = merge(symbols, best);
  }
  return symbols;
}

function merge(symbols, pair) {  // a pair of neighbours, wherever it stands, from left to right
  const merged = [];
  for (let i = 0; i < symbols.length; i++) {
    const found = `${symbols[i]} ${symbols[i + 1]}` === pair;
    merged.push(found ? symbols[i] + symbols[++i] : symbols[i]);
  }
  return merged;
}

class Tokenizer {
  constructor(tokens, merges, special) {  // by their ids; "left right", best first; {text: id}
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    this.special = new Set(Object.values(special));
  }

  encode(text) {  // the text of a special token is plain text
    return (text.match(PATTERN) ?? []).flatMap((word) => {
      const symbols = Array.from(new TextEncoder().encode(word), (byte) => BYTE_TO_CHAR[byte]);
      return merge_all(symbols, this.ranks).map((symbol) => this.ids.get(symbol));
    });
  }

  token_bytes(id) {
    if (this.special.has(id)) return new TextEncoder().encode(this.tokens[id]);
    return Uint8Array.from(this.tokens[id], (char) => CHAR_TO_BYTE.get(char));
  }

  pieces(ids) {  // the text that each token adds: a character comes with its last byte
    const utf8 = new TextDecoder("utf-8", {ignoreBOM: true});
    return ids.map((id) => utf8.decode(this.token_bytes(id), {stream: true}));
  }

  label(id) {  // a token by itself; the bytes of a part of a character as <E4>
    const bytes = this.token_bytes(id), text = new TextDecoder().decode(bytes);
    const hex = (byte) => `<${byte.toString(16).toUpperCase()}>`;
    const name = (byte) => (byte < 128 ? String.fromCharCode(byte) : hex(byte));
    return text.includes("\ufffd") ? Array.from(bytes, name).join("") : text;
  }
}
