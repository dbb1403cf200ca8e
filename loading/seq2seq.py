"""T5, BART and mBART from a folder in the layout of Hugging Face."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoder import Tokenizer
from families.layers import ACTIVATIONS
from loading.config import read_activation, read_count, read_eps, read_generation_config
from loading.params import Shapes, build_params, rename, without_padding
from loading.tokenizers import (
    SentencePieceTokenizer,
    mbart_tokenizer,
    read_gpt2_tokenizer,
    t5_tokenizer,
)
from loading.weights import read_weights
from families.seq2seq import T5, Bart


def load_t5(folder: Path, config: dict) -> tuple[SentencePieceTokenizer, T5]:
    """T5, v1.1, flan -> (tokenizer, model). Raises ValueError."""
    names = "vocab_size", "d_model", "d_kv", "d_ff", "num_heads", "num_layers"
    n_vocab, d_model, d_kv, d_ff, n_head, n_encoder = (read_count(config, name) for name in names)
    n_layer = n_encoder, read_count(config, "num_decoder_layers", n_encoder)
    n_ctx = read_count(config, "n_positions", 512)  # T5 itself has no maximum length
    n_buckets = read_count(config, "relative_attention_num_buckets", 32)
    max_distance = read_count(config, "relative_attention_max_distance", 128)
    if n_buckets % 4 or max_distance <= n_buckets // 2:
        raise ValueError(f"{n_buckets} buckets do not reach a distance of {max_distance}")
    form, _, name = str(config.get("feed_forward_proj", "relu")).rpartition("-")
    gated = form == "gated"
    name = "gelu_new" if gated and name == "gelu" else name  # v1.1's "gelu" is gelu_new
    if form not in ("", "gated") or name not in ACTIVATIONS:
        raise ValueError(f"feed_forward_proj = {config['feed_forward_proj']!r}")
    eps = read_eps(config, 1e-6)
    scale_head = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    tokenizer = t5_tokenizer(folder / "spiece.model", n_vocab)
    ends = read_ends(folder, config, min(n_vocab, tokenizer.n_vocab))

    tensors = read_tensors(folder)
    untied = "lm_head.weight" in tensors
    shapes = t5_shapes(n_vocab, d_model, d_kv, d_ff, n_head, n_layer, n_buckets, gated, untied)
    params = build_params(tensors, shapes, lambda name: t5_name(name, gated))
    params = without_padding(params, tokenizer.n_vocab)
    return tokenizer, T5(params, n_head, n_ctx, ACTIVATIONS[name], scale_head is not False,
                         max_distance, eps, **ends)  # fmt: skip


def load_bart(folder: Path, config: dict) -> tuple[Tokenizer | SentencePieceTokenizer, Bart]:
    """BART, mBART -> (tokenizer, model). Raises ValueError."""
    is_mbart, sides = config["model_type"] == "mbart", ("encoder", "decoder")
    n_head = [read_count(config, f"{side}_attention_heads") for side in sides]
    n_layer = [read_count(config, f"{side}_layers") for side in sides]
    d_ff = [read_count(config, f"{side}_ffn_dim") for side in sides]
    n_vocab, d_model = read_count(config, "vocab_size"), read_count(config, "d_model")
    n_ctx = read_count(config, "max_position_embeddings")
    if any(d_model % n for n in n_head):
        raise ValueError(f"d_model = {d_model} is not a multiple of the heads {n_head}")
    activation = read_activation(config, "gelu")
    scale_embedding = config.get("scale_embedding", False) is True
    if is_mbart:
        tokenizer: Any = mbart_tokenizer(folder / "sentencepiece.bpe.model", n_vocab)
    else:
        tokenizer = read_gpt2_tokenizer(folder, bos=False)  # the model adds <s> and </s>
    ends = read_ends(folder, config, min(n_vocab, tokenizer.n_vocab))

    tensors = read_tensors(folder)
    tensors.setdefault("final_logits_bias", np.zeros((1, n_vocab), np.float32))
    untied = "lm_head.weight" in tensors
    shapes = bart_shapes(n_vocab, n_ctx, d_model, d_ff, n_layer, is_mbart, untied)
    params = build_params(tensors, shapes, lambda name: rename(name, BART_NAMES))
    params = without_padding(params, tokenizer.n_vocab)
    model = Bart(params, n_head, n_ctx, activation, is_mbart, scale_embedding, **ends)
    if is_mbart and "en_XX" in tokenizer.special:
        model = model.for_languages(tokenizer.special["en_XX"])
    return tokenizer, model


UNUSED = "EncDecAttention.relative_attention_bias.weight", "encoder.version", "decoder.version"


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """The folder's weights -> {name: array}, one name for each array. Raises ValueError."""
    tensors = {
        name.removeprefix("model."): array
        for name, array in read_weights(folder).items()
        if not name.endswith(UNUSED)
    }
    for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        if copy in tensors:
            tensors.setdefault("shared.weight", tensors.pop(copy))
    return tensors


