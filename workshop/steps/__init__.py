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

ONE_BLOCK = "Lesson 1, One block, line by line."
STEPS = [
    Step("softmax", ONE_BLOCK, (SOFTMAX,)),
    Step("layers", ONE_BLOCK, (LAYER_NORM, GELU, LINEAR)),
    Step("attention", ONE_BLOCK, (ATTENTION,)),
    Step("mask", ONE_BLOCK, (MASK,)),
    Step("heads", ONE_BLOCK, (SPLIT_HEADS, MERGE_HEADS)),
    Step("block", ONE_BLOCK, (SELF_ATTENTION, FEED_FORWARD, BLOCK)),
    Step("model", "Lesson 1, From an id to a vector.", (MODEL,)),
    Step("naive", "Lesson 4, Predict, append, repeat.", (NAIVE,)),
    Step("draw", "Lesson 5, The draw.", (DRAW, TEMPERATURE, TOP_K, TOP_P)),
    Step("pairs", "Lesson 2, Pairs: merge by hand.", (MERGE, ENCODE)),
    Step("keys", "Lesson 4, A step of our own.", (KEYS, CUT)),
    Step("cached", "Lesson 4, A step of our own.", (ADVANCE, CACHED)),
    Step("rows", "Lesson 11, A row for each reader.", (ROWS, PREFILL)),
    Step("rule", "Lesson 10, The rule for samples.", (RULE,)),
    Step("speculation", "Lesson 10, The whole loop, step by step.", (DRAFT_MODEL, SPECULATIVE)),
    Step("beam", "Lesson 6, Try them all.", (BEAM,)),
    Step("stories", "Lesson 4, The same in generate.py.", (STORIES,)),
]
# The last step needs these libraries to read weights and a tokenizer. Without them, omit the step.
if not all(map(importlib.util.find_spec, ("safetensors", "tokenizers", "regex"))):
    STEPS.pop()
