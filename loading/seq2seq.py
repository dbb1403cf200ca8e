"""T5, BART and mBART from a folder in the layout of Hugging Face."""

from pathlib import Path
from typing import Any

import numpy as np

from families.seq2seq import T5, Bart
from loading.config import activation, read_generation_config
from loading.parameters import Params, build_params, drop_padding, list_blocks
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

# encoder.block.3.layer.0.SelfAttention.q.w -> encoder.blocks.3.attn.q.w
T5_WORDS = [
    (r"^(encoder.*layer)\.1", r"\1.2"),  # layer.1 is cross-attention, which an encoder has not
    (r"block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.w", "relative_bias"),
    ("shared", "wte"), ("block", "blocks"), ("final_layer_norm", "norm"),
    (r"layer\.0\.SelfAttention", "attn"), (r"layer\.0\.layer_norm", "attn_norm"),
    (r"layer\.1\.EncDecAttention", "cross"), (r"layer\.1\.layer_norm", "cross_norm"),
    (r"layer\.2\.DenseReluDense", "mlp"), (r"layer\.2\.layer_norm", "mlp_norm"),
    ("wi_1", "gate"), ("wi(_0)?", "c_fc"), ("wo", "c_proj"),
]  # fmt: skip
# encoder.layers.3.self_attn.q_proj.w -> encoder.blocks.3.attn.q.w; a norm's weight is g
BART_WORDS = [
    ("shared", "wte"), ("final_logits_bias", "logits_bias"), ("embed_positions", "wpe"),
    ("layernorm_embedding", "embed_norm"), (r"(coder)\.layer_norm", r"\1.norm"),
    ("layers", "blocks"), ("self_attn", "attn"), ("encoder_attn", "cross"),
    ("final_layer_norm", "mlp_norm"), ("(attn|cross)_layer_norm", r"\1_norm"),
    (r"([qkv])_proj", r"\1"), ("out_proj", "o"), ("fc1", "mlp.c_fc"), ("fc2", "mlp.c_proj"),
]  # fmt: skip
UNUSED = "EncDecAttention.relative_attention_bias.weight", "encoder.version", "decoder.version"


def load_t5(folder: Path, config: dict) -> tuple[Any, T5]:
    """T5, v1.1, flan -> (tokenizer, model). Raises ValueError."""
    n_layer = config["num_layers"]
    params = read_params(folder, T5_WORDS, n_layer, config.get("num_decoder_layers") or n_layer)
    form, _, name = config.get("feed_forward_proj", "relu").rpartition("-")
    name = "gelu_new" if (form, name) == ("gated", "gelu") else name  # v1.1's "gelu" is gelu_new
    tied = config.get("tie_word_embeddings", True)
    tokenizer = read_tokenizer(folder, "t5")
    drop_padding(params, tokenizer.n_vocab)
    model = T5(
        params, config["num_heads"],
        config.get("n_positions", 512),  # T5 itself has no maximum length
        activation(name),
        scale_head=config.get("scale_decoder_outputs", tied),
        max_distance=config.get("relative_attention_max_distance", 128),
        eps=float(config.get("layer_norm_epsilon", 1e-6)),
        **read_ends(folder, config, len(params["wte"])),
    )  # fmt: skip
    return tokenizer, model


def load_bart(folder: Path, config: dict) -> tuple[Any, Bart]:
    """BART, mBART -> (tokenizer, model). Raises ValueError."""
    is_mbart, d_model = config["model_type"] == "mbart", config["d_model"]
    params = read_params(folder, BART_WORDS, config["encoder_layers"], config["decoder_layers"])
    params.setdefault("logits_bias", np.zeros((1, len(params["wte"])), np.float32))
    n_head = config["encoder_attention_heads"], config["decoder_attention_heads"]
    if d_model % n_head[0] or d_model % n_head[1]:
        raise ValueError(f"d_model = {d_model} is not a multiple of the heads {n_head}")
    tokenizer = read_tokenizer(folder, config["model_type"])
    drop_padding(params, tokenizer.n_vocab)
    model = Bart(
        params, n_head, config["max_position_embeddings"],
        activation(config.get("activation_function", "gelu")), is_mbart,
        config.get("scale_embedding", False), **read_ends(folder, config, len(params["wte"])),
    )  # fmt: skip
    if is_mbart and "en_XX" in tokenizer.special:
        model = model.for_languages(tokenizer.special["en_XX"])
    return tokenizer, model


def read_params(folder: Path, words: list, n_encoder: int, n_decoder: int) -> Params:
    """The folder's weights -> the tree of parameters. Raises ValueError."""
    tensors = {
        name.removeprefix("model."): array
        for name, array in read_weights(folder).items()
        if not name.endswith(UNUSED)
    }
    for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        if copy in tensors:  # some files have only one of the three names
            tensors.setdefault("shared.weight", tensors.pop(copy))
    params = build_params(tensors, words)
    list_blocks(params["encoder"], n_encoder)
    list_blocks(params["decoder"], n_decoder)
    return params


def read_ends(folder: Path, config: dict, n_vocab: int) -> dict:
    """The tokens that texts begin and end with -> {generation_config, start_ids, stop_ids,
    special_ids} as seq2seq.py has them. ValueError for ids from n_vocab on, which have no token or
    no embedding."""
    found = read_generation_config(folder) or config
    if found.get("force_bos_token_to_be_generated"):  # of the first BART summarisers
        found = {"forced_bos_token_id": found["bos_token_id"]} | found
    ends = {f"{name}_token_id" for name in ("decoder_start", "bos", "eos", "pad")}
    settings = {"do_sample": False} | {key: config[key] for key in ends & set(config)} | found

    def ids(key):  # an id, a list of ids, or none -> list of ids
        value = settings.get(key)
        some = value if isinstance(value, list) else [] if value is None else [value]
        if wrong := [id for id in some if type(id) is not int or not 0 <= id < n_vocab]:
            raise ValueError(f"{key} = {wrong[0]!r}, the tokens are 0 to {n_vocab - 1}")
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
