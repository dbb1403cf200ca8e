"""The parameters of the encoder-decoders: their shapes, and their names in a checkpoint.

A tree of shapes looks like the tree of parameters in seq2seq.py, with a shape for each array. A
name is a path in that tree, such as encoder.blocks.0.attn.q.w; checkpoints name the same things
part by part in their own way.
"""

T5_PARTS = {
    "wte": "shared.weight", "lm_head": "lm_head.weight", "blocks": "block", "g": "weight",
    "w": "weight", "norm": "final_layer_norm", "attn": "layer.0.SelfAttention",
    "attn_norm": "layer.0.layer_norm", "cross": "layer.1.EncDecAttention",
    "cross_norm": "layer.1.layer_norm", "gate": "wi_1", "c_proj": "wo",
    "relative_bias": "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
}  # fmt: skip
BART_PARTS = {
    "wte": "shared.weight", "lm_head": "lm_head.weight", "logits_bias": "final_logits_bias",
    "wpe": "embed_positions.weight", "embed_norm": "layernorm_embedding", "blocks": "layers",
    "g": "weight", "w": "weight", "b": "bias", "norm": "layer_norm", "attn": "self_attn",
    "attn_norm": "self_attn_layer_norm", "cross": "encoder_attn",
    "cross_norm": "encoder_attn_layer_norm", "mlp_norm": "final_layer_norm", "c_fc": "fc1",
    "c_proj": "fc2", "q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj",
}  # fmt: skip


def t5_name(name, gated):
    """encoder.blocks.3.attn.q.w -> encoder.block.3.layer.0.SelfAttention.q.weight"""
    last = "layer.2" if name.startswith("decoder") else "layer.1"  # behind cross-attention or not
    parts = T5_PARTS | {
        "mlp": f"{last}.DenseReluDense", "mlp_norm": f"{last}.layer_norm",
        "c_fc": "wi_0" if gated else "wi",
    }  # fmt: skip
    return ".".join(parts.get(part, part) for part in name.split("."))


def bart_name(name):
    """encoder.blocks.3.attn.q.w -> encoder.layers.3.self_attn.q_proj.weight"""
    return ".".join(BART_PARTS.get(part, part) for part in name.split(".") if part != "mlp")


def t5_shapes(n_vocab, d_model, d_kv, d_ff, n_head, n_layer, n_buckets, gated, untied):
    """n_layer: (encoder, decoder); d_kv: of one head."""
    norm, inner = {"g": (d_model,)}, n_head * d_kv
    attn = {name: {"w": (inner, d_model)} for name in "qkv"} | {"o": {"w": (d_model, inner)}}
    mlp = {"c_fc": {"w": (d_ff, d_model)}, "c_proj": {"w": (d_model, d_ff)}}
    if gated:
        mlp["gate"] = mlp["c_fc"]
    stack = {"relative_bias": (n_buckets, n_head), "norm": norm}
    return two_stacks(attn, (mlp, mlp), norm, stack, n_vocab, d_model, n_layer, untied)


def bart_shapes(n_vocab, n_ctx, d_model, d_ff, n_layer, final_norm, untied):
    """n_layer, d_ff: (encoder, decoder); final_norm: mBART's, at the end of each stack."""
    norm = {"g": (d_model,), "b": (d_model,)}
    attn = {name: {"w": (d_model, d_model), "b": (d_model,)} for name in "qkvo"}
    mlps = [
        {"c_fc": {"w": (n, d_model), "b": (n,)}, "c_proj": {"w": (d_model, n), "b": (d_model,)}}
        for n in d_ff
    ]
    stack = {"wpe": (n_ctx + 2, d_model), "embed_norm": norm}
    if final_norm:
        stack["norm"] = norm
    return two_stacks(attn, mlps, norm, stack, n_vocab, d_model, n_layer, untied) | {
        "logits_bias": (1, n_vocab)
    }


def two_stacks(attn, mlps, norm, stack, n_vocab, d_model, n_layer, untied):
    """What both families share: blocks of attention, in the decoder cross-attention, and mlp."""
    attention = {"attn": attn, "attn_norm": norm}
    cross = {"cross": attn, "cross_norm": norm}
    encoder = attention | {"mlp": mlps[0], "mlp_norm": norm}
    decoder = attention | cross | {"mlp": mlps[1], "mlp_norm": norm}
    shapes = {
        "wte": (n_vocab, d_model),
        "encoder": stack | {"blocks": [encoder] * n_layer[0]},
        "decoder": stack | {"blocks": [decoder] * n_layer[1]},
    }
    return shapes | {"lm_head": (n_vocab, d_model)} if untied else shapes
