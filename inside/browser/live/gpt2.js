// GPT-2: token ids -> logits, the whole forward pass, and its cache of keys and values. This is
// gpt2.py in JavaScript, with its names, for one text. An array [n, d] is a list of n rows, each a
// Float32Array of length d; what belongs to several heads is a list of such arrays.

class GPT2 {
  constructor(params, n_head, stop_ids = [], eps = 1e-5) {
    Object.assign(this, {params, n_head, stop_ids, eps});
    [this.n_vocab, this.n_ctx] = [params.wte.length, params.wpe.length];
  }

  logits(ids, cache = this.new_cache()) {  // [n_new] -> [n_new, n_vocab]
    const {wte, wpe, blocks, ln_f, lm_head} = this.params;
    const positions = cache.extend(ids.length), mask = causal_mask(positions);
    let x = add(ids.map((id) => wte[id]), positions.map((i) => wpe[i]));  // [n_new, n_embd]
    for (const [layer, block] of blocks.entries()) x = this.block(x, block, mask, cache, layer);
    return linear(layer_norm(x, ln_f, this.eps), {w: lm_head ?? wte});
  }

  block(x, {ln_1, attn, ln_2, mlp}, mask, cache, layer) {  // [n_new, n_embd] -> same
    let h = layer_norm(x, ln_1, this.eps);
    x = add(x, self_attention(h, attn, this.n_head, mask, cache, layer));
    h = layer_norm(x, ln_2, this.eps);
    return add(x, feed_forward(h, mlp));
  }

  new_cache() {
    return new Cache(this.params.blocks.length, this.n_head, this.n_ctx);
  }
}

function self_attention(x, {c_attn, c_proj}, n_head, mask, cache, layer) {
  const qkv = split(linear(x, c_attn), 3);  // 3 x [n_new, n_embd]
  let [q, k, v] = qkv.map((part) => split(part, n_head));  // 3 x n_head x [n_new, d_head]
  [k, v] = cache.append(layer, k, v);  // 2 x n_head x [n_all, d_head]
  return linear(merge_heads(q.map((_, i) => attention(q[i], k[i], v[i], mask))), c_proj);
}

// softmax(q k^T / sqrt(d) + mask) v: [n_new, d], 2 x [n_all, d], [n_new, n_all] -> [n_new, d]
function attention(q, k, v, mask) {
  const d = q[0].length;
  const scores = linear(q, {w: k}).map((row) => row.map((score) => score / Math.sqrt(d)));
  return softmax(add(scores, mask)).map((weights) => mix(weights, v));
}

function causal_mask(positions) {  // [n_new] -> [n_new, n_all]: -1e10 where a key is later
  const n_all = positions.at(-1) + 1;
  return positions.map((query) => new Float32Array(n_all).fill(-1e10, query + 1));
}

function split(x, n) {  // [n_new, n * d] -> n x [n_new, d]
  const d = x[0].length / n;
  return range(n).map((i) => x.map((row) => row.subarray(i * d, (i + 1) * d)));
}

function merge_heads(x) {  // n_head x [n_new, d_head] -> [n_new, n_head * d_head]
  return x[0].map((_, i) => Float32Array.from(x.flatMap((head) => [...head[i]])));
}

function feed_forward(x, {c_fc, c_proj}) {  // [n, n_embd] -> same
  return linear(linear(x, c_fc).map((row) => row.map(gelu)), c_proj);
}

function linear(x, {w, b}) {  // x w^T + b: [n, n_in], [n_out, n_in], [n_out] -> [n, n_out]
  return x.map((row) => {
    const y = new Float32Array(w.length);
    for (let i = 0; i < y.length; i++) y[i] = dot(row, w[i]) + (b ? b[i] : 0);
    return y;
  });
}

function layer_norm(x, {g, b}, eps) {  // [n, d] -> same: mean 0 and variance 1, then g and b
  return x.map((row) => {
    const mean = total(row) / row.length, centred = row.map((value) => value - mean);
    const deviation = Math.sqrt(dot(centred, centred) / row.length + eps);
    return centred.map((value, i) => value / deviation * g[i] + b[i]);
  });
}

function gelu(x) {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
}

function softmax(x) {  // [n, d] -> same, each row sums to 1
  return x.map((row) => {
    const best = row.reduce((a, b) => Math.max(a, b)), e = row.map((s) => Math.exp(s - best));
    const all = total(e);
    return e.map((value) => value / all);
  });
}

const add = (x, y) => x.map((row, i) => row.map((value, j) => value + y[i][j]));  // [n, d] twice
const total = (row) => row.reduce((a, b) => a + b, 0);

function dot(a, b) {  // [d] twice -> a number
  let even = 0, odd = 0, i = 1;  // two sums: no addition waits for the one before it
  for (; i < a.length; i += 2) {
    even += a[i - 1] * b[i - 1];
    odd += a[i] * b[i];
  }
  return i === a.length ? even + odd + a[i - 1] * b[i - 1] : even + odd;
}

function mix(weights, v) {  // weights v: [n_all], [n_all, d] -> [d]
  const y = new Float32Array(v[0].length);
  weights.forEach((weight, j) => {
    for (let i = 0; i < y.length; i++) y[i] += weight * v[j][i];
  });
  return y;
}

// The keys and values of the tokens so far: kv [2][n_layer][n_head], of each a list of rows.
class Cache {
  constructor(n_layer, n_head, n_ctx) {
    const empty = () => range(n_layer).map(() => range(n_head).map(() => []));
    Object.assign(this, {kv: [empty(), empty()], length: 0, n_ctx});
  }

  extend(n_new) {  // the positions of n_new tokens
    const n_all = this.length + n_new;
    if (n_all > this.n_ctx) {
      throw RangeError(`${n_all} tokens do not fit the context of ${this.n_ctx}`);
    }
    return range(n_new).map((i) => this.length + i);
  }

  append(layer, ...added) {  // store a layer's keys and values -> all of them
    const all = added.map((heads, i) => heads.map((rows, head) =>
      this.kv[i][layer][head].slice(0, this.length).concat(rows)));
    all.forEach((heads, i) => { this.kv[i][layer] = heads; });
    if (layer === this.kv[0].length - 1) this.length = all[0][0].length;  // the pass is complete
    return all;
  }

  fork(length) {  // a cache of the first tokens; both go on by themselves, and share these rows
    const {kv, n_ctx} = this, copy = new Cache(0, 0, n_ctx);
    return Object.assign(copy, {kv: kv.map((layers) => [...layers]), length});
  }
}
