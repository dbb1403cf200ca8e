"""The steps of the workshop, in order."""

from workshop.engine import Step
from workshop.steps.beam import BEAM
from workshop.steps.keys import CUT, KEYS, PREFILL, ROWS, SELECT
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

STEPS = [
    Step("softmax", (SOFTMAX,)),
    Step("layers", (LAYER_NORM, GELU, LINEAR)),
    Step("attention", (ATTENTION,)),
    Step("mask", (MASK,)),
    Step("heads", (SPLIT_HEADS, MERGE_HEADS)),
    Step("block", (SELF_ATTENTION, FEED_FORWARD, BLOCK)),
    Step("model", (MODEL,)),
    Step("draw", (DRAW, TEMPERATURE, TOP_K, TOP_P)),
    Step("naive", (NAIVE,)),
    Step("pairs", (MERGE, ENCODE)),
    Step("keys", (*KEYS, CUT)),
    Step("cached", (ADVANCE, CACHED)),
    Step("rows", (ROWS, PREFILL)),
    Step("rule", (RULE,)),
    Step("speculation", (DRAFT_MODEL, SPECULATIVE)),
    Step("beam", (SELECT, BEAM)),
    Step("stories", (STORIES,)),
]
