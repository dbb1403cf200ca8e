"""Pictures: the tokens of a text, and how merges shorten texts."""

import lessons
import matplotlib.pyplot as plt

TINTS = "#cfe6f5", "#fbe3b5", "#c9ecdf", "#f3d7e6"


def label(tokenizer, id):
    """Return a token's text, with a dot for each space.

    If the token's bytes are not valid UTF-8, return them as hexadecimal numbers.
    """
    try:
        return tokenizer.token_bytes(id).decode("utf-8").replace(" ", "·").replace("\n", "¶")
    except UnicodeDecodeError:
        return tokenizer.token_bytes(id).hex(" ").upper()
    except AttributeError:  # this tokenizer has no token_bytes
        return tokenizer.decode([id])


def tokens(tokenizer, text, columns=72):
    """Draw a box for each token of a text, with the id below; columns: the width of a line."""
    boxes, line, column = [], 0, 0.0
    for id in tokenizer.encode(text):
        shown = label(tokenizer, id)
        width = max(len(shown), 0.8 * len(str(id))) + 0.5
        if column + width > columns:
            line, column = line + 1, 0.0
        boxes.append((column, line, width, shown, id))
        column += width + 0.25
    _, axis = plt.subplots(figsize=(10, 0.75 * (line + 1) + 0.1))
    for i, (column, line, width, shown, id) in enumerate(boxes):
        axis.add_patch(plt.Rectangle((column, line), width, 0.5, fc=TINTS[i % 4], ec="black"))
        middle = column + width / 2
        axis.text(middle, line + 0.25, shown, **lessons.CENTERED, family="monospace", fontsize=12)
        axis.text(middle, line + 0.7, id, **lessons.CENTERED, fontsize=10)
    axis.set(xlim=(-0.2, columns), ylim=(line + 0.9, -0.1))
    axis.axis("off")


def growth(counts, shares):
    """Plot bytes per token against the number of merges.

    counts: numbers of merges; shares: {name of a text: its bytes per token for each count}.
    """
    _, axis = plt.subplots(figsize=(8, 3.8))
    for (name, share), style in zip(shares.items(), ("o-", "s--", "^-.")):
        axis.plot([max(k, 3) for k in counts], share, style, label=name)
    axis.set_xscale("log")
    axis.set_xticks([max(k, 3) for k in counts], counts)
    axis.minorticks_off()
    axis.set(title="What more merges buy", xlabel="merges", ylabel="bytes per token")
    axis.set_ylim(0, None)
    axis.legend()


def your_text(tokenizer, model, text):
    """Draw the tokens of a text in boxes, for any model."""
    tokens(tokenizer, text)
    ids, n_bytes = tokenizer.encode(text), len(text.encode("utf-8"))
    plt.title(f"{len(ids)} tokens for {n_bytes} bytes, of {model.n_ctx} that fit the context")
    lessons.show(f"The text {text!r} in boxes, one for each token, with its id below.")
