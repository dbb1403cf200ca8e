"""Encoder-decoders, T5, BART and mBART: the encoder reads a source, once; the decoder writes.

    model.condition(sources): source ids -> encoder -> keys and values for each decoder layer
    model(ids): decoder ids -> n_layer x (self-attention, cross-attention, mlp) -> logits

Once conditioned, a model is one like GPT-2, and every loop runs on it. Raffel et al. 2020,
"Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer" (T5); Lewis et
al. 2020, "BART"; Liu et al. 2020, "Multilingual Denoising Pre-training for Neural Machine
Translation" (mBART). Shapes are written as in gpt2.py; every weight is [n_out, n_in].
"""

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from activations import gelu_erf
from gpt2 import (
    Cache,
    attention,
    check_ids,
    layer_norm,
    linear,
    merge_heads,
    positions_and_mask,
    split_heads,
)
from interface import Filter, Ids
from samplers import forced_id


def rms_norm(x, g, eps=1e-6):  # [..., d_model] -> same: mean square 1, then g (Zhang et al. 2019)
    x = x / np.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + eps)
    x *= g
    return x


def feed_forward(x, c_fc, c_proj, activation, gate=None):  # [..., d_model] -> [..., d_model]
    h = activation(linear(x, **c_fc))
    if gate is not None:  # a gated linear unit (Shazeer 2020, "GLU Variants")
        h *= linear(x, **gate)
    return linear(h, **c_proj)


def relative_buckets(distance, n_buckets, max_distance):
    """key position - query position, ints -> bucket, 0 to n_buckets - 1, for a query that looks
    backwards only: one for each short distance, then ever wider ones up to max_distance."""
    distance = np.maximum(-distance, 0)
    n_exact = n_buckets // 2
    ratio = np.maximum(distance, 1).astype(np.float32) / n_exact
    wide = np.log(ratio) / math.log(max_distance / n_exact) * (n_buckets - n_exact)
    wide = np.minimum(n_exact + wide.astype(int), n_buckets - 1)
    return np.where(distance < n_exact, distance, wide)


def relative_bias(table, n_new, n_all, both_ways, max_distance):
    """What T5 knows of positions: for each head a number that is added to the score of a query and
    a key, by their distance. table [n_buckets, n_head] -> [n_head, n_new, n_all]. With `both_ways`
    half of the buckets are for keys after the query."""
    distance = np.arange(n_all) - np.arange(n_all - n_new, n_all)[:, None]  # [n_new, n_all]
    n_buckets = len(table) // 2 if both_ways else len(table)
    if both_ways:
        buckets = relative_buckets(-np.abs(distance), n_buckets, max_distance)
        buckets += np.where(distance > 0, n_buckets, 0)
    else:
        buckets = relative_buckets(distance, n_buckets, max_distance)
    return table.T[:, buckets]


class Source(NamedTuple):
    """What the decoder sees of its sources: for each layer, the keys and values of the encoder's
    output. A single source has no axis of rows: it serves any number of rows, such as beams."""

    keys: list  # n_layer x [n_rows, n_head, n_source, d_head]
    values: list
    mask: np.ndarray | None  # [n_rows, 1, 1, n_source], None without padding

    def select(self, rows: list[int]) -> "Source":
        """The sources of these rows, in this order."""
        if self.keys[0].ndim == 3 or list(rows) == list(range(len(self.keys[0]))):
            return self
        at = rows[0] if len(set(rows)) == 1 else list(rows)  # an int takes the axis of rows away
        mask = None if self.mask is None else self.mask[at]
        return Source([k[at] for k in self.keys], [v[at] for v in self.values], mask)


class SourceCache(Cache):
    """The decoder's cache, which takes the sources along when its rows are selected. They are no
    part of what is cut."""

    def __init__(self, source, *shape):
        super().__init__(*shape)
        self.source = source

    def select(self, rows):
        super().select(rows)
        self.source = self.source.select(rows)


