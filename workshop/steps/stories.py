"""Step 17: the embedded stories, on nothing but the reader's own file."""

import importlib.util

from generate import Sequence
from samplers import greedy
from workshop.compare import Seen
from workshop.engine import Part, Step

TEXT = "The dragon was hungry. He"

OWN = (
    "softmax layer_norm gelu linear attention causal_mask split_heads merge_heads self_attention"
    " feed_forward GPT2.block GPT2.__call__ draw Cache advance cached model"
).split()
NEEDS = [name for name in OWN if name != "Cache"] + ["Cache.extend", "Cache.append"]


def see_stories(m, seed):
    tokenizer, model = m.model()
    ids = tokenizer.encode(TEXT)
    yield Seen("the logits of the stories (see the steps before)", model(ids), "n_new, n_vocab")
    tokens = list(m.cached(model, Sequence(model, ids, 24, greedy)))
    yield Seen(f"24 tokens after {TEXT!r}", tokenizer.decode(tokens))


# The weights and the tokenizer are read by libraries. Without them this step is left out.
CAN_LOAD = all(map(importlib.util.find_spec, ("safetensors", "tokenizers", "regex")))
STEPS = [
    Step(
        "stories",
        "Lesson 4, The same in generate.py.",
        (Part(tuple(OWN), "workshop/reference.py", see_stories, needs=tuple(NEEDS)),),
    )
][: int(CAN_LOAD)]
