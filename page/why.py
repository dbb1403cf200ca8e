"""Why this token: the difference of two logits as a sum over the parts of the model.

The last layer's output is a sum: the embedding, what each head and each MLP adds, and the biases.
The last norm is linear once its scale is fixed, so a logit is a sum over the same parts (Elhage et
al. 2021, "A Mathematical Framework for Transformer Circuits": direct logit attribution).
"""

import numpy as np

from families.llama import norm as llama_norm
from page.recorder import SUBLAYERS

NORMS = "layer_norm", "rms_norm"
KEEP = ["block", *SUBLAYERS, *NORMS, "merge_heads"]


def parts(root, model, came, rivals):
    """Return what each part adds to logit(came) - logit(rival), [n, n_rivals, n_parts]. The parts
    are the embedding; each layer's heads, cross-attention heads and MLP; and all biases, if any.
    Example: [0.1, (head 0) 0.3, (head 1) -0.2, (MLP) 0.9, (biases) 0.0] for one layer with 2 heads.
    root: a pass over n tokens, recorded with KEEP. came [n]: the next tokens. rivals: ids
    [n, n_rivals]. Gemma 2's cap is left out. The result is None for BART (no pre-norm)."""
    family = getattr(model, "family", model)  # for an encoder-decoder, `model` is a Decoder
    if not getattr(family, "pre_norm", True):
        return None
    head = np.asarray(model.params.get("lm_head", model.params["wte"]))
    toward = head[came][:, None] - head[rivals]  # [n, n_rivals, n_embd]
    if getattr(family, "scale_head", False):
        toward /= np.sqrt(toward.shape[-1])
    last = root.named(*NORMS)[-1]
    output = last.value.reshape(len(came), 1, -1)
    bias = np.ravel(model.params.get("logits_bias", np.zeros(len(head), np.float32)))  # mBART's
    difference = (toward * output).sum(-1)  # [n, n_rivals]
    difference = difference + bias[came][:, None] - bias[rivals]

    toward = before_norm(toward, last.arguments)
    blocks = root.named("block")
    embedding = blocks[0].arguments["x"][:, None]
    added = [(toward * embedding).sum(-1, keepdims=True)]
    for block in blocks:
        for call in block.named(*SUBLAYERS):
            added.append(sublayer_parts(call, block, toward, model))
    found = np.concatenate(added, -1)
    rest = (difference - found.sum(-1))[..., None]
    is_rounding = np.abs(rest).max() <= 1e-3 * np.abs(found).max()
    return found if is_rounding else np.concatenate([found, rest], -1)


def before_norm(toward, norm):
    """Go back through the last norm: multiply by g, center (layer norm only), divide by x's RMS."""
    toward = toward * norm["g"]
    x = norm["x"].reshape(len(toward), -1)
    if "b" in norm:
        x = x - x.mean(-1, keepdims=True)
        toward = toward - toward.mean(-1, keepdims=True)
    rms = np.sqrt((x * x).mean(-1) + norm["eps"])
    return toward / rms[:, None, None]


def sublayer_parts(call, block, toward, model):  # -> [n, n_rivals, n_head], or 1 for an MLP
    """Return what the heads of a sublayer add, or the MLP as a whole."""
    wrote, direction, n = call.value, toward, 1
    norms = block.arguments.get("norms", {})  # only Llama's blocks get them
    if after := norms.get(f"{SUBLAYERS[call.name]}_post_norm"):  # take the norm as a factor
        divisor = np.where(wrote == 0, np.float32(1), wrote)
        factor = llama_norm(wrote, after, model.eps) / divisor
        direction = toward * factor[:, None]
    if call.name != "feed_forward":  # the heads as they are before c_proj mixes them
        last = call.arguments.get("c_proj") or call.arguments["o"]
        direction = direction @ np.asarray(last["w"])
        n = model.n_head
        wrote = call.named("merge_heads")[0].value
    products = direction * wrote[:, None]
    return products.reshape(*products.shape[:2], n, -1).sum(-1)
