// What lengthens a text: a model with what it has read, and a draw with a seed.

// ids: the text; rows: after each token, the logits of the next, and log(sum(exp(logits))).
class Reader {
  constructor(model, ids = [], rows = [], cache = model.new_cache()) {
    Object.assign(this, {model, ids, rows, cache});
  }

  // A reader of another text. What both texts begin with is not passed again; the rest is passed in
  // chunks, between which the browser can do other work.
  async read(ids, chunk = 8) {
    const n = common(ids, this.ids), rows = this.rows.slice(0, n), cache = this.cache.fork(n);
    while (rows.length < ids.length) {
      const part = ids.slice(rows.length, rows.length + chunk);
      HERE({logits, sum: log_sum(logits)});
      if (rows.length < ids.length) await new Promise((done) => setTimeout(done));
    }
    return new Reader(this.model, [...ids], rows, cache);
  }

  bits(i) {  // the surprise of token i > 0
    const {logits, sum} = this.rows[i - 1];
    return (sum - logits[this.ids[i]]) / Math.LN2;
  }
}

// How many tokens two texts have in common at their beginning.
function common(a, b) {
  const n = a.findIndex((id, i) => id !== b[i]);
  return n < 0 ? a.length : n;
}

function log_sum(logits) {
  const best = logits.reduce((a, b) => Math.max(a, b));
  return best + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - best), 0));
}

// All tokens, best first, with the sampler's probabilities: [[id, p], ...]
function ranked(logits, settings) {
  const ids = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a]);
  const {probs} = probabilities(ids.map((id) => logits[id]), -Infinity, settings);
  return ids.map((id, i) => [id, probs[i]]);
}

// The first token whose cumulative probability exceeds u in [0, 1).
function draw(candidates, u) {
  let mass = 0;
  return (candidates.find(([, p]) => (mass += p) > u) || candidates[0])[0];
}

// A number in [0, 1) for a seed and a place in the text: the same seed draws the same text again,
// from wherever it begins. The mixing is that of MurmurHash3 (Appleby 2011).
function uniform(seed, place) {
  let x = Math.imul(seed, 0x9e3779b9) + place;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

// The model without the output of these heads, as "layer.head": their columns of c_proj are 0.
function without(model, heads) {
  const d = model.params.wte[0].length / model.n_head;
  const blocks = model.params.blocks.map((block, layer) => {
    const gone = range(model.n_head).filter((head) => heads.has(`${layer}.${head}`));
    const w = block.attn.c_proj.w.map((row) => row.slice());
    for (const row of w) for (const head of gone) row.fill(0, head * d, (head + 1) * d);
    return {...block, attn: {...block.attn, c_proj: {...block.attn.c_proj, w}}};
  });
  return new GPT2({...model.params, blocks}, model.n_head, model.stop_ids, model.eps);
}

// The parameters that live.py has packed: a matrix becomes its rows, a vector stays one.
function unpacked(tree) {
  if (typeof tree === "string") return new Float32Array(bytes(tree).buffer);
  if (Array.isArray(tree)) return tree.map(unpacked);
  if (!tree.rows) return Object.fromEntries(Object.entries(tree).map(([k, v]) => [k, unpacked(v)]));
  const numbers = new Int8Array(bytes(tree.rows).buffer);
  const scale = new Float32Array(bytes(tree.scale).buffer), n = numbers.length / scale.length;
  const row = (i) => Float32Array.from(numbers.subarray(i * n, (i + 1) * n), (q) => q * scale[i]);
  return range(scale.length).map(row);
}

function bytes(text) {
  const characters = atob(text), array = new Uint8Array(characters.length);
  for (let i = 0; i < array.length; i++) array[i] = characters.charCodeAt(i);
  return array;
}
