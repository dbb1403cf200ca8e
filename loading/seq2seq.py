"""Loads T5, BART and mBART from a folder in Hugging Face's layout."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from families.seq2seq import T5, Bart
from loading.config import activation, read_sizes
from loading.errors import UserError
from loading.parameters import settle_embeddings, take
from loading.weights import read_weights

UNUSED = "EncDecAttention.relative_attention_bias.weight", "encoder.version", "decoder.version"
COPIES = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
# The words of parameters.py for a stack and a decoder's block. An encoder's has none like CROSS.
T5_STACK = """norm=final_layer_norm
    relative_bias=block.0.layer.0.SelfAttention.relative_attention_bias.weight"""
T5_BLOCK = """attn.q=layer.0.SelfAttention.q attn.k=layer.0.SelfAttention.k
    attn.v=layer.0.SelfAttention.v attn.o=layer.0.SelfAttention.o attn_norm=layer.0.layer_norm
    cross.q=layer.1.EncDecAttention.q cross.k=layer.1.EncDecAttention.k
    cross.v=layer.1.EncDecAttention.v cross.o=layer.1.EncDecAttention.o
    cross_norm=layer.1.layer_norm mlp.c_fc=layer.2.DenseReluDense.wi
    mlp.c_proj=layer.2.DenseReluDense.wo mlp_norm=layer.2.layer_norm"""
CROSS = r"cross\S*"
BART_STACK = "wpe=embed_positions.weight embed_norm=layernorm_embedding+"
BART_BLOCK = """attn.q=self_attn.q_proj+ attn.k=self_attn.k_proj+ attn.v=self_attn.v_proj+
    attn.o=self_attn.out_proj+ attn_norm=self_attn_layer_norm+ cross.q=encoder_attn.q_proj+
    cross.k=encoder_attn.k_proj+ cross.v=encoder_attn.v_proj+ cross.o=encoder_attn.out_proj+
    cross_norm=encoder_attn_layer_norm+ mlp.c_fc=fc1+ mlp.c_proj=fc2+ mlp_norm=final_layer_norm+"""


def read_t5(folder: Path, config: dict, n_tokens: int) -> T5:
    """Return a T5, T5 v1.1 or Flan-T5 with n_tokens tokens. Raises ValueError."""
    n_layer = config.get("num_layers", config.get("num_hidden_layers"))  # one key with two names
    config = {"relative_attention_num_buckets": 32} | config | {"encoder_layers": n_layer}
    config["decoder_layers"] = config.get("num_decoder_layers") or n_layer
    keys = "vocab_size", "d_model", "d_ff", "num_heads", "d_kv", "relative_attention_num_buckets"
    n_vocab, d, n_inner, n_head, d_head, n_buckets = read_sizes(config, *keys)
    sizes = {"n_vocab": n_vocab, "d": d, "n_inner": n_inner, "n_head": n_head, "n_tokens": n_tokens}
    sizes |= {"n_q": n_head * d_head, "n_kv": n_head * d_head, "n_buckets": n_buckets}
    tensors = read_weights(folder, "transformer.", UNUSED)
    tied = config.get("tie_word_embeddings") is not False
    scale_head = config.get("scale_decoder_outputs", tied)
    # For transformers 5, the head of a T5 v1.1 is tied, too, but it is not scaled.
    tied = tied and (scale_head or "lm_head.weight" not in tensors)
    head, params = settle_embeddings(tensors, COPIES, tied), {}
    form = config.get("feed_forward_proj", "relu")  # the two newer keys below win
    name = "gelu_new" if form == "gated-gelu" else form.removeprefix("gated-")
    is_gated = config.get("is_gated_act", form.startswith("gated-"))
    gate = "wi_1 mlp.gate=layer.2.DenseReluDense.wi_0" if is_gated else "wi"
    block = T5_BLOCK.replace("wi", gate)
    blocks = {"encoder": re.sub(CROSS, "", block).replace("layer.2", "layer.1"), "decoder": block}
    for side, block in blocks.items():
        [n_layer] = read_sizes(config, f"{side}_layers")
        layers = [take(tensors, block, sizes, f"{side}.block.{i}.") for i in range(n_layer)]
        params[side] = take(tensors, T5_STACK, sizes, f"{side}.") | {"blocks": layers}
    params |= take(tensors, f"wte={COPIES[0]}{head}", sizes)
    n_ctx = config.get("n_positions", 512)  # T5 itself has no maximum length
    function = activation(config.get("dense_act_fn", name))
    reach = config.get("relative_attention_max_distance", 128)
    eps = float(config.get("layer_norm_epsilon", 1e-6))
    return T5(params, n_head, n_ctx, function, scale_head, reach, eps)


def read_bart(folder: Path, config: dict, n_tokens: int) -> Bart:
    """Return a BART or mBART with n_tokens tokens. Raises ValueError."""
    n_vocab, n_ctx, d = read_sizes(config, "vocab_size", "max_position_embeddings", "d_model")
    n_head = read_sizes(config, *[f"{side}_attention_heads" for side in ("encoder", "decoder")])
    if d % n_head[0] or d % n_head[1]:
        raise ValueError(f"d_model = {d} is not a multiple of the heads {n_head}")
    sizes = {"1": 1, "n_vocab": n_vocab, "n_slots": n_ctx + 2, "d": d, "n_q": d, "n_kv": d}
    sizes["n_tokens"] = n_tokens
    tensors, tied = read_weights(folder, "model.", UNUSED), config.get("tie_word_embeddings", True)
    tensors.setdefault("final_logits_bias", np.zeros((1, n_vocab), np.float32))  # some lack it
    head, params = settle_embeddings(tensors, COPIES, tied), {}
    is_mbart, scale = config["model_type"] == "mbart", config.get("scale_embedding")
    blocks = {"encoder": re.sub(CROSS, "", BART_BLOCK), "decoder": BART_BLOCK}
    for side, block in blocks.items():
        sizes["n_inner"], n_layer = read_sizes(config, f"{side}_ffn_dim", f"{side}_layers")
        layers = [take(tensors, block, sizes, f"{side}.layers.{i}.") for i in range(n_layer)]
        stack = BART_STACK + " norm=layer_norm+" * is_mbart
        params[side] = take(tensors, stack, sizes, f"{side}.") | {"blocks": layers}
    params |= take(tensors, f"logits_bias=final_logits_bias wte={COPIES[0]}{head}", sizes)
    params["logits_bias"] = params["logits_bias"][:, :n_tokens]
    more = activation(config.get("activation_function", "gelu")), is_mbart, d**0.5 if scale else 1
    return Bart(params, n_head, n_ctx, *more)


def set_languages(tokenizer: Any, model: Any, source: str, target: str | None = None) -> None:
    """Let an mBART translate from one language to another, such as en_XX and ro_RO. mBART cc25 puts
    the source's language at its end, and starts the answer with the target's. mBART-50 starts the
    source with its language, and the answer with </s> and the target's. Raises UserError."""
    codes = [code for code in (source, target) if code is not None]
    if not isinstance(model, Bart) or {*codes} - tokenizer.special.keys():
        raise UserError(f"this model lacks the language {' or '.join(codes)}")
    first, *last = [tokenizer.special[code] for code in codes]
    end = [*model.stop_ids[:1]]
    is_50 = model.start_ids == end
    tokenizer.start, tokenizer.end = ([first], end) if is_50 else ([], [*end, first])
    if last and is_50:
        model.generation_config["forced_bos_token_id"] = last[0]
    elif last:
        model.start_ids = last
