"""Loads T5, BART and mBART from a folder in Hugging Face's layout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from families.seq2seq import T5, Bart
from loading.config import activation, read_ids, read_json
from loading.parameters import build_params, drop_padding, list_blocks
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

# block.3.layer.0.SelfAttention.q.w -> blocks.3.attn.q.w. In an encoder, layer.1 is the MLP.
T5_WORDS = r"""^(encoder.*layer)\.1=\1.2 shared=wte final_layer_norm=norm
    layer\.0\.SelfAttention=attn layer\.0\.layer_norm=attn_norm layer\.1\.EncDecAttention=cross
    layer\.1\.layer_norm=cross_norm layer\.2\.DenseReluDense=mlp layer\.2\.layer_norm=mlp_norm
    block\.0\.attn\.relative_attention_bias\.w=relative_bias block=blocks
    wi_0=gate wi(_1)?=c_fc wo=c_proj"""
# encoder.layers.3.self_attn.q_proj.w -> encoder.blocks.3.attn.q.w
BART_WORDS = r"""shared=wte final_logits_bias=logits_bias embed_positions=wpe layers=blocks
    layernorm_embedding=embed_norm coder\.layer_norm=coder.norm self_attn=attn encoder_attn=cross
    final_layer_norm=mlp_norm (attn|cross)_layer_norm=\1_norm ([qkv])_proj=\1 out_proj=o
    fc1=mlp.c_fc fc2=mlp.c_proj"""
SIDES = "encoder", "decoder"
UNUSED = "EncDecAttention.relative_attention_bias.weight", "encoder.version", "decoder.version"


def load_t5(folder: Path, config: dict) -> tuple[Any, T5]:
    """Return (tokenizer, model) for T5, T5 v1.1 or Flan-T5. Raises ValueError."""
    n_layer = config["num_layers"], config.get("num_decoder_layers") or config["num_layers"]
    tokenizer, params, ends = read_parts(folder, config, T5_WORDS, n_layer)
    form, _, name = config.get("feed_forward_proj", "relu").rpartition("-")
    name = "gelu_new" if (form, name) == ("gated", "gelu") else name  # v1.1's "gelu" is gelu_new
    n_ctx = config.get("n_positions", 512)  # T5 itself has no maximum length
    scale_head = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    reach = config.get("relative_attention_max_distance", 128)
    eps, n_head = float(config.get("layer_norm_epsilon", 1e-6)), config["num_heads"]
    model = T5(params, n_head, n_ctx, activation(name), scale_head, reach, eps, **ends)
    return tokenizer, model


def load_bart(folder: Path, config: dict) -> tuple[Any, Bart]:
    """Return (tokenizer, model) for BART or mBART. Raises ValueError."""
    n_layer = config["encoder_layers"], config["decoder_layers"]
    tokenizer, params, ends = read_parts(folder, config, BART_WORDS, n_layer)
    n_head, d_model = [config[f"{side}_attention_heads"] for side in SIDES], config["d_model"]
    if d_model % n_head[0] or d_model % n_head[1]:
        raise ValueError(f"d_model = {d_model} is not a multiple of the heads {n_head}")
    n_ctx, is_mbart = config["max_position_embeddings"], config["model_type"] == "mbart"
    function = activation(config.get("activation_function", "gelu"))
    scale = d_model**0.5 if config.get("scale_embedding") else 1
    model = Bart(params, n_head, n_ctx, function, is_mbart, scale, **ends)
    if is_mbart and "en_XX" in tokenizer.special:
        model = model.for_languages(tokenizer.special["en_XX"])
    return tokenizer, model


def read_parts(folder: Path, config: dict, words: str, n_layer: Sequence[int]) -> tuple:
    """Return the tokenizer, the parameters and the result of `read_ends`. Raises ValueError."""
    tensors = read_weights(folder, "model.", UNUSED)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        copy: Any = tensors.pop(name, tensors.get("shared.weight"))  # some files lack this copy
        if not np.array_equal(tensors.setdefault("shared.weight", copy), copy):
            raise ValueError(f"{name} is not shared.weight: only one shared embedding is supported")
    params = build_params(tensors, words)
    if config["model_type"] != "t5":  # some BART files lack this bias
        params.setdefault("logits_bias", np.zeros((1, len(params["wte"])), np.float32))
    for side, n in zip(SIDES, n_layer):
        list_blocks(params[side], n)
    tokenizer = read_tokenizer(folder, config["model_type"])
    drop_padding(params, tokenizer.n_vocab)
    return tokenizer, params, read_ends(folder, config, len(params["wte"]))


def read_ends(folder: Path, config: dict, n_vocab: int) -> dict:
    """Return EncoderDecoder's arguments about how texts begin and end. Raises ValueError."""
    found = read_json(folder / "generation_config.json", optional=True) or config
    if found.get("force_bos_token_to_be_generated"):  # only in the first BART summarisers
        found = {"forced_bos_token_id": found["bos_token_id"]} | found
    keys = {f"{name}_token_id" for name in ("decoder_start", "bos", "eos", "pad")} & config.keys()
    settings = {"do_sample": False} | {key: config[key] for key in keys} | found
    for key in ("forced_bos_token_id", "forced_eos_token_id"):
        settings[key] = next(iter(read_ids(settings, key, n_vocab)), None)

    first = {"t5": "pad_token_id", "bart": "eos_token_id", "mbart": "bos_token_id"}
    choices = "decoder_start_token_id", first[config["model_type"]]
    if not (start := [id for key in choices for id in read_ids(settings, key, n_vocab)]):
        raise ValueError("no decoder_start_token_id")
    stop = read_ids(settings, "eos_token_id", n_vocab)
    begin = read_ids(settings, "bos_token_id", n_vocab, 0) if config["model_type"] == "bart" else []
    special_ids = tuple(begin[:1]), tuple(stop[:1])
    ends = {"start_ids": start[:1], "stop_ids": stop, "special_ids": special_ids}
    return ends | {"generation_config": settings}
