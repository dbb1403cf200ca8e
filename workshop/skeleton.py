"""GPT-2, built by yourself. `python -m workshop mine.py` says what is done and what is not.

Replace each `...` by your own code, from the top to the bottom. A step may use the steps before it.
While an earlier step is missing or wrong, the workshop puts the project's functions in its place.

    [..., n]   an array whose last axis has n numbers; any axes may come before it
    n_new      the tokens of this call          n_all   these and all tokens before them
    n_embd     the numbers of one token         n_head, d_head   n_embd = n_head * d_head

All arrays of numbers are float32, and must stay float32. Write more functions if you like. Change
no argument in place.
"""

import math

import numpy as np

# === 1. softmax ===================================================================================


def softmax(x):  # [..., n] -> [..., n]
    """Return e^x / sum(e^x) for each row, so that each row sums to 1. x may be as large as 1000."""
    ...


# === 2. layers ====================================================================================


def layer_norm(x, g, b, eps=1e-5):  # [..., n_embd], [n_embd], [n_embd] -> [..., n_embd]
    """Give each row mean 0 and variance 1 (eps is added to the variance); then times g, plus b."""
    ...


def gelu(x):  # [...] -> [...]
    """Return x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))."""
    ...


def linear(x, w, b=0):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    """Multiply each row of x by the matrix w, which has one row for each output; then add b."""
    ...


# === 3. attention =================================================================================


def attention(q, k, v, mask):  # [..., n_new, d], 2 x [..., n_all, d], mask -> [..., n_new, d]
    """Return softmax(q k^T / sqrt(d) + mask) v: each query's mean of the values, weighted.

    mask [..., n_new, n_all]: 0 where a query may see a key, -1e10 where it may not.
    """
    ...


# === 4. mask ======================================================================================


def causal_mask(positions):  # [..., n_new], whole numbers -> [..., 1, n_new, n_all]
    """Return -1e10 where a key comes later in the text than the query, else 0.

    positions: of the queries, such as [0 1 2] or, after three tokens that were passed before,
    [3 4]. Key i stands at position i; n_all is the largest position + 1. The axis of length 1 is
    for the heads, which share one mask.
    """
    ...


# === 5. heads =====================================================================================


def split_heads(x, n_head):  # [..., n, n_head * d_head] -> [..., n_head, n, d_head]
    """Cut each row into n_head parts. Head 0 gets the first d_head numbers of every row."""
    ...


def merge_heads(x):  # [..., n_head, n, d_head] -> [..., n, n_head * d_head]
    """Do the opposite of split_heads."""
    ...


# === 6. block =====================================================================================
# A weight matrix and its bias are a dict {"w": ..., "b": ...}: call linear(x, **c_attn).
# Leave cache and layer alone until step 11, keys.


def self_attention(x, c_attn, c_proj, n_head, mask, cache=None, layer=0):
    """Mix the rows [..., n_new, n_embd] -> [..., n_new, n_embd].

    c_attn (n_embd -> 3 * n_embd) gives each row's query, key and value, in this order. Each head
    attends for itself; c_proj (n_embd -> n_embd) is applied to the merged heads.
    Step 11: `k, v = cache.append(layer, k, v)`, if there is a cache, gives all keys and values.
    """
    ...


def feed_forward(x, c_fc, c_proj, activation):  # [..., n_embd] -> [..., n_embd]
    """Apply c_fc (n_embd -> 4 * n_embd), the activation, c_proj (4 * n_embd -> n_embd)."""
    ...


class GPT2:
    """model = GPT2(params, n_head); model(ids) -> logits."""

    def __init__(self, params, n_head, stop_ids=(), activation=gelu, eps=1e-5):
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation, eps
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache=None, layer=0):
        """Return x [..., n_new, n_embd] after one block.

        x plus the self-attention of its layer norm; then that plus the feed-forward of its layer
        norm. ln_1, ln_2: {"g", "b"}; attn: {"c_attn", "c_proj"}; mlp: {"c_fc", "c_proj"}. The
        model knows n_head, activation and eps.
        """
        ...

    # === 7. model =================================================================================

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        """Return the logits of the next token after each of ids, a list or an array.

        The rows of params["wte"] for the ids, plus the rows of params["wpe"] for their positions;
        every block of params["blocks"], with the causal mask; the layer norm params["ln_f"]; then
        linear with params["lm_head"], or with params["wte"] where there is no lm_head.
        last: a number of positions; return the logits of only these, the last ones.
        Step 11: if there is a cache, `positions = cache.extend(n_new)`.
        """
        ...

    def new_cache(self, *batch):
        """Return an empty cache: new_cache() for one text, new_cache(8) for eight."""
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


