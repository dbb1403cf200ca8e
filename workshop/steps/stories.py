"""Step 17: the bundled model `stories`, run with the reader's own functions."""

from functools import partial

from generate import Sequence
from samplers import greedy
from workshop.compare import Seen
from workshop.engine import Part

TEXT = "The dragon was hungry. He"


def see_stories(m, seed):
    tokenizer, model = m.model()
    ids = tokenizer.encode(TEXT)
    yield Seen(
        "the logits of the stories (see the steps before)", partial(model, ids), "n_new, n_vocab"
    )
    tokens = m.cached(model, Sequence(model, ids, 24, greedy))
    yield Seen(f"24 tokens after {TEXT!r}", lambda: tokenizer.decode(list(tokens)))


OWN = (
    "softmax layer_norm gelu linear attention causal_mask split_heads merge_heads self_attention"
    " feed_forward GPT2.block GPT2.__call__ draw advance cached model"
).split()
NEEDS = *OWN, "Cache.extend", "Cache.append"
STORIES = Part(
    (*OWN, "Cache"),
    see_stories,
    lesson='"The loop and its cache": The same in generate.py.',
    needs=NEEDS,
    libraries=("regex", "safetensors"),
)
