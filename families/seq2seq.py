"""Encoder-decoders (T5, BART, mBART). The encoder reads a source; the decoder writes an answer.

    model.read(source): source ids -> encoder -> keys and values for each decoder layer -> Decoder
    decoder(ids): answer ids -> n_layer x (self-attention, cross-attention, MLP) -> logits

A Decoder is used like a GPT2, so every loop can run it. Raffel et al. 2020, "Exploring the
Limits of Transfer Learning with a Unified Text-to-Text Transformer" (T5); Lewis et al. 2020,
"BART"; Liu et al. 2020, "Multilingual Denoising Pre-training for Neural Machine Translation".
Shapes are named as in gpt2.py, but n_embd is called d_model. Matrices are [n_out, n_in].
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gpt2
from families.few_rows import small_pass
from families.layers import feed_forward, gelu_erf, rms_norm
from generate import check_prompt
from gpt2 import Cache, merge_heads, split_heads
from samplers import Ids


class EncoderDecoder:
    """The code that T5 and BART share. They differ in embed, norm, position_bias and logits.

    params: {"wte": [n_vocab, d_model], "encoder": stack, "decoder": stack}. A stack has "blocks", a
    list, and perhaps a final "norm". A block has "attn": {"q", "k", "v", "o"}, "mlp": {"c_fc",
    "c_proj", perhaps "gate"}, "attn_norm" and "mlp_norm". A decoder's block also has "cross", with
    the same keys as "attn", and "cross_norm". n_head: two numbers, for encoder and decoder; n_ctx:
    the maximum length of a source or answer, in tokens.
    """

    activation: Callable  # [...] -> same
    norm: Callable  # x [..., n, d_model], g, b -> same
    embed: Callable  # ids [..., n], positions [..., n] or [n], stack -> [..., n, d_model]
    position_bias: Callable  # stack, positions, both_ways -> what to add to the mask
    logits: Callable  # [..., n, d_model] -> [..., n, n_vocab]
    generation_config: dict  # a checkpoint's settings
    pre_norm = True  # True: x + f(norm(x)), as in GPT-2; False: norm(x + f(x))
    scaled = True  # True: divide the attention scores by sqrt(d_head)

    def __init__(self, params, n_head, n_ctx):
        self.params, (self.n_head_encoder, self.n_head), self.n_ctx = params, n_head, n_ctx
        self.start_ids, self.stop_ids = [0], []  # a checkpoint has its own
        self.n_vocab, self.d_model = params["wte"].shape

    def read(self, source: Ids) -> "Decoder":
        """Run the encoder over a source, and return the model that writes the answer to it."""
        check_prompt(source, self.n_vocab, self.n_ctx)
        x = self.encode(np.array(source))  # [n_source, d_model]
        blocks = self.params["decoder"]["blocks"]
        d_head = len(blocks[0]["cross"]["k"]["w"]) // self.n_head
        cache = Cache(len(blocks), (), self.n_head, self.n_ctx, d_head)
        for layer, block in enumerate(blocks):
            k, v = (gpt2.linear(x, **block["cross"][name]) for name in "kv")
            cache.append(layer, split_heads(k, self.n_head), split_heads(v, self.n_head))
        cache.commit(len(source))
        small_pass.end()  # the encoder computes no logits
        return Decoder(self, cache)

    def encode(self, ids):  # [..., n_source] -> [..., n_source, d_model]
        """Run the encoder. It has no causal mask, so every token sees the whole source."""
        stack, positions = self.params["encoder"], np.arange(np.shape(ids)[-1])
        x = self.embed(ids, positions, stack)
        mask = self.position_bias(stack, positions, both_ways=True)
        for block in stack["blocks"]:
            x = self.block(x, **block, mask=mask, n_head=self.n_head_encoder)
        return self.norm(x, **stack["norm"]) if "norm" in stack else x

    def block(
        self, x, attn, attn_norm, mlp, mlp_norm, cross=None, cross_norm=None, source=None, **how
    ):  # [..., n_new, d_model] -> same
        """Self-attention brings in other tokens. In a decoder, cross-attention then brings in the
        source: (keys, values, mask). The MLP works on each token by itself."""
        h = self.before(x, attn_norm)
        x = self.after(x + self.self_attention(h, **attn, **how), attn_norm)
        if cross:
            h = self.before(x, cross_norm)
            x = self.after(x + self.cross_attention(h, source, **cross), cross_norm)
        h = self.before(x, mlp_norm)
        return self.after(x + feed_forward(h, **mlp, activation=self.activation), mlp_norm)

    def before(self, x, norm):  # [..., n, d_model] -> same, what a sublayer reads
        return self.norm(x, **norm) if self.pre_norm else x

    def after(self, x, norm):  # [..., n, d_model] -> same, once the sublayer's result is added
        return x if self.pre_norm else self.norm(x, **norm)

    def self_attention(self, x, q, k, v, o, mask, n_head, cache=None, layer=None):
        """Mix the tokens: x [..., n_new, d_model] -> same."""
        linears = (gpt2.linear(x, **part) for part in (q, k, v))
        queries, keys, values = [split_heads(part, n_head) for part in linears]
        if cache is not None:
            keys, values = cache.append(layer, keys, values)  # [..., n_head, n_all, d_head]
        heads = gpt2.attention(self.unscale(queries), keys, values, mask)
        return gpt2.linear(merge_heads(heads), **o)

    def cross_attention(self, x, source, q, k, v, o):
        """Mix in the source: x [..., n_new, d_model] -> same. `read` has already used k and v."""
        queries = split_heads(gpt2.linear(x, **q), self.n_head)
        heads = gpt2.attention(self.unscale(queries), *source)
        return gpt2.linear(merge_heads(heads), **o)

    def unscale(self, q):  # [..., d_head] -> same
        """Undo the division by sqrt(d_head) in gpt2.attention, if the scores are not scaled."""
        return q if self.scaled else q * math.sqrt(q.shape[-1])


class Decoder:
    """An encoder-decoder that has read a source. It writes the answer like GPT-2 continuing a text.

    source: a Cache of the source's keys and values, for the cross-attention in each layer.
    """

    def __init__(self, family: EncoderDecoder, source: Cache):
        self.family, self.source, self.params = family, source, family.params
        self.n_vocab, self.n_ctx, self.n_head = family.n_vocab, family.n_ctx, family.n_head
        self.start_ids, self.stop_ids = family.start_ids, family.stop_ids

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        """Return float32 logits. cache and last are the same as in GPT2.__call__."""
        n_new = np.shape(ids)[-1]
        positions = gpt2.new_positions(n_new, self.n_ctx, cache)
        source = self.source if cache is None else cache.source
        ends = np.array(source.length)[..., None] - 1  # every query sees the source up to here
        source_mask = gpt2.causal_mask(ends)  # [..., 1, 1, n_source]
        kv = source.kv[..., : source_mask.shape[-1], :]  # [2, n_layer, ..., n_source, d_head]
        stack, family = self.params["decoder"], self.family
        mask = gpt2.causal_mask(positions) + family.position_bias(stack, positions, both_ways=False)
        x = family.embed(ids, positions, stack)  # [..., n_new, d_model]
        for layer, block in enumerate(stack["blocks"]):
            more = {"source": (*kv[:, layer], source_mask), "cache": cache, "layer": layer}
            x = family.block(x, **block, mask=mask, n_head=self.n_head, **more)
        x = x if last is None else x[..., max(n_new - last, 0) :, :]
        x = family.norm(x, **stack["norm"]) if "norm" in stack else x
        logits = family.logits(x)
        if cache is not None:
            cache.commit(n_new)
        return logits

    def new_cache(self, *batch: int) -> Any:
        """Return an empty cache, as GPT2.new_cache does. All rows of a batch share its `source`."""
        _, n_layer, n_head, _, d_head = self.source.kv.shape
        cache: Any = Cache(n_layer, batch, n_head, self.n_ctx, d_head)
        cache.source = self.source
        return cache


class T5(EncoderDecoder):
    """T5, T5 v1.1 and Flan-T5. They have relative positions and unscaled scores, and their linear
    layers have no biases. Each stack also has a "relative_bias" [n_buckets, n_head]. If the head
    does not share the matrix wte, params also has "lm_head".

    scale_head: divide by sqrt(d_model) before the head, as T5 does if the head shares wte.
    """

    scaled = False

    def __init__(
        self, params, n_head, n_ctx, activation, scale_head=True, max_distance=128, eps=1e-6
    ):
        super().__init__(params, (n_head, n_head), n_ctx)
        self.activation, self.scale_head = activation, scale_head
        self.max_distance, self.eps = max_distance, eps

    def embed(self, ids, positions, stack):  # [..., n], [..., n] or [n] -> [..., n, d_model]
        return self.params["wte"][np.asarray(ids)]

    def norm(self, x, g, b=None):  # [..., n, d_model] -> same
        return rms_norm(x, g, self.eps)

    def position_bias(self, stack, positions, both_ways):  # -> [..., n_head, n_new, n_all]
        return relative_bias(stack["relative_bias"], positions, both_ways, self.max_distance)

    def logits(self, x):  # [..., n, d_model] -> [..., n, n_vocab]
        if self.scale_head:
            x = x * (1 / math.sqrt(self.d_model))
        return gpt2.linear(x, self.params.get("lm_head", self.params["wte"]))


class Bart(EncoderDecoder):
    """BART (a norm after each sublayer) and mBART (a norm before each sublayer, and a final norm).
    Each stack also has "wpe" [2 + n_ctx, d_model] and "embed_norm". params also has "logits_bias"
    [1, n_vocab], and "lm_head" if the head does not share the matrix wte."""

    def __init__(self, params, n_head, n_ctx, activation=gelu_erf, pre_norm=False, embed_scale=1):
        super().__init__(params, n_head, n_ctx)
        self.activation, self.pre_norm, self.embed_scale = activation, pre_norm, embed_scale

    def embed(self, ids, positions, stack):  # [..., n], [..., n] or [n] -> [..., n, d_model]
        x = self.params["wte"][np.asarray(ids)] * self.embed_scale
        x = x + stack["wpe"][positions + 2]  # the first two rows are unused, as in fairseq
        return self.norm(x, **stack["embed_norm"])

    def norm(self, x, g, b=None):  # [..., n, d_model] -> same
        return gpt2.layer_norm(x, g, b)

    def position_bias(self, stack, positions, both_ways):
        return np.float32(0)  # no bias: BART adds its positions in `embed`

    def logits(self, x):  # [..., n, d_model] -> [..., n, n_vocab]
        head = self.params.get("lm_head", self.params["wte"])
        return gpt2.linear(x, head, self.params["logits_bias"])


def relative_bias(table, positions, both_ways, max_distance):
    """Return the biases that T5 adds to the attention scores: [..., n_head, n_new, n_all]. They
    depend on the distance from query to key. table [n_buckets, n_head]: a bias for each bucket of
    distances; positions [..., n_new]: of the queries; both_ways: may keys come after the query?"""
    distance = np.arange(positions.max() + 1) - positions[..., None]  # [..., n_new, n_all]
    n_buckets = len(table) // 2 if both_ways else len(table)
    steps = np.abs(distance) if both_ways else np.maximum(-distance, 0)
    buckets = relative_buckets(steps, n_buckets, max_distance)
    if both_ways:
        buckets += np.where(distance > 0, n_buckets, 0)
    return np.moveaxis(table[buckets], -1, -3)


def relative_buckets(distance, n_buckets, max_distance):
    """Return the bucket of each distance, which is at least 0. Each short distance has its own
    bucket. Longer distances share wider and wider buckets; all very long ones are in the last."""
    n_exact = n_buckets // 2
    ratio = np.maximum(distance, 1).astype(np.float32) / n_exact
    wide = np.log(ratio) / math.log(max_distance / n_exact) * (n_buckets - n_exact)
    wide = np.minimum(n_exact + wide.astype(int), n_buckets - 1)
    return np.where(distance < n_exact, distance, wide)
