"""A GPT-2 of any size with random weights, for lessons and tests."""

import numpy as np

from gpt2 import GPT2
from loading.gpt2 import gpt2_params


def random_gpt2(n_vocab, n_ctx, n_embd, n_layer, n_head, scale=0.02, seed=0, tied=True) -> GPT2:
    """Return a GPT-2 with random weights from N(0, scale^2), but norm gains from N(1, scale^2).

    tied: whether the model uses wte as its head, instead of an lm_head."""
    rng, d = np.random.default_rng(seed), n_embd
    block = {"ln_1": (d,), "attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d)}
    block |= {"ln_2": (d,), "mlp.c_fc": (d, 4 * d), "mlp.c_proj": (4 * d, d)}
    shapes = {f"h.{i}.{name}": shape for i in range(n_layer) for name, shape in block.items()}
    shapes |= {"wte": (n_vocab, d), "wpe": (n_ctx, d), "ln_f": (d,)}
    shapes |= {} if tied else {"lm_head": (n_vocab, d)}
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = rng.normal(len(shape) == 1, scale, shape).astype(np.float32)
        if name not in ("wte", "wpe", "lm_head"):
            tensors[f"{name}.bias"] = rng.normal(0, scale, shape[-1]).astype(np.float32)
    sizes = {"vocab_size": n_vocab, "n_positions": n_ctx, "n_embd": d, "n_layer": n_layer}
    return GPT2(gpt2_params(tensors, sizes | {"tie_word_embeddings": tied}), n_head)