def read_ends(folder: Path, config: dict, n_vocab: int) -> dict:
    """The tokens that texts begin and end with -> {generation_config, start_ids, stop_ids,
    special_ids} as seq2seq.py has them. Ids from n_vocab on have no token, or no embedding. Raises
    ValueError."""
    found = read_generation_config(folder) or config
    if found.get("force_bos_token_to_be_generated") is True:  # of the first BART summarisers
        found = {"forced_bos_token_id": found.get("bos_token_id")} | found
    ends = {f"{name}_token_id" for name in ("decoder_start", "bos", "eos", "pad")}
    settings = {"do_sample": False} | {key: config[key] for key in ends & set(config)} | found

    def ids(key):  # an id, a list of ids, or none -> list of ids
        value = settings.get(key)
        some = value if isinstance(value, list) else [] if value is None else [value]
        if not all(type(id) is int and 0 <= id < n_vocab for id in some):
            raise ValueError(f"{key} = {value!r}")
        return some

    for key in ("forced_bos_token_id", "forced_eos_token_id"):
        settings[key] = next(iter(ids(key)), None)
    family, stop_ids = config["model_type"], ids("eos_token_id")
    first = {"t5": "pad_token_id", "bart": "eos_token_id", "mbart": "bos_token_id"}
    start = ids("decoder_start_token_id") or ids(first[family])
    if not start:
        raise ValueError("no decoder_start_token_id")
    begin = (ids("bos_token_id") or [0])[:1] if family == "bart" else []
    special_ids = tuple(begin), tuple(stop_ids[:1])
    return {"start_ids": start[:1], "stop_ids": stop_ids, "special_ids": special_ids,
            "generation_config": settings}  # fmt: skip


T5_NAMES = {
    "wte": "shared.weight", "lm_head": "lm_head.weight", "blocks": "block", "g": "weight",
    "w": "weight", "norm": "final_layer_norm", "attn": "layer.0.SelfAttention",
    "attn_norm": "layer.0.layer_norm", "cross": "layer.1.EncDecAttention",
    "cross_norm": "layer.1.layer_norm", "gate": "wi_1", "c_proj": "wo",
    "relative_bias": "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
}  # fmt: skip
BART_NAMES = {  # encoder.blocks.3.attn.q.w -> encoder.layers.3.self_attn.q_proj.weight
    "wte": "shared.weight", "lm_head": "lm_head.weight", "logits_bias": "final_logits_bias",
    "wpe": "embed_positions.weight", "embed_norm": "layernorm_embedding", "blocks": "layers",
    "g": "weight", "w": "weight", "b": "bias", "norm": "layer_norm", "attn": "self_attn",
    "attn_norm": "self_attn_layer_norm", "cross": "encoder_attn",
    "cross_norm": "encoder_attn_layer_norm", "mlp": "", "mlp_norm": "final_layer_norm",
    "c_fc": "fc1", "c_proj": "fc2", "q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj",
}  # fmt: skip


def t5_name(name: str, gated: bool) -> str:
    """encoder.blocks.3.attn.q.w -> encoder.block.3.layer.0.SelfAttention.q.weight"""
    last = "layer.2" if name.startswith("decoder") else "layer.1"  # the decoder has cross-attention
    mlp = {"mlp": f"{last}.DenseReluDense", "mlp_norm": f"{last}.layer_norm"}
    return rename(name, T5_NAMES | mlp | {"c_fc": "wi_0" if gated else "wi"})


def t5_shapes(
    n_vocab: int, d_model: int, d_kv: int, d_ff: int, n_head: int, n_layer: Sequence[int],
    n_buckets: int, gated: bool, untied: bool,
) -> Shapes:  # fmt: skip
    """T5's parameters as a tree of shapes. n_layer: (encoder, decoder); d_kv: of one head."""
    stack = {"relative_bias": (n_buckets, n_head), "norm": {"g": (d_model,)}}
    sizes = n_vocab, d_model, n_head * d_kv, (d_ff, d_ff), n_layer
    return two_stacks(stack, *sizes, bias=False, gated=gated, untied=untied)


def bart_shapes(
    n_vocab: int, n_ctx: int, d_model: int, d_ff: Sequence[int], n_layer: Sequence[int],
    final_norm: bool, untied: bool,
) -> Shapes:  # fmt: skip
    """BART's and mBART's parameters as a tree of shapes. n_layer, d_ff: (encoder, decoder);
    final_norm: mBART's, at the end of each stack."""
    norm = {"g": (d_model,), "b": (d_model,)}
    stack = {"wpe": (n_ctx + 2, d_model), "embed_norm": norm}
    stack |= {"norm": norm} if final_norm else {}
    sizes = n_vocab, d_model, d_model, d_ff, n_layer
    shapes = two_stacks(stack, *sizes, bias=True, gated=False, untied=untied)
    return shapes | {"logits_bias": (1, n_vocab)}


def two_stacks(
    stack: Shapes, n_vocab: int, d_model: int, d_attn: int, d_ff: Sequence[int],
    n_layer: Sequence[int], bias: bool, gated: bool, untied: bool,
) -> Shapes:  # fmt: skip
    """An encoder and a decoder: `stack`, and blocks of attention, cross-attention (decoder), MLP.
    d_attn: of all heads."""

    def dense(n_in, n_out):  # x [..., n_in] -> x @ w.T + b [..., n_out]
        return {"w": (n_out, n_in)} | ({"b": (n_out,)} if bias else {})

    norm = {"g": (d_model,)} | ({"b": (d_model,)} if bias else {})
    qkv = dict.fromkeys("qkv", dense(d_model, d_attn))
    attn = qkv | {"o": dense(d_attn, d_model)}
    shapes: dict = {"wte": (n_vocab, d_model)}
    for i, side in enumerate(("encoder", "decoder")):
        mlp = {"c_fc": dense(d_model, d_ff[i]), "c_proj": dense(d_ff[i], d_model)}
        mlp |= {"gate": mlp["c_fc"]} if gated else {}
        block = {"attn": attn, "attn_norm": norm, "mlp": mlp, "mlp_norm": norm}
        block |= {"cross": attn, "cross_norm": norm} if side == "decoder" else {}
        shapes[side] = stack | {"blocks": [block] * n_layer[i]}
    return shapes | {"lm_head": (n_vocab, d_model)} if untied else shapes