class EncoderDecoder:
    """What T5 and BART share. params: {"wte": [n_vocab, d_model], "encoder": stack, "decoder":
    stack}, and what a family adds. A stack is {"blocks": [...], "norm": at its end}; a block is
    {"attn": {"q", "k", "v", "o"}, "cross": the same, in the decoder, "mlp": {"c_fc", "c_proj", and
    "gate" where it is gated}}, and the norm of each of them: "attn_norm", "cross_norm", "mlp_norm".

    n_head: of the encoder and of the decoder; n_ctx: the most tokens of either; start_ids: what the
    decoder's ids begin with; wrapping: the ids before and behind a source.
    """

    embed: Callable  # what a family adds, see T5 and Bart
    norm: Callable
    biased: Callable
    logits: Callable
    activation: Callable
    pre_norm = True  # where a norm stands: x + f(norm(x)), or norm(x + f(x))
    scaled = True  # the scores, by 1 / sqrt(d_head)

    def __init__(self, params, n_head, n_ctx, start_ids, stop_ids=(), wrapping=((), ())):
        self.params, (self.n_head_encoder, self.n_head) = params, n_head
        self.n_ctx = self.n_source = n_ctx
        self.start_ids, self.stop_ids = list(start_ids), tuple(stop_ids)
        self.wrapping, self.defaults = wrapping, {}
        self.source: Source | None = None
        self.n_vocab, self.d_model = params["wte"].shape

    def condition(self, sources: list[Ids]) -> "EncoderDecoder":
        """Lists of source ids, one a row -> a model of the decoder's ids given these sources: the
        encoder has run. Raises ValueError for a source that is empty, longer than n_source, or not
        of ids."""
        longest = max(map(len, sources))
        if not all(map(len, sources)):
            raise ValueError("a source needs at least one token")
        if longest > self.n_source:
            raise ValueError(f"a source of {longest} tokens: the encoder takes {self.n_source}")
        padded = [[*ids, *[-1] * (longest - len(ids))] for ids in sources]
        ids = check_ids(padded[0] if len(sources) == 1 else padded, self.n_vocab)
        x = self.encode(ids)  # [..., n_source, d_model]
        keys, values = [], []
        for block in self.params["decoder"]["blocks"]:
            for weights, seen in ((block["cross"]["k"], keys), (block["cross"]["v"], values)):
                seen.append(np.ascontiguousarray(split_heads(linear(x, **weights), self.n_head)))
        conditioned = copy.copy(self)
        conditioned.source = Source(keys, values, padding_mask(ids))
        return conditioned

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """ids [..., n_source], -1 for padding on the right -> float32 [..., n_source, d_model]."""
        stack, n = self.params["encoder"], ids.shape[-1]
        x = self.embed(ids, np.arange(n), stack)
        mask = self.biased(padding_mask(ids), stack, n, n, both_ways=True)
        for block in stack["blocks"]:
            x = self.encoder_block(x, **block, mask=mask)
        return self.last_norm(x, stack)

    def new_cache(self, *batch: int) -> SourceCache:
        """An empty cache: new_cache() for one sequence [n_seq], new_cache(8) for ids [8, n_seq]."""
        blocks = self.params["decoder"]["blocks"]
        d_head = len(blocks[0]["attn"]["k"]["w"]) // self.n_head
        return SourceCache(self.source, len(blocks), batch, self.n_head, self.n_ctx, d_head)

    def select(self, rows: list[int]) -> "EncoderDecoder":
        """The model conditioned on the sources of these rows alone."""
        selected = copy.copy(self)
        selected.source = self.source and self.source.select(rows)
        return selected

    def __call__(
        self, ids: ArrayLike, cache: SourceCache | None = None, last: int | None = None
    ) -> np.ndarray:
        """The decoder: ids [..., n_new], -1 for padding on the left -> float32 logits
        [..., n_new, n_vocab]; `cache` and `last` as for GPT2. ValueError past n_ctx, or for what
        is not ids."""
        if self.source is None:
            raise ValueError("an encoder-decoder is conditioned on its sources first")
        ids = check_ids(ids, self.n_vocab)
        if cache is None:
            cache = self.new_cache(*ids.shape[:-1])
        stack, n_new = self.params["decoder"], ids.shape[-1]
        positions, pad, mask = positions_and_mask(ids, cache, self.n_ctx)
        mask = self.biased(mask, stack, n_new, cache.length + n_new, both_ways=False)
        x = self.embed(ids, positions, stack)  # [..., n_new, d_model]
        for layer, block in enumerate(stack["blocks"]):
            x = self.decoder_block(x, **block, mask=mask, cache=cache, layer=layer)
        cache.length, cache.pad = cache.length + n_new, pad
        if last is not None:
            x = x[..., -last:, :]
        return self.logits(self.last_norm(x, stack))

    def encoder_block(self, x, attn, attn_norm, mlp, mlp_norm, mask):  # [..., n, d_model] -> same
        def look_around(x):
            keys, values = self.keys_values(x, attn, self.n_head_encoder)
            return self.look(x, attn, keys, values, mask, self.n_head_encoder)

        x = self.step(x, look_around, attn_norm)
        return self.step(x, lambda x: feed_forward(x, **mlp, activation=self.activation), mlp_norm)

    def decoder_block(self, x, attn, attn_norm, cross, cross_norm, mlp, mlp_norm, mask, cache,
                      layer):  # [..., n_new, d_model] -> same  # fmt: skip
        def look_back(x):
            keys, values = cache.append(layer, *self.keys_values(x, attn, self.n_head))
            return self.look(x, attn, keys, values, mask, self.n_head)

        def look_at_source(x):
            seen = cache.source.keys[layer], cache.source.values[layer], cache.source.mask
            return self.look(x, cross, *seen, self.n_head)

        x = self.step(x, look_back, attn_norm)
        x = self.step(x, look_at_source, cross_norm)
        return self.step(x, lambda x: feed_forward(x, **mlp, activation=self.activation), mlp_norm)

    def step(self, x, f, norm):  # [..., n, d_model] -> same
        """One step along the residual stream."""
        if self.pre_norm:
            return x + f(self.norm(x, **norm))
        return self.norm(x + f(x), **norm)

    def keys_values(self, x, attn, n_head):  # [..., n, d_model] -> 2 x [..., n_head, n, d_head]
        return (split_heads(linear(x, **attn[name]), n_head) for name in "kv")

    def look(self, x, attn, keys, values, mask, n_head):  # [..., n_new, d_model] -> same
        queries = split_heads(linear(x, **attn["q"]), n_head)
        if self.scaled:
            queries *= 1 / math.sqrt(queries.shape[-1])
        return linear(merge_heads(attention(queries, keys, values, mask)), **attn["o"])

    def last_norm(self, x, stack):  # [..., n, d_model] -> same
        return self.norm(x, **stack["norm"]) if "norm" in stack else x

    def wrap(self, ids: Ids, truncate: bool = False) -> Ids:
        """A text's ids -> the source as the model was trained to read it, such as <s> ... </s>;
        `truncate` keeps as much from its beginning as the encoder takes."""
        before, behind = self.wrapping
        if truncate:
            ids = ids[: self.n_source - len(before) - len(behind)]
        return [*before, *ids, *behind]

    @property
    def prefix(self) -> Ids:
        """The ids that every answer begins with: start_ids, and what is forced to come first."""
        forced = self.defaults.get("forced_bos_token_id")
        return self.start_ids if forced is None else [*self.start_ids, forced]

    def filters(self, n: int) -> list[Filter]:
        """What the checkpoint forces of n new tokens, the first or the last, as filters; they go
        behind all others."""
        places = {"forced_bos_token_id": 0, "forced_eos_token_id": n - 1}
        forced = {name: self.defaults.get(name) for name in places}
        start = len(self.start_ids)
        return [forced_id(token, start + places[name])
                for name, token in forced.items() if token is not None]  # fmt: skip


