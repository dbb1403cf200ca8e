"""The steps of the workshop, in order."""

from workshop.engine import Step
from workshop.steps import keys, loops, pairs, speculation, transformer

STEPS = [
    Step("softmax", (transformer.SOFTMAX,)),
    Step("layers", transformer.LAYERS),
    Step("attention", (transformer.ATTENTION,)),
    Step("mask", (transformer.MASK,)),
    Step("heads", transformer.HEADS),
    Step("block", transformer.BLOCK),
    Step("model", (transformer.MODEL,)),
    Step("draw", loops.DRAW),
    Step("naive", (loops.NAIVE,)),
    Step("pairs", pairs.PAIRS),
    Step("keys", keys.KEYS),
    Step("cached", loops.CACHED),
    Step("rows", keys.ROWS),
    Step("rule", (speculation.RULE,)),
    Step("speculation", speculation.SPECULATION),
    Step("beam", (keys.SELECT, speculation.BEAM)),
    Step("stories", (loops.STORIES,)),
]
