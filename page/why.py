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
    root: a pass over n tokens, recorded with KEEP. came [n]: the next tokens. rivals: ids
    [n, n_rivals]. Gemma 2's cap is left out. The result is None for BART (no pre-norm)."""
    family = getattr(model, "family", model)  # for an encoder-decoder, `model` is a Decoder
    if not getattr(family, "pre_norm", True):
        return None
    head = np.asarray(model.params.get("lm_head", model.params["wte"]))
    toward = head[came][:, None] - head[rivals]  # [n, n_rivals, n_embd]
    if getattr(family, "scale_head", False):
        toward /= np.sqrt(toward.shape[-1])

    # Go back through the last norm: multiply by g, center (layer norm only), divide by x's RMS.
    last = root.named(*NORMS)[-1]
    bias = np.ravel(model.params.get("logits_bias", np.zeros(len(head), np.float32)))  # mBART's
    difference = (toward * last.value.reshape(len(came), 1, -1)).sum(-1)  # [n, n_rivals]
    difference, norm = difference + bias[came][:, None] - bias[rivals], last.arguments
    x, toward = norm["x"].reshape(len(came), -1), toward * norm["g"]
    if "b" in norm:
        x, toward = (part - part.mean(-1, keepdims=True) for part in (x, toward))
    toward /= np.sqrt((x * x).mean(-1) + norm["eps"])[:, None, None]

    blocks = root.named("block")
    added = [(toward * blocks[0].arguments["x"][:, None]).sum(-1, keepdims=True)]
    for block in blocks:
        norms = block.arguments.get("norms", {})  # only Llama's blocks get them
        for call in block.named(*SUBLAYERS):
            wrote, direction, n = call.value, toward, 1
            if after := norms.get(f"{SUBLAYERS[call.name]}_post_norm"):  # take the norm as a factor
                divisor = np.where(wrote == 0, np.float32(1), wrote)
                direction = toward * (llama_norm(wrote, after, model.eps) / divisor)[:, None]
            if call.name != "feed_forward":  # the heads as they are before c_proj mixes them
                last = call.arguments.get("c_proj") or call.arguments["o"]
                direction, n = direction @ np.asarray(last["w"]), model.n_head
                wrote = call.named("merge_heads")[0].value
            products = direction * wrote[:, None]
            added.append(products.reshape(*products.shape[:2], n, -1).sum(-1))
    found = np.concatenate(added, -1)
    rest = (difference - found.sum(-1))[..., None]
    has_biases = np.abs(rest).max() > 1e-3 * np.abs(found).max()  # or is the rest only rounding?
    return np.concatenate([found, rest], -1) if has_biases else found