class T5(EncoderDecoder):
    """T5, v1.1, flan. No biases, scores as they are, positions by what is added to the scores: a
    stack has "relative_bias" [n_buckets, n_head] for all its blocks. "lm_head" where untied.

    scale_head: multiply by d_model**-0.5 before the head, as T5 does where it is tied.
    """

    scaled = False

    def __init__(self, params, n_head, n_ctx, activation, scale_head=True, max_distance=128,
                 eps=1e-6, **ends):  # fmt: skip
        super().__init__(params, (n_head, n_head), n_ctx, **ends)
        self.activation, self.scale_head = activation, scale_head
        self.max_distance, self.eps = max_distance, eps

    def embed(self, ids, positions, stack):  # [..., n] x 2 -> [..., n, d_model]
        return self.params["wte"][ids]

    def norm(self, x, g):  # [..., n, d_model] -> same
        return rms_norm(x, g, self.eps)

    def biased(self, mask, stack, n_new, n_all, both_ways):  # -> [..., n_head, n_new, n_all]
        """The same for each layer: so it is made once a pass, and the mask with it."""
        bias = relative_bias(stack["relative_bias"], n_new, n_all, both_ways, self.max_distance)
        return bias if mask is None else mask + bias

    def logits(self, x):  # [..., n, d_model] -> [..., n, n_vocab]
        if self.scale_head:
            x = x * (1 / math.sqrt(self.d_model))
        return linear(x, self.params.get("lm_head", self.params["wte"]))


