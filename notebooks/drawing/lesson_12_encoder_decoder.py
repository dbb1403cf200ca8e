"""The longer pictures of lesson 12, and its word-by-word glosses."""

import re

import matplotlib.pyplot as plt

GLOSSES = """Tom Tom|hat has|gestern yesterday|ein a|eine a|neues new|Auto car|gekauft bought
Ich I|ich I|weiß know|dass that|er he|keinen no|Kaffee coffee|trinken drink|trinkt drinks|kann can
Gestern yesterday|habe have|deine your|Schwester sister|am at-the|Bahnhof station|gesehen seen
Kannst can|du you|mir me|helfen help|Es it|es it|regnet rains|trinke drink|Tasse cup|Wo where
ist is|der the|Meine my|zwei two|Katzen cats|Mein my|Bruder brother|möchte would-like|will wants
Tee tea|Heute today|heute today|kalt cold|ziemlich rather|sehr very|schon already|so so"""
GLOSS = dict(pair.split() for pair in GLOSSES.replace("\n", "|").split("|"))


def gloss(german):
    """Prints a German sentence, and below each of its words the English one."""
    words = re.findall(r"[\w-]+|[^\w\s]", german)
    english = [GLOSS.get(word, "?") if word[0].isalpha() else word for word in words]
    widths = [max(len(pair[0]), len(pair[1])) + 1 for pair in zip(words, english)]
    for line in (words, english):
        row = "".join(word.ljust(width) for word, width in zip(line, widths))
        print("    " + row.rstrip())
    print()


def heat(axis, weights, queries, keys):
    """Attention weights [query, key] with the names of both."""
    image = axis.imshow(weights, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(keys)), keys, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(queries)), queries)
    axis.set_xlabel("looked at")
    return image


def three_kinds(encoder, decoder, cross, read, written):
    """The weights of the three kinds side by side; the rows of the last two are the same."""
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.2))
    heat(axes[0], encoder, read, read)
    heat(axes[1], decoder, written, written)
    image = heat(axes[2], cross, written, read)
    for axis, title in zip(axes, ("Encoder: both ways", "Decoder: backwards", "Cross: the source")):
        axis.set_title(title)
    axes[0].set_ylabel("the token that looks")
    figure.colorbar(image, ax=axes, label="weight, mean of the heads", shrink=0.6)
    return figure
