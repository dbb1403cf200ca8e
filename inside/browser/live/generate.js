// What lengthens a text: a model with what it has read, and a draw with a seed.

// Read a text with a model; what it has in common with a text read before is not read again.
// rows: after each token the logits of the next, and log(sum(exp(logits))).
async function read(model, ids, before = {ids: [], rows: [], cache: []}) {
  const n = common(ids, before.ids), rows = before.rows.slice(0, n);
  const cache = before.cache.slice(0, n);
  while (rows.length < ids.length) {
    const logits = model.logits(ids[rows.length], cache);
    const best = logits.reduce((a, b) => Math.max(a, b));
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit - best), 0);
    rows.push({logits, log_sum: best + Math.log(total)});
    if (rows.length % 8 === 0) await new Promise((done) => setTimeout(done));  // others' turn
  }
  return {ids, rows, cache};
}

// The surprise of token i > 0 of a text that was read.
const surprise_at = ({ids, rows}, i) =>
  (rows[i - 1].log_sum - rows[i - 1].logits[ids[i]]) / Math.LN2;

function common(a, b) {  // how many tokens both texts begin with
  const n = a.findIndex((id, i) => id !== b[i]);
  return n < 0 ? a.length : n;
}

// All tokens, best first, with the sampler's probabilities: [[id, p], ...]
function ranked(logits, settings) {
  const ids = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a]);
  const falling = ids.map((id) => logits[id]), no_filters = new Float32Array(ids.length);
  const {probs} = probabilities(falling, -Infinity, no_filters, 1, settings);
  return ids.map((id, i) => [id, probs[i]]);
}

// The first token whose cumulative probability exceeds u in [0, 1).
const draw = (candidates, u) =>
  candidates[Math.max(0, drawn(candidates.map(([, p]) => p), u))][0];

// The model without the output of some heads, "layer.head": their columns of c_proj are 0.
function without({params, n_head, stop_ids, eps}, heads) {
  const d_head = params.wte[0].length / n_head, blocks = params.blocks.map((block, layer) => {
    const {attn, attn: {c_proj}} = block, kept = (i) => !heads.includes(`${layer}.${i}`);
    const w = c_proj.w.map((row) => row.map((x, i) => x * kept(Math.floor(i / d_head))));
    return {...block, attn: {...attn, c_proj: {...c_proj, w}}};
  });
  return new GPT2({...params, blocks}, n_head, stop_ids, eps);
}

// The parameters that live.py has packed. shapes: JSON of their tree; numbers: from -127 to 127, of
// all rows in turn; scales: of each row. A vector has rows of one number.
function restored(shapes, numbers, scales) {
  let at = 0, n_rows = 0;
  return JSON.parse(shapes, (_, part) => {
    if (typeof part[0] !== "number") return part;  // no shape, but what holds parameters
    const [n, d = 1] = part, rows = range(n).map(() => {
      const scale = scales[n_rows++];
      return new Float32Array(numbers.subarray(at, at += d)).map((number) => number * scale);
    });
    return part.length > 1 ? rows : Float32Array.from(rows, ([x]) => x);
  });
}