# === 8. naive =====================================================================================


def naive(model, sequence):
    """Yield tokens until sequence.running is False. Each time, pass the whole text so far.

    sequence.ids: the text so far, a list; sequence.sampler(logits [n_vocab], ids) -> probabilities
    [n_vocab]; sequence.append(token) lengthens the text, and comes before the yield;
    draw(probabilities, sequence.rng) -> token
    is your next step. The logits that count are those of the last position.
    """
    ...


# === 9. draw ======================================================================================


def draw(probs, rng):  # [n_vocab], numpy.random.Generator -> int
    """Draw one token: token i with probability probs[i]."""
    ...


# A filter is a function (logits [n_vocab], ids of the text so far) -> logits [n_vocab]. It makes
# tokens impossible by -inf. Each of these returns a filter.


def temperature(t):
    """Divide the logits by t."""
    ...


def top_k(k):
    """Keep the k largest logits; there may be fewer than k."""
    ...


def top_p(p):
    """Keep the fewest most probable tokens whose probabilities sum to at least p."""
    ...


# === 10. pairs ====================================================================================


def merge(symbols, pair):  # list, (left, right) -> list
    """Join left and right wherever they stand side by side, from left to right.

    merge([b"a", b"b", b"c", b"a", b"b"], (b"a", b"b")) -> [b"ab", b"c", b"ab"]
    """
    ...


def encode(word, merges, vocab):  # str, list of pairs, {bytes: id} -> list of ids
    """Encode one word. Its first symbols are its bytes in UTF-8, each a bytes object of length 1.

    Of all pairs of neighbours in the word, merge the one that comes first in merges; repeat until
    no pair of the word is in merges. Then look up the id of each symbol.
    """
    ...


# === 11. keys =====================================================================================
# The keys and values of tokens that were passed before, so that only new tokens pass. This step
# needs self_attention, GPT2.block and GPT2.__call__ of your own, because they use it. Write extend
# and append for one new token at a time, and use them in self_attention and in GPT2.__call__. Then
# several new tokens, after others that are kept. Then cut.


class Cache:
    """The keys and values of all tokens so far, for each block.

    A pass calls extend once, then append once for each block; either may let length grow. After the
    pass, length counts its tokens.
    """

    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0  # length: how many tokens have passed
        # Make a place for the keys and values of each block here: an array with n_ctx slots, or
        # lists of arrays that grow. batch is () for one text, (8,) for eight of the same length.

    def extend(self, n_new):  # int -> [n_new]
        """Return the positions of n_new tokens, which come after those in the cache.

        Raise a ValueError if there would be more than n_ctx tokens; nothing has changed then.
        """
        ...

    def append(self, layer, k, v):  # 2 x [*batch, n_head, n_new, d_head] -> n_all instead of n_new
        """Keep a block's new keys and values; return all of this block, the new ones included."""
        ...

    def cut(self, length):
        """Forget the tokens from position `length` on. If the cache has no more, do nothing."""
        ...


# === 12. cached ===================================================================================


def advance(model, ids, cache, chunk=256):  # -> [n_vocab]
    """Pass those of ids that the cache does not hold yet, at most `chunk` tokens in one pass.

    Return the logits of the last one: model(ids, cache, last=1) computes no others. You may rely on
    this: the cache holds the first cache.length of ids, and at least one is left to pass.
    """
    ...


def cached(model, sequence, cache=None):
    """Yield the tokens that naive yields, but pass each token through the model only once.

    cache: one that holds the beginning of the text; None: a new one, model.new_cache().
    """
    ...


# === 13. rows =====================================================================================
# A batch of texts that differ in length. Slot i of a row holds its token at position i, so that a
# shorter row has unused slots. To your causal mask these look like later keys: it hides them.


class Rows:
    """The cache of a batch whose rows differ in length: lengths [n_rows], at first all 0."""

    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        # Make a place for the keys and values here.

    def extend(self, n_new):  # int -> [n_rows, n_new]
        """Return the positions of n_new tokens of each row, which come after those of this row.

        Nothing has to be checked here.
        """
        ...

    def append(self, layer, k, v):  # 2 x [n_rows, n_head, n_new, d_head] -> n_all instead of n_new
        """Store each row's new keys and values in its own slots; return all.

        n_all: the tokens of the longest row, the new ones included. An unused slot may hold any
        finite numbers: the mask hides it.
        """
        ...

    def cut(self, lengths):  # [n_rows]
        """Forget the tokens of row i from position lengths[i] on."""
        ...


