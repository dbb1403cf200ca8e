"""The steps, in the order of the course."""

from workshop.engine import Step
from workshop.steps import layers, transformer

STEPS: list[Step] = [*layers.STEPS, *transformer.STEPS]
