"""Encoder-decoders, T5, BART and mBART: the encoder reads a source, once; the decoder writes.

    model.condition(sources): source ids -> encoder -> keys and values for each decoder layer
    model(ids): decoder ids -> n_layer x (self-attention, cross-attention, MLP) -> logits

A conditioned model is a model like GPT-2, and every loop runs on it. Raffel et al. 2020, "Exploring
the Limits of Transfer Learning with a Unified Text-to-Text Transformer" (T5); Lewis et al. 2020,
"BART"; Liu et al. 2020, "Multilingual Denoising Pre-training for Neural Machine Translation"
(mBART). Shapes are written as in gpt2.py; every weight is [n_out, n_in].
"""

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpt2 import Cache, attention, check_ids, info, layer_norm, linear, merge_heads, split_heads
from interface import Filter, Ids
from layers import feed_forward, gelu_erf, rms_norm
from samplers import forced_id


class EncoderDecoder:
    """The part that T5 and BART share; a family adds the five functions below.

    params: {"wte": [n_vocab, d_model], "encoder": stack, "decoder": stack}. A stack is {"blocks":
    [...], "norm": its final norm}; a block is {"attn": {"q", "k", "v", "o"}, "cross": the same, in
    the decoder, "mlp": {"c_fc", "c_proj", "gate" if gated}}, and each one's norm: "attn_norm",
    "cross_norm", "mlp_norm". n_head: of the encoder and of the decoder; n_ctx: the most tokens of a
    source and of an answer; start_ids: the first ids of each answer; special_ids: the ids before
    and after a source.
    """

    embed: Callable  # ids [..., n], positions, stack -> [..., n, d_model]
    norm: Callable  # [..., n, d_model] -> same
    add_position_bias: Callable  # mask, stack, positions, n_all, both_ways -> mask
    logits: Callable  # [..., n, d_model] -> [..., n, n_vocab]
    activation: Callable  # [...] -> same
    pre_norm = True  # x + f(norm(x)), as in GPT-2; else norm(x + f(x))
    scaled = True  # are attention scores scaled by 1 / sqrt(d_head)?
    has_source = True

    def __init__(self, params, n_head, n_ctx, start_ids, stop_ids=(), special_ids=((), ()),
                 generation_config=None):  # fmt: skip
        self.params, (self.n_head_encoder, self.n_head) = params, n_head
        self.n_ctx = self.n_source = n_ctx
        self.start_ids, self.stop_ids = list(start_ids), tuple(stop_ids)
        self.special_ids, self.generation_config = special_ids, generation_config or {}
        self.source: EncoderOutput | None = None
        self.n_vocab, self.d_model = params["wte"].shape

    def begin(self, prompts: list[Ids]) -> "tuple[EncoderDecoder, list[Ids]]":
        """The model conditioned on these sources, and the first ids of each answer. A conditioned
        model begins with the prompts themselves, as GPT-2 does."""
        if self.source is not None:
            return self, prompts
        return self.condition(prompts), [self.start_ids] * len(prompts)

    def condition(self, sources: list[Ids]) -> "EncoderDecoder":
        """Run the encoder: lists of source ids, one per row -> a model of the decoder's ids given
        these sources. ValueError for a source that is empty, or longer than n_source."""
        longest = max(map(len, sources), default=0)
        if not all(map(len, sources)):
            raise ValueError("a source needs at least one token")
        if longest > self.n_source:
            raise ValueError(f"a source of {longest} tokens: the encoder takes {self.n_source}")
        ids = np.array([[*ids, *[-1] * (longest - len(ids))] for ids in sources])
        ids = ids[0] if len(sources) == 1 else ids  # [n_rows, n_source], or [n_source]
        x = self.encode(ids)  # [..., n_source, d_model]
        blocks = self.params["decoder"]["blocks"]
        kv = [[self.project(x, block["cross"], name, self.n_head) for block in blocks]
              for name in "kv"]  # fmt: skip
        conditioned = copy.copy(self)
        conditioned.source = EncoderOutput(np.array(kv), padding_mask(ids))
        return conditioned

    def encode(self, ids: ArrayLike) -> np.ndarray:
        """ids [..., n_source], -1 for padding on the right -> float32 [..., n_source, d_model]."""
        ids = check_ids(ids, self.n_vocab)
        stack, n = self.params["encoder"], ids.shape[-1]
        positions = np.arange(n)
        x = self.embed(ids, positions, stack)
        mask = self.add_position_bias(padding_mask(ids), stack, positions, n, both_ways=True)
        for block in stack["blocks"]:
            x = self.encoder_block(x, **block, mask=mask)
        return self.final_norm(x, stack)

    def __call__(
        self, ids: ArrayLike, cache: "SourceCache | None" = None, last: int | None = None
    ) -> np.ndarray:
        """The decoder: ids [..., n_new], -1 for padding on the left -> float32 logits
        [..., n_new, n_vocab]; `cache` and `last` as for GPT2. ValueError past n_ctx."""
        ids = check_ids(ids, self.n_vocab)
        if cache is None:
            cache = self.new_cache(*ids.shape[:-1])
        stack, n_new = self.params["decoder"], ids.shape[-1]
        positions, mask = cache.extend(ids)
        mask = self.add_position_bias(mask, stack, positions, cache.n_all, both_ways=False)
        x = self.embed(ids, positions, stack)  # [..., n_new, d_model]
        for layer, block in enumerate(stack["blocks"]):
            x = self.decoder_block(x, **block, mask=mask, cache=cache, layer=layer)
        if last is not None:
            x = x[..., max(0, n_new - last) :, :]
        return self.logits(self.final_norm(x, stack))

    def new_cache(self, *batch: int) -> "SourceCache":
        """An empty cache: new_cache() for one sequence [n_seq], new_cache(8) for ids [8, n_seq]."""
        if self.source is None:
            raise ValueError("an encoder-decoder reads its sources first: model.begin(sources)")
        blocks = self.params["decoder"]["blocks"]
        d_head = len(blocks[0]["attn"]["k"]["w"]) // self.n_head
        return SourceCache(self.source, len(blocks), batch, self.n_head, self.n_ctx, d_head)

    def __repr__(self):
        return info(self)

    def encoder_block(self, x, attn, attn_norm, mlp, mlp_norm, mask):  # [..., n, d_model] -> same
        h = self.before(x, attn_norm)
        k, v = (self.project(h, attn, name, self.n_head_encoder) for name in "kv")
        x = self.after(x + self.attend(h, attn, k, v, mask, self.n_head_encoder), attn_norm)
        return self.mlp_sublayer(x, mlp, mlp_norm)

    def decoder_block(self, x, attn, attn_norm, cross, cross_norm, mlp, mlp_norm, mask, cache,
                      layer):  # [..., n_new, d_model] -> same  # fmt: skip
        h = self.before(x, attn_norm)
        k, v = cache.append(layer, *(self.project(h, attn, name, self.n_head) for name in "kv"))
        x = self.after(x + self.attend(h, attn, k, v, mask, self.n_head), attn_norm)

        h, (k, v) = self.before(x, cross_norm), cache.source.kv[:, layer]
        x = self.after(x + self.attend(h, cross, k, v, cache.source.mask, self.n_head), cross_norm)
        return self.mlp_sublayer(x, mlp, mlp_norm)

    def mlp_sublayer(self, x, mlp, mlp_norm):  # [..., n, d_model] -> same
        h = feed_forward(self.before(x, mlp_norm), **mlp, activation=self.activation)
        return self.after(x + h, mlp_norm)

    def before(self, x, norm):  # [..., n, d_model] -> same: a sublayer's norm, if it comes before
        return self.norm(x, **norm) if self.pre_norm else x

    def after(self, x, norm):  # [..., n, d_model] -> same: a sublayer's norm, if it comes after
        return x if self.pre_norm else self.norm(x, **norm)

    def final_norm(self, x, stack):  # [..., n, d_model] -> same
        return self.norm(x, **stack["norm"]) if "norm" in stack else x

    def project(self, x, attn, name, n_head):  # [..., n, d_model] -> [..., n_head, n, d_head]
        return split_heads(linear(x, **attn[name]), n_head)

    def attend(self, x, attn, k, v, mask, n_head):  # [..., n_new, d_model] -> same
        q = self.project(x, attn, "q", n_head)
        scale = 1 / math.sqrt(q.shape[-1]) if self.scaled else 1
        return linear(merge_heads(attention(q, k, v, mask, scale)), **attn["o"])

    def add_special_tokens(self, ids: Ids, truncate: bool = False) -> Ids:
        """A text's ids -> the source as the model was trained to read it, such as <s> ... </s>;
        `truncate` keeps as much of its beginning as the encoder takes."""
        first, last = self.special_ids
        if truncate:
            ids = ids[: self.n_source - len(first) - len(last)]
        return [*first, *ids, *last]

    @property
    def prefix(self) -> Ids:
        """start_ids, then the forced first token if there is one."""
        forced = self.generation_config.get("forced_bos_token_id")
        return self.start_ids if forced is None else [*self.start_ids, forced]

    def forced_filters(self, n: int) -> list[Filter]:
        """Filters that force the checkpoint's first and last of n new tokens; apply them last."""
        positions = {"forced_bos_token_id": 0, "forced_eos_token_id": n - 1}
        forced = {name: self.generation_config.get(name) for name in positions}
        return [forced_id(token, len(self.start_ids) + positions[name])
                for name, token in forced.items() if token is not None]  # fmt: skip