def prefill(model, prompts, cache):  # -> [n_rows, n_vocab]
    """Pass prompts (lists of ids) of different lengths in one pass; cache: an empty Rows.

    model(ids [n_rows, n_new], cache) -> logits [n_rows, n_new, n_vocab]. Fill up shorter rows at
    their end with any token. Return the logits of each prompt's own last token, and leave only
    the prompts in the cache.
    """
    ...


# === 14. rule =====================================================================================


def verify(logits, ids, drafts, qs, sampler, rng):
    """Return the tokens that follow ids: accepted drafts, and one more. Each is distributed like p.

    drafts: ids that a small model proposes; qs[i] [n_vocab]: the distribution q from which it drew
    drafts[i]. logits [n_drafts + 1, n_vocab]: row i stands before drafts[i], the last one behind
    all of them. p: sampler(a row of the logits, the text before it) -> probabilities [n_vocab].
    Accept draft x with probability min(1, p(x) / q(x)), one after the other. At the first rejection
    draw a token from max(0, p - q), normalised, and stop. If all pass, draw one more from p.
    Accepted and redrawn tokens are distributed like p, because min(p, q) + max(0, p - q) = p.
    """
    ...


# === 15. speculation ==============================================================================


class DraftModel:
    """A drafter: a small model that proposes tokens for a large one, with a cache of its own."""

    def __init__(self, model, sampler, seed):
        """Keep what `propose` needs.

        seed: the drafts are drawn with an rng of their own, which this seed decides. The text is
        drawn with default_rng(seed), and the drafts must not depend on what it draws.
        """
        ...

    def propose(self, ids, n):  # -> n tokens, n distributions [n_vocab]
        """Draw n tokens that follow ids, one after the other, from the small model's distribution.

        Return them and these distributions. Later calls may have other ids after a common
        beginning: pass only tokens that the cache does not hold, but always the last of ids.
        """
        ...

    def learn(self, ids, drafts, logits, tokens):
        """Hear what the large model said: other drafters learn from it, this one need not."""


def speculative(model, sequence, drafter, gamma=4):
    """Yield tokens with the distribution of naive, several for one pass of the model.

    Each round: drafter.propose(sequence.ids, n) gives n = gamma drafts, but never so many that the
    text could become too long: sequence.n_left tokens may still come, and a pass adds one more than
    its drafts. One pass of the model over what its cache does not hold, and the drafts. verify.
    drafter.learn(ids, drafts, logits, tokens). Append each token, then yield it, while
    sequence.running. Then the cache forgets the drafts that were not accepted.
    """
    ...


# === 16. beam =====================================================================================


def beam_search(model, prompt, n, width=4, length_penalty=1.0):
    """Return the best texts found: a list of (new ids, log P, score), best first, at most `width`.

    Begin with one beam, the prompt. At each of n steps continue every beam by every token; log P is
    the sum of the log probabilities of the new tokens. A candidate that ends with one of
    model.stop_ids is finished if it is among the best `width` candidates; otherwise it is dropped.
    Of all that do not end, the best `width` go on, so that there are `width` beams again. At step
    n, the best `width` candidates are finished.
    score = log P / (number of new tokens) ** length_penalty; it ranks all that are finished.
    Pass each beam's new token only: cache = model.new_cache(1); cache.select([0, 0, 1]) makes row 0
    twice and row 1 once the new rows of the cache.
    """
    ...


# === 17. stories ==================================================================================
# Nothing to write: now your file runs a real model.
#   python generate.py "The dragon was hungry. He" --model "mine.py:model()" --loop mine.py:cached


def model(name="stories"):
    """Return (tokenizer, model): the weights of an embedded model in your own GPT2."""
    import utils

    tokenizer, loaded = utils.load(name)
    return tokenizer, GPT2(loaded.params, loaded.n_head, loaded.stop_ids)


def fast(model, sequence):
    """Yield tokens by your own speculative loop; the drafts are what followed before in the text.

    python generate.py "The dragon was hungry. He" --loop mine.py:fast
    """
    from decoding.drafters import PromptLookup

    return speculative(model, sequence, PromptLookup(model.n_vocab))
