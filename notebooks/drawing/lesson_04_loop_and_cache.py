"""Pictures of lesson 4: passes, the cache's growth, the film of both loops."""

import io

import lessons
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Image, display
from matplotlib.patches import Rectangle
from PIL import Image as Picture

LAYER, HEAD = 0, 1  # whose keys are drawn

ALT = {  # what each picture shows, for those who do not see it
    "triangle": (
        "Two grids with a row for each pass and a column for each token. Without a cache every "
        "pass computes all tokens so far, a triangle; with one, each token is computed once."
    ),
    "growing": (
        "Four matrices of keys, for 7, 8, 9 and 10 tokens. Each is the one before it, with the "
        "same colours, and one new row at the bottom, which is framed."
    ),
    "times": (
        "Time of the next pass against the length of the text. The naive loop's rises all the "
        "way; the cached loop's stays low and nearly flat."
    ),
}


def triangle(n_prompt, n_new):
    """What each pass computes, without a cache and with one: a row per pass, a column per token."""
    n = n_prompt + n_new - 1
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True)
    for axis, with_cache in zip(axes, (False, True)):
        total = 0
        for number in range(n_new):
            known, length = (n_prompt + number - 1) * (number > 0), n_prompt + number
            for token in range(known if with_cache else 0, length):
                again, total = token < known, total + 1
                color = lessons.ORANGE if again else lessons.BLUE
                axis.add_patch(Rectangle((token, number), 0.9, 0.9, facecolor=color,
                                         hatch="///" * again, edgecolor="white", lw=0))  # fmt: skip
        name = "with a cache" if with_cache else "without a cache"
        axis.set(title=f"{name}: {total} tokens computed", xlabel="token", xlim=(-0.2, n))
        axis.set_ylim(n_new, -0.2)
        axis.set_xticks(np.arange(n) + 0.45, range(1, n + 1))
        axis.set_yticks(np.arange(n_new) + 0.45, range(1, n_new + 1))
        axis.set_aspect("equal")
    axes[0].set_ylabel("pass")
    kinds = [(lessons.BLUE, "", "for the first time"), (lessons.ORANGE, "///", "again")]
    patches = [Rectangle((0, 0), 1, 1, facecolor=color, hatch=hatch, edgecolor="white", label=label)
               for color, hatch, label in kinds]  # fmt: skip
    figure.legend(handles=patches, loc="outside lower center", ncols=2)


def keys_of(model, ids):  # -> [len(ids), d_head], one head's
    cache = model.new_cache()
    model(ids, cache)
    return cache.kv[0, LAYER, HEAD % cache.kv.shape[2], : cache.length]


def draw_keys(axis, keys, new, tokens, n_rows):
    """A matrix of keys, with room for n_rows; the rows from `new` on are framed."""
    blank = np.full((n_rows - len(keys), keys.shape[1]), np.nan)
    limit = np.percentile(np.abs(keys), 99)
    axis.imshow(np.vstack([keys, blank]), cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    axis.add_patch(Rectangle((-0.5, new - 0.5), keys.shape[1], len(keys) - new, fill=False,
                             edgecolor=lessons.BLACK, lw=2.5, clip_on=False))  # fmt: skip
    labels = [token.replace(" ", "·") for token in tokens[: len(keys)]]
    axis.set_yticks(range(len(keys)), labels)
    axis.set_xticks([])


def growing(model, ids, tokens, first):
    """The keys of one head after each pass, from `first` tokens to all."""
    n_passes = len(ids) - first + 1
    figure, axes = plt.subplots(1, n_passes, figsize=(9.5, 0.8 + 0.28 * len(ids)))
    for axis, n in zip(axes, range(first, len(ids) + 1)):
        draw_keys(axis, keys_of(model, ids[:n]), n - 1 if n > first else 0, tokens, len(ids))
        axis.set(title=f"{n} tokens", xlabel="the numbers of a key")
    figure.suptitle(f"Keys of block {LAYER}, head {HEAD}: a pass adds a row (framed: new rows)")


def film_frame(keys, n_prompt, tokens, n_rows):
    """One pass of both loops: which rows it computes, and how many have been computed so far."""
    n = len(keys)
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 4.1), layout="none")
    figure.subplots_adjust(left=0.1, right=0.98, wspace=0.25, top=0.84, bottom=0.08)  # as in all
    first = n == n_prompt
    sums = sum(range(n_prompt, n + 1)), n
    for axis, name, new, total in zip(axes, ("naive", "cached"), (0, n - 1), sums):
        draw_keys(axis, keys, 0 if first else new, tokens, n_rows)
        computed = n if first or name == "naive" else 1
        axis.set(title=f"{name}: computes {computed} now, {total} so far", xlabel="keys")
    figure.suptitle(f"pass {n - n_prompt + 1}: next comes “{tokens[n].strip()}”")
    return figure


def film(model, prompt, ids, tokens):
    """An animated PNG: a frame for each pass. What shows no films shows the last pass."""
    frames = []
    for n in range(len(prompt), len(ids) + 1):
        figure = film_frame(keys_of(model, ids[:n]), len(prompt), tokens, len(ids))
        frames.append(picture(figure))
    still, file = frames[-1], io.BytesIO()
    times = [900] * (len(frames) - 1) + [3000]
    still.save(file, format="PNG", save_all=True, append_images=frames, default_image=True,
               duration=times, loop=0)  # fmt: skip
    alt = ("A film of both loops' keys. In each pass the naive loop computes all rows again, and "
           "the cached loop only the last one; the numbers are the same.")  # fmt: skip
    display(Image(file.getvalue(), alt=alt, width=still.width * 100 // 110))


def picture(figure):  # -> an image of few colours, which keeps the film small
    file = io.BytesIO()
    with plt.rc_context({"savefig.bbox": "standard"}):  # all frames have one size
        figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return Picture.open(file).convert("RGB")


def your_text(tokenizer, model, text):
    """The lesson's picture for a text: its cache, and the next three passes."""
    ids = tokenizer.encode(text)[-12:]
    for _ in range(3):
        ids.append(int(model(ids, last=1)[-1].argmax()))
    growing(model, ids, [tokenizer.decode([id]) for id in ids], len(ids) - 3)
    lessons.show(f"The keys of one head while a model continues {text!r}: a row more in each pass.")
