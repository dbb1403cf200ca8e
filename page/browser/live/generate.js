// Generation: how to read a text with a cache, and draw the next token.

// Read a text, except for the beginning that it shares with an earlier text. rows: for each token,
// the logits of the token after it, and log_sum = log(sum(exp(logits))).
async function read(model, ids, before = {ids: [], rows: [], cache: []}) {
  const n = common(ids, before.ids), rows = before.rows.slice(0, n);
  const cache = before.cache.slice(0, n);
  while (rows.length < ids.length) {
    const logits = model.logits(ids[rows.length], cache);
    const best = logits.reduce((a, b) => Math.max(a, b));
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit - best), 0);
    rows.push({logits, log_sum: best + Math.log(total)});
    if (rows.length % 8 === 0) await new Promise((done) => setTimeout(done));  // let the page react
  }
  return {ids, rows, cache};
}

// Return the surprise of token i > 0, in bits.
const surprise_at = ({ids, rows}, i) =>
  (rows[i - 1].log_sum - rows[i - 1].logits[ids[i]]) / Math.LN2;

function common(a, b) {  // return how many ids a and b share at their beginning
  const n = a.findIndex((id, i) => id !== b[i]);
  return n < 0 ? a.length : n;
}

// Return [[id, p], ...]: all tokens, best first, with the probabilities that these settings give.
function ranked(logits, settings) {
  const ids = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a]);
  const falling = ids.map((id) => logits[id]), no_filters = new Float32Array(ids.length);
  const {probs} = probabilities(falling, -Infinity, no_filters, 1, settings);
  return ids.map((id, i) => [id, probs[i]]);
}

// Return the first token at which the sum of the probabilities so far exceeds u, 0 <= u < 1.
function draw(candidates, u) {
  let mass = 0;
  return (candidates.find(([, p]) => (mass += p) > u) ?? candidates[0])[0];
}

// Return the parameters that live.py packed. shapes: JSON of the parameters, with shapes instead of
// arrays; numbers: all entries, -127 to 127; scales: one per row. A vector's rows have length 1.
function restored(shapes, numbers, scales) {
  let at = 0, n_rows = 0;
  return JSON.parse(shapes, (_, part) => {
    if (typeof part[0] !== "number") return part;  // only a shape is a list of numbers
    const [n, d = 1] = part, rows = range(n).map(() => {
      const scale = scales[n_rows++];
      return new Float32Array(numbers.subarray(at, at += d)).map((number) => number * scale);
    });
    return part.length > 1 ? rows : Float32Array.from(rows, ([x]) => x);
  });
}
