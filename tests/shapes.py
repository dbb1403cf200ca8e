"""Trees of parameters of any size: a model's tree, with a shape in the place of each array."""

import numpy as np


def tree_map(f, shapes, name=""):
    """A tree of shapes -> the same tree with f(name, shape) in the place of each shape."""
    if isinstance(shapes, tuple):
        return f(name, shapes)
    if isinstance(shapes, list):
        return [tree_map(f, part, f"{name}.{i}") for i, part in enumerate(shapes)]
    return {key: tree_map(f, part, f"{name}.{key}".lstrip(".")) for key, part in shapes.items()}


def flatten(tree, name=""):
    """A tree of arrays or of shapes as {name: array or shape}."""
    if isinstance(tree, np.ndarray | tuple):
        return {name: tree}
    parts = enumerate(tree) if isinstance(tree, list) else tree.items()
    found = [flatten(part, f"{name}.{key}".lstrip(".")).items() for key, part in parts]
    return {key: leaf for items in found for key, leaf in items}


def dense(n_in, n_out, bias=True):  # x [..., n_in] -> x @ w.T (+ b) [..., n_out]
    return {"w": (n_out, n_in)} | ({"b": (n_out,)} if bias else {})


def gpt2_shapes(n_vocab, n_ctx, n_embd, n_layer, n_inner, tied=True):
    norm = {"g": (n_embd,), "b": (n_embd,)}
    block = {
        "ln_1": norm,
        "attn": {"c_attn": dense(n_embd, 3 * n_embd), "c_proj": dense(n_embd, n_embd)},
        "ln_2": norm,
        "mlp": {"c_fc": dense(n_embd, n_inner), "c_proj": dense(n_inner, n_embd)},
    }
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    embeddings = {"wte": (n_vocab, n_embd), "wpe": (n_ctx, n_embd)}
    return {**embeddings, "blocks": [block] * n_layer, "ln_f": norm, **head}


def llama_shapes(
    n_vocab, n_embd, n_layer, n_inner, n_head, n_kv_head, d_head, tied=False, biases="",
    norms=("attn_norm", "mlp_norm"), qk_norm="",
):  # fmt: skip
    """biases: which of the matrices "qkvo" have one, and with "m" those of the MLP; norms: of a
    block; qk_norm: queries and keys have a norm, "head" for each head, "all" for all heads
    together."""
    n_q, n_kv, norm = n_head * d_head, n_kv_head * d_head, {"g": (n_embd,)}
    attn = {
        "q": dense(n_embd, n_q, "q" in biases),
        "k": dense(n_embd, n_kv, "k" in biases),
        "v": dense(n_embd, n_kv, "v" in biases),
        "o": dense(n_q, n_embd, "o" in biases),
    }
    if qk_norm:
        q_size, k_size = (n_q, n_kv) if qk_norm == "all" else (d_head, d_head)
        attn |= {"q_norm": {"g": (q_size,)}, "k_norm": {"g": (k_size,)}}
    m = "m" in biases
    mlp = {"c_fc": dense(n_embd, n_inner, m), "gate": dense(n_embd, n_inner, m)}
    mlp |= {"c_proj": dense(n_inner, n_embd, m)}
    block = {"attn": attn, "mlp": mlp} | dict.fromkeys(norms, norm)
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    return {"wte": (n_vocab, n_embd), "blocks": [block] * n_layer, "norm": norm, **head}


def t5_shapes(n_vocab, d_model, d_kv, d_ff, n_head, n_layer, n_buckets, gated, untied):
    """n_layer: (encoder, decoder); d_kv: of one head."""
    norm, d_attn = {"g": (d_model,)}, n_head * d_kv
    attn = dict.fromkeys("qkv", dense(d_model, d_attn, False))
    attn |= {"o": dense(d_attn, d_model, False)}
    mlp = {"c_fc": dense(d_model, d_ff, False), "c_proj": dense(d_ff, d_model, False)}
    mlp |= {"gate": mlp["c_fc"]} if gated else {}
    shapes = {"wte": (n_vocab, d_model)}
    for i, side in enumerate(("encoder", "decoder")):
        block = {"attn": attn, "attn_norm": norm, "mlp": mlp, "mlp_norm": norm}
        block |= {"cross": attn, "cross_norm": norm} if side == "decoder" else {}
        stack = {"relative_bias": (n_buckets, n_head), "norm": norm}
        shapes[side] = stack | {"blocks": [block] * n_layer[i]}
    return shapes | ({"lm_head": (n_vocab, d_model)} if untied else {})
