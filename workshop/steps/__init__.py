"""The steps of the workshop, in order."""

import importlib.util

from workshop.engine import Step
from workshop.steps.beam import BEAM
from workshop.steps.keys import CUT, KEYS, PREFILL, ROWS
from workshop.steps.layers import GELU, LAYER_NORM, LINEAR, SOFTMAX
from workshop.steps.loops import ADVANCE, CACHED, DRAW, NAIVE, TEMPERATURE, TOP_K, TOP_P
from workshop.steps.pairs import ENCODE, MERGE
from workshop.steps.speculation import DRAFT_MODEL, RULE, SPECULATIVE
from workshop.steps.stories import STORIES
from workshop.steps.transformer import (
    ATTENTION,
    BLOCK,
    FEED_FORWARD,
    MASK,
    MERGE_HEADS,
    MODEL,
    SELF_ATTENTION,
    SPLIT_HEADS,
)

ONE_BLOCK = '"The forward pass": One block, line by line.'
STEPS = [
    Step("softmax", ONE_BLOCK, (SOFTMAX,)),
    Step("layers", ONE_BLOCK, (LAYER_NORM, GELU, LINEAR)),
    Step("attention", ONE_BLOCK, (ATTENTION,)),
    Step("mask", ONE_BLOCK, (MASK,)),
    Step("heads", ONE_BLOCK, (SPLIT_HEADS, MERGE_HEADS)),
    Step("block", ONE_BLOCK, (SELF_ATTENTION, FEED_FORWARD, BLOCK)),
    Step("model", '"The forward pass": From an id to a vector.', (MODEL,)),
    Step("naive", '"The loop and its cache": Predict, append, repeat.', (NAIVE,)),
    Step("draw", '"Samplers": The draw.', (DRAW, TEMPERATURE, TOP_K, TOP_P)),
    Step("pairs", '"Tokens": Pairs: merge by hand.', (MERGE, ENCODE)),
    Step("keys", '"The loop and its cache": A step of our own.', (KEYS, CUT)),
    Step("cached", '"The loop and its cache": A step of our own.', (ADVANCE, CACHED)),
    Step("rows", '"Serving": A row for each reader.', (ROWS, PREFILL)),
    Step("rule", '"Speculation": The rule for samples.', (RULE,)),
    Step("speculation", '"Speculation": The whole loop, step by step.', (DRAFT_MODEL, SPECULATIVE)),
    Step("beam", '"Search": Try them all.', (BEAM,)),
    Step("stories", '"The loop and its cache": The same in generate.py.', (STORIES,)),
]
# The last step needs these libraries to read weights and a tokenizer. Without them, omit the step.
if not all(map(importlib.util.find_spec, ("safetensors", "tokenizers", "regex"))):
    STEPS.pop()
