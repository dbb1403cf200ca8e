// GPT-2: a token id -> the logits of the next. This is the forward pass of gpt2.py, and its cache,
// with the same names, one token at a time: then nothing later is there, and no mask is needed.
// An array [d] is a Float32Array; [n, d] is a list of n such rows.

class GPT2 {
  constructor(params, n_head, stop_ids = [], eps = 1e-5) {
    Object.assign(this, {params, n_head, stop_ids, eps});
    [this.n_vocab, this.n_ctx] = [params.wte.length, params.wpe.length];
  }

  logits(id, cache) {  // -> [n_vocab]
    const {wte, wpe, blocks, ln_f, lm_head} = this.params;
    const position = cache.extend();
    let x = add(wte[id], wpe[position]);  // [n_embd]
    for (const [layer, block] of blocks.entries()) x = this.block(x, block, cache, layer);
    x = layer_norm(x, ln_f, this.eps);
    return linear(x, {w: lm_head ?? wte});
  }

  block(x, {ln_1, attn, ln_2, mlp}, cache, layer) {  // [n_embd] -> same
    let h = layer_norm(x, ln_1, this.eps);
    x = add(x, self_attention(h, attn, this.n_head, cache, layer));
    h = layer_norm(x, ln_2, this.eps);
    return add(x, feed_forward(h, mlp));
  }

  new_cache() {
    return new Cache(this.params.blocks.length, this.n_head, this.n_ctx);
  }
}

function self_attention(x, {c_attn, c_proj}, n_head, cache, layer) {  // [n_embd] -> same
  const qkv = split(linear(x, c_attn), 3);  // 3 x [n_embd]
  let [q, k, v] = qkv.map((part) => split(part, n_head));  // 3 x [n_head, d_head]
  [k, v] = cache.append(layer, k, v);  // 2 x [n_head, n_all, d_head]
  const heads = q.map((_, i) => attention(q[i], k[i], v[i]));  // [n_head, d_head]
  return linear(merge_heads(heads), c_proj);
}

function attention(q, k, v) {  // softmax(q k^T / sqrt(d)) v: [d], 2 x [n_all, d] -> [d]
  const weights = softmax(linear(q, {w: k}).map((score) => score / Math.sqrt(q.length)));
  const y = new Float32Array(q.length);
  v.forEach((row, j) => { for (let i = 0; i < y.length; i++) y[i] += weights[j] * row[i]; });
  return y;
}

const split = (x, n) => range(n).map((i) => x.subarray(i * x.length / n, (i + 1) * x.length / n));
const merge_heads = (heads) => Float32Array.from(heads.flatMap((head) => [...head]));

function feed_forward(x, {c_fc, c_proj}) {  // [n_embd] -> same
  return linear(linear(x, c_fc).map(gelu), c_proj);
}

function linear(x, {w, b}) {  // x w^T + b: [n_in], [n_out, n_in], [n_out] -> [n_out]
  const y = new Float32Array(w.length);
  for (let i = 0; i < y.length; i++) y[i] = dot(x, w[i]) + (b ? b[i] : 0);
  return y;
}

function layer_norm(x, {g, b}, eps) {  // [d] -> same: mean 0 and variance 1, then g and b
  const mean = sum(x) / x.length;
  x = x.map((value) => value - mean);
  const deviation = Math.sqrt(dot(x, x) / x.length + eps);
  return x.map((value, i) => value / deviation * g[i] + b[i]);
}

function gelu(x) {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
}

function softmax(x) {  // [n] -> same, sums to 1
  const best = x.reduce((a, b) => Math.max(a, b)), e = x.map((value) => Math.exp(value - best));
  const total = sum(e);
  return e.map((value) => value / total);
}

const add = (x, y) => x.map((value, i) => value + y[i]);

function dot(a, b) {  // [d] twice -> a number
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

// The keys and values of the tokens so far: kv [2][n_layer][n_head], of each a list of rows.
class Cache {
  constructor(n_layer, n_head, n_ctx) {
    const empty = () => range(n_layer).map(() => range(n_head).map(() => []));
    Object.assign(this, {kv: [empty(), empty()], length: 0, n_ctx});
  }

  extend() {  // the position of the next token
    if (this.length === this.n_ctx) throw RangeError(`the context of ${this.n_ctx} is full`);
    return this.length;
  }

  append(layer, ...k_and_v) {  // store a layer's key and value [n_head, d_head]; return all
    const all = k_and_v.map((heads, i) => heads.map((row, head) =>
      [...this.kv[i][layer][head].slice(0, this.length), row]));
    all.forEach((heads, i) => { this.kv[i][layer] = heads; });
    if (layer === this.kv[0].length - 1) this.length++;  // the pass is complete
    return all;
  }

  fork(length) {  // a cache of the first tokens; both go on by themselves, and share these rows
    const kv = this.kv.map((layers) => [...layers]);
    return Object.assign(new Cache(0, 0, this.n_ctx), {kv, length});
  }
}
