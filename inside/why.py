"""Why this token: the difference of two logits as a sum over the parts of the model.

A decoder's head reads a sum: the embedding, the output of each head and each MLP, the biases. The
last norm is linear once its scale is fixed. So a token's logit is a sum over these parts, and so is
the difference of two logits. (Elhage et al. 2021, "A Mathematical Framework for Transformer
Circuits"; "direct logit attribution".)
"""

import math
from typing import Any

import numpy as np

from inside.recorder import Call

KEEP = """block decoder_block self_attention attend merge_heads feed_forward rms_norm
    layer_norm""".split()


def parts(root: Call, model: Any, came: list[int], rivals: np.ndarray) -> np.ndarray | None:
    """Return what each part adds to logit(came) - logit(rival), [n, n_rivals, n_parts]. The parts:
    the embedding; each layer's heads, heads to the source, and MLP; the biases. root: a pass over n
    tokens, recorded with KEEP; came [n]; rivals [n, n_rivals]. A cap of the logits is ignored.
    Return None for a model that norms after each sum, as BART does."""
    family = getattr(model, "family", model)  # an encoder-decoder's decoder has one
    if not getattr(family, "pre_norm", True):
        return None
    stack = model.params.get("decoder", model.params)
    blocks = [call for call in root.walk() if call.name in ("block", "decoder_block")]
    head = np.asarray(model.params.get("lm_head", model.params["wte"]))
    toward = head[came][:, None] - head[rivals]  # [n, n_rivals, n_embd]
    if getattr(family, "scale_head", False):
        toward /= math.sqrt(toward.shape[-1])
    found, bias = [], 0
    if "logits_bias" in model.params:
        bias = bias + model.params["logits_bias"][0, came][:, None]
        bias = bias - model.params["logits_bias"][0, rivals]
    # Back through the last norm: subtract the mean (a layer norm's), multiply by its scale and g.
    end, x = stack.get("ln_f") or stack["norm"], blocks[-1].value
    centred = x - x.mean(-1, keepdims=True) if "b" in end else x
    normed = [call for call in root.walk() if call.name in ("layer_norm", "rms_norm")][-1].value
    scale = length(normed.reshape(x.shape) - end.get("b", 0)) / length(centred * end["g"])
    bias = bias + toward @ end.get("b", np.zeros_like(end["g"]))
    toward = toward * end["g"] * scale[:, None]
    if "b" in end:
        toward -= toward.mean(-1, keepdims=True)

    found.append(project(toward, blocks[0].arguments["x"], 1))
    for call, block in zip(blocks, stack["blocks"]):
        merged = [inner.value for inner in call.walk() if inner.name == "merge_heads"]
        wrote = [inner.value for inner in call.walk() if inner.name in ("self_attention", "attend")]
        for heads, h, attn in zip(merged, wrote, (block["attn"], block.get("cross"))):
            last = attn.get("c_proj") or attn["o"]
            direction = toward * after(model, h, block.get("attn_post_norm"))
            found.append(project(direction @ np.asarray(last["w"]), heads, model.n_head))
            bias = bias + direction @ last.get("b", np.zeros_like(end["g"]))
        [h] = [inner.value for inner in call.walk() if inner.name == "feed_forward"]
        found.append(project(toward * after(model, h, block.get("mlp_post_norm")), h, 1))
    return np.concatenate([*found, bias[..., None]], -1)


def project(toward, x, n):  # [n_seq, n_rivals, n * d], [n_seq, n * d] -> [n_seq, n_rivals, n]
    """Return the scalar products of the n parts of each row."""
    products = toward * x[:, None]
    return products.reshape(*products.shape[:-1], n, -1).sum(-1)


def after(model, h, norm):  # [n, n_embd] -> [n, 1, n_embd]
    """Return the factor of each number in a norm after a sublayer, its scale fixed."""
    return np.float32(1) if norm is None else (model.norm(h, norm) / h)[:, None]


def length(x):  # [n, n_embd] -> [n, 1]
    return np.linalg.norm(x, axis=-1, keepdims=True)