class T5(EncoderDecoder):
    """T5, v1.1, flan. No biases, unscaled scores, relative position biases: a stack has
    "relative_bias" [n_buckets, n_head] for all its blocks. params have "lm_head" if it is untied.

    scale_head: multiply by d_model**-0.5 before the head, as T5 does if it is tied.
    """

    scaled = False

    def __init__(self, params, n_head, n_ctx, activation, scale_head=True, max_distance=128,
                 eps=1e-6, **ends):  # fmt: skip
        super().__init__(params, (n_head, n_head), n_ctx, **ends)
        self.activation, self.scale_head = activation, scale_head
        self.max_distance, self.eps = max_distance, eps

    def embed(self, ids, positions, stack):  # [..., n], [..., n] or [n] -> [..., n, d_model]
        return self.params["wte"][ids]

    def norm(self, x, g):  # [..., n, d_model] -> same
        return rms_norm(x, g, self.eps)

    def add_position_bias(self, mask, stack, positions, n_all, both_ways):
        """-> [..., n_head, n_new, n_all], which broadcasts; all layers share it."""
        table = stack["relative_bias"]
        bias = relative_bias(table, positions, n_all, both_ways, self.max_distance)
        return bias if mask is None else mask + bias

    def logits(self, x):  # [..., n, d_model] -> [..., n, n_vocab]
        if self.scale_head:
            x = x * (1 / math.sqrt(self.d_model))
        return linear(x, self.params.get("lm_head", self.params["wte"]))


