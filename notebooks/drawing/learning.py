"""Pictures. Each function returns the alternative text of its picture."""

import textwrap

import lessons
import matplotlib.pyplot as plt


def over_time(losses, samples, held_out=None):
    """Plot the loss of each step, and write texts of the model below the curve.

    samples: {step: text}; held_out: {step: loss on held-out text} or None.
    """
    figure, (axis, below) = plt.subplots(2, figsize=(9, 4.8), height_ratios=(5, 2))
    axis.plot(range(1, len(losses) + 1), losses, lw=1, label="batch")
    if held_out:
        axis.plot(list(held_out), list(held_out.values()), "o--", label="held out")
        axis.legend(frameon=False)
    axis.set(title="From noise to words", xlabel="step", ylabel="loss (nats per token)")
    below.axis("off")
    lines = [f"{step:>5}  {printable(text)}" for step, text in samples.items()]
    style = {"family": "monospace", "fontsize": 9, "va": "top", "parse_math": False}
    below.text(0, 1, "\n".join(["step   the model writes", *lines]), **style)
    return f"The loss falls from {losses[0]:.2f} to {losses[-1]:.2f}."


def printable(text, width=88):
    """Return the text's beginning, with a box for each character that the font may not have."""
    text = textwrap.shorten(text, width)
    return "".join(c if c.isprintable() and c < "\u0600" else "\u25a1" for c in text)


def by_heart(learnt, held_out):
    """Plot the loss on the text that is learnt, and on held-out text.

    learnt, held_out: {step: loss}.
    """
    _, axis = plt.subplots(figsize=(8, 3.4))
    axis.plot(list(learnt), list(learnt.values()), "o-", label="the few stories that it learns")
    axis.plot(list(held_out), list(held_out.values()), "s--", label="held-out stories")
    axis.set(title="Learnt by heart", xlabel="step", ylabel="loss (nats per token)", ylim=(0, None))
    axis.legend(frameon=False)
    least = min(held_out, key=held_out.get)
    return (
        f"The loss on the stories that are learnt falls to {min(learnt.values()):.2f}. On held-out "
        f"stories it is least, {held_out[least]:.2f}, at step {least}; then it rises."
    )


def knob(values, losses, at, slope):
    """Plot the loss against one weight, and the line that the gradient predicts.

    at: (the weight's value, its loss); slope: its gradient.
    """
    _, axis = plt.subplots(figsize=(7, 3.2))
    axis.plot(values, losses, label="the loss")
    line = [at[1] + slope * (value - at[0]) for value in values]
    axis.plot(values, line, "--", color=lessons.RED, label=f"the gradient: slope {slope:+.3f}")
    axis.plot(*at, "o", color=lessons.BLACK, label="now")
    axis.set(title="One weight, all others fixed", xlabel="the weight", ylabel="loss")
    axis.legend(frameon=False)
    return f"The loss by the value of one weight. At {at[0]:.2f}, the slope is {slope:+.3f}."
