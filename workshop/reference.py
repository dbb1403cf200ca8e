"""GPT-2, built by you. `python -m workshop mine.py` tells you which steps are done.

Replace each `...` with your own code, from top to bottom. A step may use functions of earlier
steps. If such a function is missing or wrong, the workshop uses the project's function instead.

    [..., n]   an array whose last axis has n numbers; there may be other axes before it
    n_new      number of tokens in this call    n_all   number of new and earlier tokens
    n_embd     size of one token's vector, which n_head heads share: n_embd = n_head * d_head

Arrays of real numbers are float32 and must stay float32. You may write more functions. Never change
an argument in place.
"""

import math

import numpy as np

# ours: `new` writes this file with `...` in place of the code below each docstring. The code of
# ours: functions that are only a docstring is that of the project.
# === 1. softmax ===================================================================================


def softmax(x):  # [..., n] -> [..., n]
    """Return e^x / sum(e^x), so that each row sums to 1. x may contain numbers like 1000."""


# === 2. layers ====================================================================================


def layer_norm(x, g, b, eps=1e-5):  # [..., n_embd], [n_embd], [n_embd] -> [..., n_embd]
    """Subtract each row's mean, and divide by sqrt(variance + eps). Multiply by g, then add b."""


def gelu(x):  # [...] -> [...]
    """Return x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))."""


def linear(x, w, b=0):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    """Multiply each row of x by the matrix w, then add b. w has one row for each output number."""


# === 3. attention =================================================================================


def attention(q, k, v, mask):  # [..., n_new, d], 2 x [..., n_all, d], mask -> [..., n_new, d]
    """Return softmax(q k^T / sqrt(d) + mask) v: for each query, a weighted mean of the values.

    mask [..., n_new, n_all]: 0 where a query may see a key, -1e10 where it may not.
    """


# === 4. mask ======================================================================================


def causal_mask(positions):  # [..., n_new], whole numbers -> [..., 1, n_new, n_all]
    """Return a mask: -1e10 where a key comes later in the text than the query, else 0.

    positions: the queries' positions, such as [0 1 2], or [3 4] for two tokens that follow three
    tokens in a cache. Key i has position i, so n_all is the largest position + 1. The axis of
    length 1 is the axis of the heads, which all share one mask.
    """


# === 5. heads =====================================================================================


def split_heads(x, n_head):  # [..., n, n_head * d_head] -> [..., n_head, n, d_head]
    """Cut each row into n_head parts. Head 0 gets the first d_head numbers of every row."""


def merge_heads(x):  # [..., n_head, n, d_head] -> [..., n, n_head * d_head]
    """Undo split_heads: put the heads of each row side by side again."""


# === 6. block =====================================================================================
# A weight matrix and its bias are one dict {"w": ..., "b": ...}, so call linear(x, **c_attn). Only
# params["wte"], params["wpe"] and params["lm_head"] are plain arrays, without a bias.
# Ignore `cache` and `layer` until step 11 ("keys").


def self_attention(x, c_attn, c_proj, n_head, mask, cache=None, layer=0):
    """Return the attention of all heads: x [..., n_new, n_embd] -> [..., n_new, n_embd].

    c_attn (n_embd -> 3 * n_embd) gives each row's query, key and value, in this order. Compute the
    attention of each head, merge the heads, and apply c_proj (n_embd -> n_embd).
    Step 11: if there is a cache, `k, v = cache.append(layer, k, v)` returns all keys and values.
    """
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # 3 x [..., n_new, n_embd]
    q, k, v = (split_heads(part, n_head) for part in qkv)  # 3 x [..., n_head, n_new, d_head]
    if cache is not None:
        k, v = cache.append(layer, k, v)  # 2 x [..., n_head, n_all, d_head]
    return linear(merge_heads(attention(q, k, v, mask)), **c_proj)


def feed_forward(x, c_fc, c_proj, activation):  # [..., n_embd] -> [..., n_embd]
    """Apply c_fc (n_embd -> 4 * n_embd), then activation, then c_proj (4 * n_embd -> n_embd)."""