class Bart(EncoderDecoder):
    """BART (norms after each sublayer), and mBART (norms before it, and a final norm). A stack has
    "wpe" [2 + n_ctx, d_model] and "embed_norm"; params have "logits_bias" [1, n_vocab], and
    "lm_head" if it is untied."""

    def __init__(self, params, n_head, n_ctx, activation=gelu_erf, pre_norm=False,
                 scale_embedding=False, **ends):  # fmt: skip
        super().__init__(params, n_head, n_ctx, **ends)
        self.activation, self.pre_norm = activation, pre_norm
        self.embed_scale = math.sqrt(self.d_model) if scale_embedding else 1

    def embed(self, ids, positions, stack):  # [..., n], [..., n] or [n] -> [..., n, d_model]
        x = self.params["wte"][ids] * self.embed_scale
        x += stack["wpe"][positions + 2]  # the first two rows are unused, as in fairseq
        return self.norm(x, **stack["embed_norm"])

    def norm(self, x, g, b):  # [..., n, d_model] -> same
        return layer_norm(x, g, b)

    def add_position_bias(self, mask, stack, positions, n_all, both_ways):
        return mask  # BART adds its positions in `embed`

    def logits(self, x):  # [..., n, d_model] -> [..., n, n_vocab]
        logits = linear(x, self.params.get("lm_head", self.params["wte"]))
        logits += self.params["logits_bias"]
        return logits

    def for_languages(self, source: int, target: int | None = None) -> "Bart":
        """This mBART for a source in one language and an answer in another, by the ids of their
        codes. mBART cc25 has them after the source, and first in the answer. mBART-50, whose
        answers start with </s>, has them before the source, and as the first token, forced."""
        model, end = copy.copy(self), self.stop_ids[:1]
        is_50 = self.start_ids == [*end]
        model.special_ids = ((source,), end) if is_50 else ((), (*end, source))
        if target is not None and is_50:
            model.generation_config = self.generation_config | {"forced_bos_token_id": target}
        elif target is not None:
            model.start_ids = [target]
        return model


