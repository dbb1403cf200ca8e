// Text <-> token ids: byte-level byte-pair encoding, as in encoder.py and with its names.

// GPT-2's pattern of a word. Python's \s is Unicode's white space, JavaScript's \s is not quite.
const S = "\\p{White_Space}";
const PATTERN = RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${S}\\p{L}\\p{N}]+`
  + `|${S}+(?!\\P{White_Space})|${S}+`, "gu");

// The character that represents each byte in the vocabulary: itself if printable, else another.
function bytes_to_unicode() {
  const printable = (byte) => /[!-~¡-¬®-ÿ]/.test(String.fromCharCode(byte));
  let others = 256;
  return range(256).map((byte) => String.fromCharCode(printable(byte) ? byte : others++));
}

const BYTE_TO_CHAR = bytes_to_unicode();
const CHAR_TO_BYTE = new Map(BYTE_TO_CHAR.map((char, byte) => [char, byte]));

class Tokenizer {
  constructor(vocab, merges, special) {
    this.tokens = vocab;  // by their ids
    this.ids = new Map(vocab.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    this.special = new Map(Object.entries(special).map(([text, id]) => [id, text]));
  }

  encode(text) {  // string -> ids; the text of a special token is plain text
    return (text.match(PATTERN) || []).flatMap((word) => {
      const spelling = Array.from(new TextEncoder().encode(word), (byte) => BYTE_TO_CHAR[byte]);
      return this.merge(spelling).map((symbol) => this.ids.get(symbol));
    });
  }

  // Find the best-ranked pair of the word, merge it wherever it occurs, repeat.
  merge(word) {
    const rank = (i) => this.ranks.get(`${word[i]} ${word[i + 1]}`) ?? Infinity;
    while (true) {
      const best = Math.min(...range(word.length - 1).map(rank));
      if (best === Infinity) return word;
      for (let i = 0; i < word.length - 1; i++) {
        if (rank(i) === best) word.splice(i, 2, word[i] + word[i + 1]);
      }
    }
  }

  token_bytes(id) {
    const text = this.special.get(id);
    if (text !== undefined) return new TextEncoder().encode(text);
    return Uint8Array.from(this.tokens[id], (char) => CHAR_TO_BYTE.get(char));
  }

  // The text that each token adds: a character comes with its last byte.
  pieces(ids) {
    const utf8 = new TextDecoder("utf-8", {ignoreBOM: true});
    return ids.map((id) => utf8.decode(this.token_bytes(id), {stream: true}));
  }

  // A token by itself; the bytes of a part of a character as <E4>.
  label(id) {
    const bytes = this.token_bytes(id), text = new TextDecoder().decode(bytes);
    if (!text.includes("\ufffd")) return text;
    const name = (byte) => `<${byte.toString(16).toUpperCase()}>`;
    return Array.from(bytes, (byte) => byte < 128 ? String.fromCharCode(byte) : name(byte)).join("");
  }
}
