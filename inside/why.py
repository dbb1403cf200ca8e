"""Why this token: the difference of two logits as a sum over the parts of the model.

A decoder's head reads a sum: the embedding, the output of each head and each MLP, the biases. The
last norm is linear once its scale is fixed, so a token's logit is a sum over these parts, and so is
the difference of two logits. (Elhage et al. 2021, "A Mathematical Framework for Transformer
Circuits"; "direct logit attribution".)
"""

import math

import numpy as np

KEEP = """block decoder_block self_attention attend merge_heads feed_forward rms_norm
    layer_norm""".split()


def parts(root, model, came, rivals):
    """Return what each part adds to logit(came) - logit(rival), [n, n_rivals, n_parts]. The parts:
    the embedding; each layer's heads, heads to the source, and MLP; the biases. root: a pass over n
    tokens, recorded with KEEP; came [n]; rivals [n, n_rivals]. A cap of the logits is ignored.
    Return None for a model that norms after each sum, as BART does."""
    family = getattr(model, "family", model)  # an encoder-decoder's decoder has one
    if not getattr(family, "pre_norm", True):
        return None
    head = np.asarray(model.params.get("lm_head", model.params["wte"]))
    toward = head[came][:, None] - head[rivals]  # [n, n_rivals, n_embd]
    if getattr(family, "scale_head", False):
        toward /= math.sqrt(toward.shape[-1])
    [shift] = model.params.get("logits_bias", np.zeros((1, len(head)), np.float32))
    bias = shift[came][:, None] - shift[rivals]

    # Back through the last norm: a layer norm's b, g, the scale, and a layer norm's mean.
    norm = [call for call in root.walk() if call.name in ("layer_norm", "rms_norm")][-1].arguments
    x = norm["x"].reshape(len(came), -1)
    bias = bias + toward @ norm.get("b", np.zeros_like(x[0]))
    toward = toward * norm["g"]
    if "b" in norm:
        x = x - x.mean(-1, keepdims=True)
        toward -= toward.mean(-1, keepdims=True)
    toward /= np.sqrt((x * x).mean(-1) + norm["eps"])[:, None, None]

    blocks = [call for call in root.walk() if call.name in ("block", "decoder_block")]
    added = [project(toward, blocks[0].arguments["x"], 1)]
    for block in blocks:
        for call in block.walk():
            if call.name == "feed_forward":
                direction = toward * after(model, call, block.arguments.get("mlp_post_norm"))
                added.append(project(direction, call.value, 1))
            if call.name in ("self_attention", "attend"):
                direction = toward * after(model, call, block.arguments.get("attn_post_norm"))
                attn = call.arguments.get("attn", call.arguments)
                last = attn.get("c_proj") or attn["o"]
                [heads] = [inner.value for inner in call.walk() if inner.name == "merge_heads"]
                added.append(project(direction @ np.asarray(last["w"]), heads, model.n_head))
                bias = bias + direction @ last.get("b", np.zeros_like(x[0]))
    return np.concatenate([*added, bias[..., None]], -1)


def project(toward, x, n):  # [n_seq, n_rivals, n * d], [n_seq, n * d] -> [n_seq, n_rivals, n]
    """Return the scalar products of the n parts of each row."""
    products = toward * x[:, None]
    return products.reshape(*products.shape[:-1], n, -1).sum(-1)


def after(model, call, norm):  # a sublayer's call -> [n, 1, n_embd], or 1
    """Return the factor of each number in the norm after a sublayer, if any, its scale fixed."""
    return 1 if norm is None else (model.norm(call.value, norm) / call.value)[:, None]