class GPT2:
    """The model. Create it with model = GPT2(params, n_head); then model(ids) returns logits."""

    def __init__(self, params, n_head, stop_ids=(), activation=gelu, eps=1e-5):
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation, eps
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache=None, layer=0):
        """Return x [..., n_new, n_embd] after one block.

        Apply ln_1 to x, then self_attention, and add the result to x. Apply ln_2 to this new x,
        then feed_forward, and add the result to it. ln_1 and ln_2 are dicts {"g", "b"}, attn is
        {"c_attn", "c_proj"}, mlp is {"c_fc", "c_proj"}. self has n_head, activation and eps.
        """
        h = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
        h = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(h, **mlp, activation=self.activation)

    # === 7. model =================================================================================

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        """For each of ids (a list or an array), return the logits of the token that follows it.

        Add the rows of params["wte"] for the ids and the rows of params["wpe"] for the positions.
        Apply each block of params["blocks"] with the causal mask, then layer_norm with
        params["ln_f"], then linear with params["lm_head"], or params["wte"] if there is no lm_head.
        last: None for all logits, or a number n >= 1 for those of the last n positions; then only
        these rows go through the last linear.
        Step 11: if there is a cache, `positions = cache.extend(n_new)`.
        """
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = np.arange(n_new) if cache is None else cache.extend(n_new)
        mask = causal_mask(positions)
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        x = x if last is None else x[..., -last:, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        return linear(x, self.params.get("lm_head", self.params["wte"]))

    def new_cache(self, *batch):
        """Return an empty cache: new_cache() for one text, new_cache(8) for eight."""
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


# === 8. draw ======================================================================================


def draw(probs, rng):  # [n_vocab], numpy.random.Generator -> int
    """Draw one token at random: return i with probability probs[i]."""


# A filter is a function (logits [n_vocab], ids of the text so far) -> logits [n_vocab]. To rule out
# a token, it returns -inf as the token's logit. Each of the next three functions returns a filter.


def temperature(t):
    """Return a filter that divides the logits by t."""


def top_k(k):
    """Return a filter that keeps only the k largest logits, or all if there are fewer than k.

    Of logits that are equal to the k-th largest, you may keep all or as many as you like.
    """


def top_p(p):
    """Return a filter that keeps the fewest top tokens whose probabilities sum to at least p.

    So the token with which the sum reaches p stays.
    """


# === 9. naive =====================================================================================
# A loop gets a `sequence`, the text that grows:
#
#     sequence.ids             the text so far, a list of ids; do not change it yourself
#     sequence.append(token)   adds a token to the text, ends the text if it must end, and returns
#                              the token
#     sequence.running         whether the text still grows
#     sequence.n_left          how many more tokens may follow at most
#     sequence.sampler         sampler(logits [n_vocab], ids so far) -> probabilities [n_vocab]
#     sequence.rng             the random generator of this text


def naive(model, sequence):
    """Yield tokens until sequence.running is False. Run the model on the whole text for each token.

    Give the logits of the last position to the sampler, and draw a token from its probabilities.
    Add each token to the text with sequence.append before you yield it.
    """


# === 10. pairs ====================================================================================


def merge(symbols, pair):  # list, (left, right) -> list
    """From left to right, replace each `left` followed by `right` with one symbol, left + right.

    merge([b"a", b"b", b"c", b"a", b"b"], (b"a", b"b")) -> [b"ab", b"c", b"ab"]
    """
    merged, skip = [], False
    for i in range(len(symbols)):
        if skip:
            skip = False
        elif tuple(symbols[i : i + 2]) == tuple(pair):
            merged.append(pair[0] + pair[1])
            skip = True
        else:
            merged.append(symbols[i])
    return merged


def encode(word, merges, vocab):  # str, list of pairs, {bytes: id} -> list of ids
    """Return a word's ids. At first, the word's symbols are its UTF-8 bytes, each a bytes object.

    Of all pairs of neighbouring symbols, merge the pair that comes first in merges. Repeat this
    until no pair is in merges. Then look up the id of each symbol in vocab.
    """
    symbols = [bytes([byte]) for byte in word.encode("utf-8")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for _ in symbols[1:]:  # at most so many merges
        pairs = [pair for pair in zip(symbols, symbols[1:]) if pair in ranks]
        if not pairs:
            break
        symbols = merge(symbols, min(pairs, key=ranks.__getitem__))
    return [vocab[symbol] for symbol in symbols]


# === 11. keys =====================================================================================
# A cache stores the keys and values of earlier tokens, so that the model runs only on new tokens.
# First let self_attention, GPT2.block and GPT2.__call__ use it: call append in self_attention, and
# extend in __call__. Then write extend, append and cut. The workshop checks three things one by
# one: one new token at a time, several new tokens after earlier ones, and cut.


class Cache:
    """The keys and values of all tokens so far, for each block.

    In each pass, the model calls extend once, then append once for each block. After the pass,
    self.length must include the new tokens. Count them once: in extend, in the last block's append,
    or at the end of GPT2.__call__. If extend counts them, self.length has them when append begins;
    otherwise it does not.
    """

    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0  # length: the number of tokens in the cache
        # Create storage for each block's keys and values here: an array with n_ctx slots, or
        # arrays that grow. batch is () for one text, (8,) for eight texts of equal length.
        shape = (*batch, n_head, n_ctx, d_head)  # ours
        self.kv = [[np.zeros(shape, np.float32) for _ in range(2)] for _ in range(n_layer)]  # ours

    def extend(self, n_new):  # int -> [n_new]
        """Return the positions of n_new new tokens, which follow the tokens in the cache.

        If there would be more than n_ctx tokens, raise a ValueError and change nothing.
        """
        old = self.length
        if old + n_new > self.n_ctx:
            raise ValueError(f"{old + n_new} tokens do not fit the context of {self.n_ctx}")
        self.length = old + n_new  # count them
        return np.arange(old, old + n_new)

    def append(self, layer, k, v):  # 2 x [*batch, n_head, n_new, d_head] -> the same with n_all
        """Store a block's new keys and values; return all its keys and values, old and new."""
        n_new, kept = k.shape[-2], self.kv[layer]
        start = self.length - n_new
        for slots, new in zip(kept, (k, v)):
            slots[..., start : start + n_new, :] = new
        both = [slots[..., : start + n_new, :] for slots in kept]
        return both

    def cut(self, length):
        """Forget the tokens from position `length` on. Do nothing if there are no such tokens."""
        if length < self.length:
            self.length = length

    def select(self, rows):  # list of row numbers
        """Step 16: keep only these rows of the batch, in this order. A row may be repeated."""
        self.kv = [[one[rows] for one in both] for both in self.kv]


# === 12. cached ===================================================================================


def advance(model, ids, cache, chunk=256):  # -> [n_vocab]
    """Run the model on the ids that are not in the cache yet, at most `chunk` ids in one pass.

    Return the logits after the last id; pass last=1, so that the model computes no others. You may
    assume that the cache contains the first cache.length ids, and that at least one id is new.
    """


def cached(model, sequence, cache=None):
    """Yield the tokens that naive yields, but run the model on each token only once.

    cache: a cache that contains the beginning of the text, but never all of it. If it is None, use
    model.new_cache().
    """


# === 13. rows (no later step needs it) ============================================================
# Each row is a text; the texts differ in length. Slot i of a row is for the token at position i.
# Your causal mask hides the unused slots of shorter rows, because it treats them as later keys.


class Rows:
    """A cache for rows of different lengths. lengths[i]: how many tokens row i has, at first 0.

    Count the new tokens in extend or in the last block's append, not in GPT2.__call__.
    """

    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        # Create storage for the keys and values here.
        self.kv = np.zeros((2, n_layer, n_rows, n_head, n_ctx, d_head), np.float32)  # ours

    def extend(self, n_new):  # int -> [n_rows, n_new]
        """Return the positions of n_new new tokens in each row. They follow the row's old tokens.

        You need not check whether there are more than n_ctx tokens.
        """
        old = self.lengths[:, None]
        self.lengths = self.lengths + n_new  # count them
        return old + np.arange(n_new)

    def append(self, layer, k, v):  # 2 x [n_rows, n_head, n_new, d_head] -> the same with n_all
        """Store each row's new keys and values in their slots; return all keys and values.

        n_all: the length of the longest row, including its new tokens. Unused slots may contain
        any finite numbers, because the mask hides them.
        """
        rows, n_new = np.arange(len(k))[:, None], k.shape[2]
        slots = self.lengths[:, None] - n_new + np.arange(n_new)  # [n_rows, n_new]
        n_all = slots.max() + 1
        for kept, new in zip(self.kv[:, layer], (k, v)):
            kept[rows, :, slots] = new.swapaxes(1, 2)
        return self.kv[:, layer, :, :, :n_all]

    def cut(self, lengths):  # [n_rows]
        """In each row i, forget the tokens from position lengths[i] on, if there are any."""
        self.lengths = np.minimum(self.lengths, lengths)


def prefill(model, prompts, cache):  # -> [n_rows, n_vocab]
    """Run the model once on prompts (lists of ids) of different lengths. cache: an empty Rows.

    model(ids [n_rows, n_new], cache) -> logits [n_rows, n_new, n_vocab]. Pad shorter prompts at
    the end with any token. Return the logits of each prompt's last token, not of the padding.
    Afterwards the cache must contain only the prompts.
    """
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = np.array([[*prompt, *[0] * (lengths.max() - len(prompt))] for prompt in prompts])
    logits = model(ids, cache)
    cache.cut(lengths)
    return logits[np.arange(len(prompts)), lengths - 1]


# === 14. rule =====================================================================================


def verify(logits, ids, drafts, qs, sampler, rng):
    """Return the tokens that follow ids: the accepted drafts, and one token that you draw.

    drafts: ids proposed by a small model; qs[i] [n_vocab]: the distribution q that drafts[i] was
    drawn from. logits [n_drafts + 1, n_vocab]: row i predicts the token at the position of
    drafts[i], and the last row the token after them. sampler(row, all ids before) -> p [n_vocab].
    Accept each draft x in turn with probability min(1, p(x) / q(x)). At the first rejection draw a
    token from max(0, p - q), normalised, and stop. If you accept all drafts, draw one more from p.
    Accepted and redrawn tokens are distributed like p, because min(p, q) + max(0, p - q) = p.
    """


# === 15. speculation ==============================================================================


class DraftModel:
    """A drafter: a small model with its own cache, which proposes tokens for a large model."""

    def __init__(self, model, sampler, seed):
        """Store what `propose` needs.

        seed: use it to make an rng for the drafts, but not default_rng(seed), which draws the text:
        the drafts must be independent of its random numbers. default_rng takes lists, too.
        """
        self.model, self.sampler, self.cache = model, sampler, model.new_cache()
        self.rng, self.seen = np.random.default_rng([seed, 1]), []

    def propose(self, ids, n):  # -> n tokens, n distributions [n_vocab]
        """Draw n tokens that follow ids, one by one, with the small model and the sampler.

        Return the tokens and their distributions. The next call gets the text as it is then, which
        may not contain all of these tokens. Keep in the cache what the two texts have in common at
        the beginning, but run at least the last id, whose logits you need.
        """
        drafts, qs = [], []
        same = [a == b for a, b in zip(self.seen, ids[:-1])]
        kept = [*same, False].index(False)
        self.cache.cut(kept)
        new = ids[kept:]
        for _ in range(n):
            logits = self.model(np.array(new), self.cache)[-1]
            q = self.sampler(logits, ids + drafts)
            drafts.append(draw(q, self.rng))
            qs.append(q)
            new = drafts[-1:]
        self.seen = (ids + drafts)[: self.cache.length]
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        """Do nothing. Other drafters use it to learn from the large model's logits and tokens."""
        pass  # ours


def speculative(model, sequence, drafter, gamma=4):
    """Yield tokens that are distributed like those of naive, but up to gamma + 1 for each pass.

    In each round get drafts, qs = drafter.propose(sequence.ids, n). n is gamma, or less at the end:
    a round yields up to n + 1 tokens, but only sequence.n_left more may be yielded. Run the model
    once, on the ids that are not in the model's cache, then the drafts. Call verify, then
    drafter.learn(ids, drafts, logits, tokens). While sequence.running, append each token, then
    yield it. At the end of the round, cut the rejected drafts from the cache.
    """
    cache = model.new_cache()
    while sequence.running:
        ids = list(sequence.ids)
        n = min(gamma, sequence.n_left - 1)
        drafts, qs = drafter.propose(ids, n)
        new = [*ids[cache.length :], *drafts]
        logits = model(np.array(new), cache)[-len(drafts) - 1 :]
        tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng)
        drafter.learn(ids, drafts, logits, tokens)
        for token in tokens:
            if sequence.running:
                yield sequence.append(token)
        cache.cut(len(sequence.ids) - 1)


# === 16. beam =====================================================================================
# First write Cache.select, so that beam_search runs on your own GPT2: select([0, 0, 1]) keeps
# row 0, row 0 again, and row 1.


def beam_search(model, prompt, n, width=4, length_penalty=1.0):
    """Return the best texts, at most `width`: a list of (new ids, log P, score), best first.

    Begin with one beam, the prompt. In each of n steps, extend every beam with every token: these
    texts are the candidates. The best ones have the largest log P, the sum of the new tokens' log
    probabilities. Two rules apply to them:

    - If a candidate ends with one of model.stop_ids, no token follows. It is a finished text if it
      is among the best `width` of all candidates. Otherwise drop it.
    - Of the other candidates, the best `width` are the next beams.

    In the last step, the best `width` candidates are finished texts, with or without a stop id.
    score = log P / (number of new tokens) ** length_penalty; rank the finished texts by score.
    Run the model only on each beam's new token, with cache = model.new_cache(1), which has one row.
    After each step, cache.select gives each beam the row of the beam that it continues.
    """
    cache, beams, finished = model.new_cache(1), [([], 0.0)], []
    new = np.array([prompt])
    for step in range(n):
        logits = model(new, cache)[:, -1]
        totals = log_softmax(logits) + np.array([[log_p] for _, log_p in beams])
        best = np.argsort(-totals, axis=None, kind="stable")
        kept, parents = [], []
        for place, index in enumerate(best):
            row, token = divmod(int(index), model.n_vocab)
            ids, log_p = [*beams[row][0], token], float(totals[row, token])
            if token in model.stop_ids or step == n - 1:
                if place < width:
                    finished.append((ids, log_p, log_p / len(ids) ** length_penalty))
            elif len(kept) < width:
                kept.append((ids, log_p))
                parents.append(row)
        if not kept:
            break
        cache.select(parents)
        beams, new = kept, np.array([ids[-1:] for ids, _ in kept])
    finished.sort(key=lambda text: -text[2])
    return finished[:width]


# === 17. stories ==================================================================================
# There is nothing to write here: your file now runs a real model.
#   python generate.py "The dragon was hungry. He" --model "mine.py:model()" --loop mine.py:cached


def model(name="stories"):
    """Return (tokenizer, model): your own GPT2 with the weights of a bundled model."""
    import utils

    tokenizer, loaded = utils.load(name)
    return tokenizer, GPT2(loaded.params, loaded.n_head, loaded.stop_ids)


def fast(model, sequence):
    """Yield the tokens of your speculative loop. Its drafts are copied from the earlier text.

    python generate.py "The dragon was hungry. He" --loop mine.py:fast
    """
    from decoding.drafters import PromptLookup

    return speculative(model, sequence, PromptLookup(model.n_vocab))
