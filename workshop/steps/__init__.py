"""The steps, in the order of the course."""

from workshop.engine import Step
from workshop.steps import keys, layers, loops, pairs, transformer

ALL = [*layers.STEPS, *transformer.STEPS, *loops.STEPS, *pairs.STEPS, *keys.STEPS]
ORDER = (
    "softmax layers attention mask heads block model naive draw pairs keys cached rows".split()
)
STEPS: list[Step] = sorted(ALL, key=lambda step: ORDER.index(step.name))
