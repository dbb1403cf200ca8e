"""The steps, in the order of the course."""

from workshop.engine import Step
from workshop.steps import beam, keys, layers, loops, pairs, speculation, stories, transformer

ORDER = (
    "softmax layers attention mask heads block model naive draw pairs keys cached rows rule"
    " speculation beam stories"
).split()
FILES = layers, transformer, loops, pairs, keys, speculation, beam, stories
STEPS: list[Step] = sorted(
    (step for file in FILES for step in file.STEPS), key=lambda step: ORDER.index(step.name)
)
