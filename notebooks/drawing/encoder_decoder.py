"""Word-by-word glosses and pictures.

Each function that plots a whole figure returns the figure's alternative text.
"""

import re
import textwrap

import lessons
import matplotlib.pyplot as plt
import numpy as np

GLOSSES = """Tom Tom|hat has|gestern yesterday|ein a|eine a|neues new|Auto car|gekauft bought
Ich I|ich I|weiß know|dass that|er he|keinen no|Kaffee coffee|trinken drink|trinkt drinks|kann can
Gestern yesterday|habe have|deine your|Schwester sister|am at-the|Bahnhof station|gesehen seen
Kannst can|du you|mir me|helfen help|Es it|es it|regnet rains|trinke drink|Tasse cup|Wo where
ist is|der the|Meine my|zwei two|Katzen cats|Mein my|Bruder brother|möchte would-like|will wants
Mann man|Frau woman|hilft helps|Hund dog|Hunde dogs|Katze cat|einen a|und and
Vater father|Mutter mother|mein my|meine my|Die the|Der the|dem the|Meine my
Tee tea|Heute today|heute today|kalt cold|ziemlich rather|sehr very|schon already|so so"""
GLOSS = dict(pair.split() for pair in GLOSSES.replace("\n", "|").split("|"))


def gloss(german):
    """Print a German sentence, with an English translation below each word."""
    words = re.findall(r"[\w-]+|[^\w\s]", german)
    english = [GLOSS.get(word, "?") if word[0].isalpha() else word for word in words]
    widths = [max(len(pair[0]), len(pair[1])) + 1 for pair in zip(words, english)]
    for line in (words, english):
        row = "".join(word.ljust(width) for word, width in zip(line, widths))
        print("    " + row.rstrip())
    print()


def heat(axis, weights, queries, keys):
    """Plot attention weights [query, key]; queries, keys: the labels of the rows and columns."""
    image = axis.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(keys)), keys, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(queries)), queries)
    axis.set_xlabel("looked at")
    return image


def three_kinds(encoder, decoder, cross, read, written):
    """Plot the weights of the three kinds of attention side by side.

    read, written: the labels of the source tokens, and of the target tokens.
    """
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.2))
    heat(axes[0], encoder, read, read)
    heat(axes[1], decoder, written, written)
    image = heat(axes[2], cross, written, read)
    for axis, title in zip(axes, ("Encoder: both ways", "Decoder: backwards", "Cross: the source")):
        axis.set_title(title)
    axes[0].set_ylabel("the token that looks")
    figure.colorbar(image, ax=axes, label="weight, mean of the heads", shrink=0.6)
    says = strongest(encoder, read, read), strongest(decoder, written, written)
    return f"Weights of attention. The encoder's: {says[0]}. The decoder's, a triangle: {says[1]}."


def strongest(weights, queries, keys):
    """Return a text that names, for each query, the key with the largest weight."""
    rows = zip(queries, weights, weights.argmax(-1))
    return ", ".join(f"{query} at {keys[i]} {row[i]:.2f}" for query, row, i in rows)


def alignments(pairs):
    """Plot cross-attention weights, a panel for each (title, weights, queries, keys)."""
    size = (8 if len(pairs) == 1 else 10, 4.9 - 0.4 * len(pairs))
    figure, axes = plt.subplots(1, len(pairs), figsize=size, squeeze=False)
    for axis, (title, *weighed) in zip(axes[0], pairs):
        image = heat(axis, *weighed)
        axis.set_title(title)
    axes[0, 0].set_ylabel("the token that looks")
    figure.colorbar(image, ax=axes, label="weight, mean of the heads", shrink=0.6)
    looks = ". ".join(f"{title}: {strongest(*weighed)}" for title, *weighed in pairs)
    return f"Weights of cross-attention. Each token looks most at one token. {looks}."


def sources(bits, english, german):
    """Plot how many bits per token each translation costs, given each source.

    bits: [source, translation].
    """
    _, axis = plt.subplots(figsize=(9.5, 4.2))
    image = axis.imshow(bits, cmap="Blues", aspect="auto")
    for i, j in np.ndindex(*bits.shape):
        color = "black" if bits[i, j] < bits.max() / 2 else "white"
        axis.text(j, i, f"{bits[i, j]:.1f}", **lessons.CENTERED, color=color)
    axis.set_yticks(range(len(english)), [textwrap.fill(text, 16) for text in english])
    axis.set_xticks(range(len(german)), [textwrap.fill(text, 14) for text in german])
    axis.set(title="A translation under each source", ylabel="source", xlabel="translation")
    plt.colorbar(image, label="bits per token")
    own, other = np.diag(bits), bits[~np.eye(len(bits), dtype=bool)]
    return f"Bits per token: at most {own.max():.1f} for a pair, else at least {other.min():.1f}."
