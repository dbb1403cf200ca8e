// GPT-2: from a token id to the logits of the next token. The forward pass and the names are those
// of gpt2.py. This code reads one token at a time, so it needs no mask. An array [d] is a
// Float32Array, and an array [n, d] is a list of n such rows. cache[i][layer] is {k, v}: the keys
// and the values of token i, each [n_head, d_head].

class GPT2 {
  constructor(params, n_head, stop_ids = [], eps = 1e-5) {
    Object.assign(this, {params, n_head, stop_ids, eps});
    [this.n_vocab, this.n_ctx] = [params.wte.length, params.wpe.length];
  }

  logits(id, cache) {  // -> [n_vocab]
    const {wte, wpe, blocks, ln_f, lm_head} = this.params;
    let x = add(wte[id], wpe[cache.length]);  // [n_embd]
    cache.push([]);
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
}

function self_attention(x, {c_attn, c_proj}, n_head, cache, layer) {  // [n_embd] -> same
  const qkv = split(linear(x, c_attn), 3);  // 3 x [n_embd]
  const [q, k, v] = qkv.map((part) => split(part, n_head));  // 3 x [n_head, d_head]
  cache.at(-1)[layer] = {k, v};
  const all = cache.map((token) => token[layer]);  // each token's {k, v} in this layer
  const heads = q.map((_, i) =>
    attention(q[i], all.map(({k}) => k[i]), all.map(({v}) => v[i])));  // [n_head, d_head]
  return linear(merge_heads(heads), c_proj);
}

function attention(q, k, v) {  // [d], 2 x [n_all, d] -> [d]: softmax(q k^T / sqrt(d)) v
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

function linear(x, {w, b}) {  // [n_in], [n_out, n_in], [n_out] -> [n_out]: x w^T + b
  const y = new Float32Array(w.length);
  for (let i = 0; i < y.length; i++) y[i] = dot(x, w[i]) + (b ? b[i] : 0);
  return y;
}

function layer_norm(x, {g, b}, eps) {  // [d] -> same: mean 0, variance 1, times g, plus b
  const mean = sum(x) / x.length;
  x = x.map((value) => value - mean);
  const deviation = Math.sqrt(dot(x, x) / x.length + eps);
  return x.map((value, i) => value / deviation * g[i] + b[i]);
}

function gelu(x) {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
}

function softmax(x) {  // [n] -> same: probabilities, whose sum is 1
  const best = x.reduce((a, b) => Math.max(a, b)), e = x.map((value) => Math.exp(value - best));
  const total = sum(e);
  return e.map((value) => value / total);
}

const add = (x, y) => x.map((value, i) => value + y[i]);

function dot(a, b) {  // 2 x [d] -> a number
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}
