"""Pictures: computed tokens, the growing cache."""

import lessons
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

LAYER, HEAD = 0, 1  # the block and the head whose keys are plotted
# A token is blue in the first pass that computes it, and orange in later passes.
FIRST = {"facecolor": lessons.BLUE, "hatch": "", "edgecolor": "white"}
AGAIN = {"facecolor": lessons.ORANGE, "hatch": "///", "edgecolor": "white"}


def triangle(n_prompt, n_new):
    """Draw which tokens each pass computes, without a cache and with one."""
    n = n_prompt + n_new - 1
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True)
    for axis, with_cache in zip(axes, (False, True)):
        total = 0
        for number in range(n_new):
            known, length = (n_prompt + number - 1) * (number > 0), n_prompt + number
            for token in range(known if with_cache else 0, length):
                again, total = token < known, total + 1
                look = AGAIN if again else FIRST
                axis.add_patch(Rectangle((token, number), 0.9, 0.9, **look, lw=0))
        name = "with a cache" if with_cache else "without a cache"
        axis.set(title=f"{name}: {total} tokens computed", xlabel="token", xlim=(-0.2, n))
        axis.set_ylim(n_new, -0.2)
        axis.set_xticks(np.arange(n) + 0.45, range(1, n + 1))
        axis.set_yticks(np.arange(n_new) + 0.45, range(1, n_new + 1))
        axis.set_aspect("equal")
    axes[0].set_ylabel("pass")
    first = Rectangle((0, 0), 1, 1, **FIRST, label="for the first time")
    again = Rectangle((0, 0), 1, 1, **AGAIN, label="again")
    figure.legend(handles=[first, again], loc="outside lower center", ncols=2)


def keys_of(model, ids):
    """Return one head's keys after a pass over ids, [len(ids), d_head]."""
    cache = model.new_cache()
    model(ids, cache)
    return cache.kv[0, LAYER, HEAD % cache.kv.shape[2], : cache.length]


def growing(model, ids, tokens, first):
    """Plot one head's keys after `first` ids. Each further panel adds the key of one more id."""
    figure, axes = plt.subplots(1, len(ids) - first + 1, figsize=(9.5, 0.8 + 0.28 * len(ids)))
    frame = {"fill": False, "edgecolor": lessons.BLACK, "lw": 2.5, "clip_on": False}
    for axis, n in zip(axes, range(first, len(ids) + 1)):
        keys = keys_of(model, ids[:n])
        d_head = keys.shape[1]
        blank = np.full((len(ids) - n, d_head), np.nan)
        limit = np.percentile(np.abs(keys), 99)
        style = {"cmap": "PuOr", "vmin": -limit, "vmax": limit, "aspect": "auto"}
        image = axis.imshow(np.vstack([keys, blank]), **style)
        new = n - 1 if n > first else 0
        axis.add_patch(Rectangle((-0.5, new - 0.5), d_head, n - new, **frame))
        axis.set_yticks(range(n), [token.replace(" ", "·") for token in tokens[:n]])
        axis.set(title=f"{n} tokens", xlabel="the numbers of a key", xticks=[])
    figure.colorbar(image, ax=axes, shrink=0.7)
    figure.suptitle(f"Keys of block {LAYER}, head {HEAD}: a pass adds a row (framed: new rows)")


def your_text(tokenizer, model, text):
    """Plot one head's keys for the last tokens of a text, and after each of three new tokens."""
    ids = tokenizer.encode(text)[-12:]
    for _ in range(3):
        ids.append(int(model(ids, last=1)[-1].argmax()))
    growing(model, ids, [tokenizer.decode([id]) for id in ids], len(ids) - 3)
    alt = f"The keys of one head while a model continues {text!r}: {len(ids) - 3} rows, and one"
    lessons.show(f"{alt} more in each pass.")