# --- the source, as the decoder sees it -----------------------------------------------------------


class EncoderOutput(NamedTuple):
    """Keys and values of the encoder's output, for cross-attention. `*rows` is n_rows, or nothing:
    a single source serves any number of rows, such as beams."""

    kv: np.ndarray  # [2, n_layer, *rows, n_head, n_source, d_head]
    mask: np.ndarray  # [*rows, 1, 1, n_source], -1e10 at padding

    def select(self, rows: list[int]) -> "EncoderOutput":
        """A new one with the sources of these rows, in this order."""
        if self.kv.ndim == 5 or list(rows) == list(range(len(self.mask))):
            return self
        index = rows[0] if len(set(rows)) == 1 else list(rows)  # an int drops the row axis
        return EncoderOutput(self.kv[:, :, index], self.mask[index])

    def pad(self, n_rows, n_source):  # -> the same for n_rows rows of n_source positions
        kv = self.kv[:, :, None] if self.kv.ndim == 5 else self.kv
        more = [(0, n_source - kv.shape[-2])]
        kv = np.pad(kv, [(0, 0)] * 4 + more + [(0, 0)])
        mask = np.pad(self.mask, [(0, 0)] * (self.mask.ndim - 1) + more, constant_values=-1e10)
        kv = np.broadcast_to(kv, (*kv.shape[:2], n_rows, *kv.shape[3:]))
        return EncoderOutput(kv, np.broadcast_to(mask, (n_rows, 1, 1, n_source)))


class SourceCache(Cache):
    """The decoder's cache. `select` and `join` take the sources along; `cut` leaves them alone."""

    def __init__(self, source, *shape):
        super().__init__(*shape)
        self.source = source

    def select(self, rows):
        super().select(rows)
        self.source = self.source.select(rows)

    def join(self, other):
        n_source = max(cache.source.mask.shape[-1] for cache in (self, other))
        ours, theirs = (cache.source.pad(len(cache.lengths), n_source) for cache in (self, other))
        kv, mask = np.concatenate([ours.kv, theirs.kv], 2), np.concatenate([ours.mask, theirs.mask])
        self.source = EncoderOutput(kv, mask)
        super().join(other)


def padding_mask(ids):  # [..., n] -> [..., 1, 1, n]
    """-1e10 where a query may not attend, at padding; else 0."""
    return np.where(ids < 0, np.float32(-1e10), np.float32(0))[..., None, None, :]


# --- T5's positions -------------------------------------------------------------------------------


def relative_bias(table, positions, n_all, both_ways, max_distance):
    """T5's relative position bias: per head, a number added to each score according to the distance
    key - query. table [n_buckets, n_head], positions of the queries [..., n_new] ->
    [..., n_head, n_new, n_all]. both_ways: half of the buckets are for keys after the query."""
    distance = np.arange(n_all) - positions[..., None]  # [..., n_new, n_all]
    n_buckets = len(table) // 2 if both_ways else len(table)
    if both_ways:
        buckets = relative_buckets(-np.abs(distance), n_buckets, max_distance)
        buckets += np.where(distance > 0, n_buckets, 0)
    else:
        buckets = relative_buckets(distance, n_buckets, max_distance)
    return np.moveaxis(table[buckets], -1, -3)


def relative_buckets(distance, n_buckets, max_distance):
    """Bucket of each distance key - query, ints, for keys at or before the query. Short distances
    have a bucket each, longer ones share ever wider buckets up to max_distance."""
    distance = np.maximum(-distance, 0)
    n_exact = n_buckets // 2
    ratio = np.maximum(distance, 1).astype(np.float32) / n_exact
    wide = np.log(ratio) / math.log(max_distance / n_exact) * (n_buckets - n_exact)
    wide = np.minimum(n_exact + wide.astype(int), n_buckets - 1)
    return np.where(distance < n_exact, distance, wide)
