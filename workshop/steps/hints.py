"""Three hints for each step. Each hint reveals more than the hint before it."""

TEXT = """
softmax
- np.exp works on each number; x.sum(-1, keepdims=True) [..., 1] has one sum per row.
- e^(x - c) / sum(e^(x - c)) is the same for every c. Which c avoids e^1000?
- First subtract x.max(-1, keepdims=True). Then e = np.exp(...). Divide e by its row sums.

layers
- The means of the rows are x.mean(-1, keepdims=True), of shape [..., 1]. They broadcast to x.
- The variance is the mean of (x - mean)^2. Divide x - mean by sqrt(variance + eps).
- linear is one matrix product, where w.T is [n_in, n_out]. math.sqrt keeps arrays float32.

attention
- The scores are the products of queries and keys: q @ k.swapaxes(-1, -2), [n_new, n_all].
- Divide the scores by math.sqrt(d), add the mask, and take the softmax of each row.
- Each row of the weights [n_new, n_all] sums to 1, so weights @ v is a mean of the values.

mask
- Key i is later than the query at position p if i > p. Compare all i with all p at once.
- The keys are np.arange(positions.max() + 1). positions[..., :, None] is a column.
- np.where(later, np.float32(-1e10), np.float32(0)); index with None to add the heads' axis.

heads
- x.reshape(*x.shape[:-1], n_head, d_head) cuts each row into heads.
- Use swapaxes to turn [..., n, n_head, d_head] into [..., n_head, n, d_head].
- To merge, first swap the same two axes back, then reshape.

block
- Cut y, the result of c_attn, with np.split(y, 3, axis=-1). Split each of q, k, v into heads.
- self_attention calls linear, np.split, split_heads, attention, merge_heads, linear.
- Attention gets the layer norm of x, but you add the result of attention to x itself.

model
- params["wte"][ids] selects rows of wte. Without a cache, positions are 0 to n_new - 1.
- Each block changes x: x = self.block(x, **block, mask=mask, cache=cache, layer=layer).
- Keep only the last rows of x after ln_f: linear(x, params.get("lm_head", params["wte"])).

naive
- A function with `yield` is a generator: after each yield, its loop goes on.
- while sequence.running: run the model, take the last row, sample, draw, append, yield.
- logits = model(np.array(sequence.ids), last=1)[-1]; probs = sequence.sampler(logits, ids).

draw
- Lay the probabilities side by side, from 0 to 1. Into which of them does rng.random() fall?
- temperature returns a function: return lambda logits, ids: ... This function, the filter, must
  return a new array.
- top_p: sort the probabilities, largest first. np.searchsorted in their np.cumsum finds the
  token that reaches p.

pairs
- merge: walk with an index i. Add 2 to i after a pair, otherwise 1.
- The pairs of a word are zip(symbols, symbols[1:]). A dict {pair: rank} finds the best pair.
- While the list `known` of pairs in ranks is not empty: merge min(known, key=ranks.get).

keys
- A block's keys are np.concatenate([old, new], axis=-2), because axis -2 is the axis of tokens.
- New positions begin at the old length. If extend updates length, the new slots end at length.
  If append updates length, do so only in the last block: every block needs the old length.
- cut: keep the first `length` tokens of every block's keys and values, and set self.length.

cached
- The cache lacks ids[cache.length:]. At first these are the prompt, later a single token.
- for start in range(cache.length, len(ids), chunk): run the model on ids[start : start + chunk].
- cached is like naive, but its logits are advance(model, sequence.ids, cache).

rows
- positions = self.lengths[:, None] + np.arange(n_new): each row continues at its own end.
- You may loop over the rows. In an array kv, the slot of a token is kv[row, :, position].
- prefill: call cache.cut(lengths) and return logits[np.arange(n_rows), lengths - 1].

rule
- Loop over zip(drafts, qs). p = sampler(logits[i], ids + accepted), where accepted is a list.
- Accept draft x if rng.random() < p[x] / q[x]. This is always true if p[x] >= q[x].
- At a rejection, divide np.maximum(p - q, 0) by its sum, draw from it, and return at once.

speculation
- propose: remember the ids in the cache. In the next call, cut the cache to their common beginning
  with the new ids, but at most to len(ids) - 1, because you need the logits after the last id.
- In each round run the model on ids[cache.length:] + drafts; give verify the last
  len(drafts) + 1 rows.
- After a round cut to len(sequence.ids) - 1, because the model has not read the newest token.
  np.random.default_rng([seed, 1]) is an rng for the drafts, independent of the text's rng.

beam
- totals[row, token] = log P of beam row + log_softmax(logits)[row, token]. Sort all totals.
- divmod(index, n_vocab) returns the row of the beam and the token id.
- Go through the candidates, best first. One with a stop id is finished or dropped; others become
  beams, up to `width` beams. Pass the list of the new beams' old rows to cache.select.

stories
- You need not write `model`: it puts the weights of stories into your GPT2.
- This step runs your functions of steps 1 to 7, 9, 11 and 12, so check these steps again.
- Compare the logits of your model with those of utils.load('stories')[1] for the same ids.
"""

HINTS = {
    step: hints.replace("\n  ", " ").split("\n- ")
    for step, _, hints in (part.partition("\n- ") for part in TEXT.strip().split("\n\n"))
}
