"""Name the axes of recorded arrays, as the comments in the source do: [n_head, n_new, d_head].

The names come from a second run: a tiny model in which no two sizes are equal. There an axis of
size 13 can only be n_new. An array has the same axes in both runs if it stands at the same place:
the same lines called its function, one from the other, from the model's __call__ on.
"""

import numpy as np

from gpt2 import GPT2
from page.trace import recording

SIZES = {2: "k|v", 3: "last", 5: "n_head", 7: "d_head", 35: "n_embd", 105: "3 n_embd"}
SIZES |= {140: "4 n_embd", 11: "n_vocab", 23: "n_ctx", 13: "n_new", 17: "n_all", 19: "n_layer"}
SIZES |= {4: "n_slots", 18: "n_more", 22: "n_slots"}  # the cache grows from 4 to 22 slots


def axes_in(modules):
    """Return {(place, node, name or operation): axes} for the arrays in a pass of GPT-2. An axis
    without a name is None. modules: as in the `recording` of the run that is to be named."""
    model, ids, found = tiny(), np.arange(13) % 11, {}
    model.n_ctx = 22  # less than wpe has
    with recording(modules, model) as record:
        for last in (3, None):
            cache = model.new_cache()
            cache.make_room(2)  # for 4 tokens
            cache.commit(4)
            model(ids, cache, last)
            model(ids, None, last)
    for node, frame, _, _, entries in record.stops:
        for key, value in entries:
            axes = tuple(SIZES.get(n) for n in record.shape(value))
            found.setdefault((record.frames[frame][1], node, key), axes)
    return found


def tiny():
    """Return a model with the sizes of SIZES. Its weights are 0, because only shapes count."""

    def zeros(**shapes):
        return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    attn = {"c_attn": zeros(w=(105, 35), b=105), "c_proj": zeros(w=(35, 35), b=35)}
    mlp = {"c_fc": zeros(w=(140, 35), b=140), "c_proj": zeros(w=(35, 140), b=35)}
    norm = zeros(g=35, b=35)
    blocks = [{"ln_1": norm, "attn": attn, "ln_2": norm, "mlp": mlp}] * 19
    return GPT2(zeros(wte=(11, 35), wpe=(23, 35)) | {"blocks": blocks, "ln_f": norm}, n_head=5)