class Bart(EncoderDecoder):
    """BART (norms behind each step), and mBART (norms before it, and one at the end of a stack).
    A stack has "wpe" [2 + n_ctx, d_model] and "embed_norm", params have "logits_bias" [1, n_vocab],
    and "lm_head" where untied."""

    def __init__(self, params, n_head, n_ctx, activation=gelu_erf, pre_norm=False,
                 scale_embedding=False, **ends):  # fmt: skip
        super().__init__(params, n_head, n_ctx, **ends)
        self.activation, self.pre_norm = activation, pre_norm
        self.embed_scale = math.sqrt(self.d_model) if scale_embedding else 1

    def embed(self, ids, positions, stack):  # [..., n] x 2 -> [..., n, d_model]
        x = self.params["wte"][ids] * self.embed_scale
        x += stack["wpe"][positions + 2]  # the first two rows belong to no position
        return self.norm(x, **stack["embed_norm"])

    def between(self, source: int, target: int | None = None) -> "Bart":
        """This mBART for a source in one language and an answer in another, by the ids of their
        codes. In mBART cc25 they stand behind the source, and first in the answer; in mBART-50,
        whose answers start with </s>, before the source, and as the first token that is forced."""
        model, end = copy.copy(self), self.stop_ids[:1]
        is_50 = self.start_ids == [*end]
        model.wrapping = ((source,), end) if is_50 else ((), (*end, source))
        if target is not None and is_50:
            model.defaults = self.defaults | {"forced_bos_token_id": target}
        elif target is not None:
            model.start_ids = [target]
        return model

    def norm(self, x, g, b):  # [..., n, d_model] -> same
        return layer_norm(x, g, b)

    def biased(self, mask, stack, n_new, n_all, both_ways):  # -> [..., 1, n_new, n_all], or None
        return mask  # the positions are in the embedding

    def logits(self, x):  # [..., n, d_model] -> [..., n, n_vocab]
        logits = linear(x, self.params.get("lm_head", self.params["wte"]))
        logits += self.params["logits_bias"]
        return logits


def padding_mask(ids):  # [..., n] -> [..., 1, 1, n], or None without padding
    """-1e10 where a query must not look: at padding."""
    if (ids >= 0).all():
        return None
    return np.where(ids < 0, np.float32(-1e10), np.float32(0))[..., None, None, :]
