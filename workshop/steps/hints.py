"""Three hints for each step; each says more than the one before."""

TEXT = """
softmax
- np.exp works on each number; x.sum(-1, keepdims=True) is [..., 1], a sum for each row.
- e^(x - c) / sum(e^(x - c)) is the same for every c. Which c avoids e^1000?
- Take x.max(-1, keepdims=True) away first. Then e = np.exp(...), then e over its sum.

layers
- A row's mean is x.mean(-1, keepdims=True): [..., 1], so that it fits x.
- The variance is the mean of (x - mean)^2. x - mean is divided by sqrt(variance + eps).
- linear is one product: w.T is [n_in, n_out]. math.sqrt of a number keeps float32.

attention
- A score is a query times a key: all scores are q @ k.swapaxes(-1, -2), [n_new, n_all].
- Divide the scores by math.sqrt(d), add the mask, take the softmax of each row.
- Each row of the weights [n_new, n_all] sums to 1; weights @ v is a mean of the values.

mask
- Key i is later than the query at position p if i > p. Compare all i with all p at once.
- np.arange(positions.max() + 1) are the keys. positions[..., :, None] stands upright.
- np.where(later, np.float32(-1e10), np.float32(0)), with None for the heads' axis.

heads
- x.reshape(*x.shape[:-1], n_head, d_head) cuts each row, and moves nothing.
- [..., n, n_head, d_head] still has to become [..., n_head, n, d_head]: swapaxes.
- To merge, go back: swap the same two axes first, then reshape.

block
- np.split(y, 3, axis=-1) gives queries, keys and values; each is split into heads.
- self_attention: linear, split, split_heads, attention, merge_heads, linear.
- The norm's result goes into attention, but its result is added to x itself.

model
- params["wte"][ids] are rows of wte. Without a cache the positions are 0 to n_new - 1.
- x goes from block to block: x = self.block(x, **block, mask=mask, cache=..., layer=...).
- After ln_f: linear(x, params.get("lm_head", params["wte"])), for the last rows only.

naive
- A function with `yield` is a generator: the loop goes on where the yield stands.
- while sequence.running: a pass of the whole text; the last row; sampler; draw; append.
- logits = model(np.array(sequence.ids), last=1)[-1]; probs = sequence.sampler(logits, ids).

draw
- rng.random() is uniform in [0, 1). Lay the probabilities side by side: where does it fall?
- def temperature(t): return lambda logits, ids: ... A filter is a function, and makes a new
  array.
- top_p: sort the probabilities downwards; np.cumsum; np.searchsorted finds the one that reaches
  p.

pairs
- merge: walk with an index i; take a step of 2 after a pair, of 1 otherwise.
- The pairs of a word are zip(symbols, symbols[1:]). A dict {pair: rank} finds the best.
- while there is a pair in ranks: symbols = merge(symbols, min(pairs, key=ranks.get)).

keys
- A block's keys: np.concatenate([old, new], axis=-2). The axis of the tokens is -2.
- The positions of new tokens go on where the cache ends. If extend lets the length grow, the new
  slots end at length; if append does, then only for the last block: all need the old length.
- Cutting: keep the first `length` tokens of every block's keys and values, and the length.

cached
- What the cache does not hold is ids[cache.length:]: first the prompt, later one token.
- for start in range(cache.length, len(ids), chunk): a pass of ids[start : start + chunk].
- cached is naive with advance(model, sequence.ids, cache) in the place of the model's pass.

rows
- positions = self.lengths[:, None] + np.arange(n_new): each row goes on where it ends.
- Slots: kept[row, :, position]. A loop over rows is fine; n_all is the longest row.
- prefill: logits[np.arange(n_rows), lengths - 1], then cache.cut(lengths).

rule
- Walk through zip(drafts, qs); p = sampler(logits[i], ids + tokens), tokens: the accepted.
- rng.random() < p[x] / q[x] accepts draft x; if p[x] is larger, it always does.
- At a rejection: excess = np.maximum(p - q, 0), over its sum; draw; return at once.

speculation
- A cache must hold a beginning of the text. Keep the ids that passed, and cut to what both have
  in common; the last token of ids always passes, because its logits are needed.
- Round: drafts; one pass of ids[cache.length:] + drafts; its last len(drafts) + 1 rows go to
  verify.
- After a round cut to len(sequence.ids) - 1: the newest token has not passed yet. The drafter's
  rng: np.random.default_rng([seed, 1]), so that it is not the text's.

beam
- totals[row, token] = log P of the beam + log_softmax(logits)[row, token]. Sort all of them.
- divmod(index, n_vocab) gives the row, which is the beam, and the token.
- First sort a candidate: does it end? Then it is finished or dropped; else it is a beam, as
  long as there are fewer than `width`. parents: the rows for cache.select.

stories
- `model` is written already: the weights of stories go into your GPT2.
- If all other steps are done, this one is: run them again.
- Compare logits: `logits` of your model and those of utils.load('stories')[1].
"""

HINTS = {
    step: hints.replace("\n  ", " ").split("\n- ")
    for step, _, hints in (part.partition("\n- ") for part in TEXT.strip().split("\n\n"))
}
