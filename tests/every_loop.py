"""One prompt through every loop: greedy, each of them finds the same text."""

import numpy as np

from beam import beam_search
from drafters import DraftModel, PromptLookup
from generate import Sequence, cached, naive
from samplers import Sampler, one_hot
from speculative import speculative


def every_loop(model, prompt, others, n, new_filters):
    """{loop: new ids}. others: prompts that run in the same batch; new_filters(n_prompt): the list
    of filters of a sequence."""
    found = {}
    for name, (loop, prompts) in {
        "naive": (naive, [prompt]),
        "cached": (cached, [prompt]),
        "naive batch": (naive, [*others, prompt]),
        "cached batch": (cached, [*others, prompt]),
        "lookup": (drafted(lambda m, s: PromptLookup(m.n_vocab)), [*others, prompt]),
        "model drafts": (drafted(itself), [*others, prompt]),
    }.items():
        ready, starts = model.begin(prompts)
        sequences = [greedy_sequence(ready, start, n, new_filters) for start in starts]
        for _ in loop(ready, sequences):
            pass
        found[name] = sequences[-1].new_ids
    ready, [start] = model.begin([prompt])
    found["beam"] = beam_search(ready, start, n, width=1, filters=new_filters(len(start)))[0].ids
    return found


def greedy_sequence(model, start, n, new_filters):
    sampler = Sampler(*new_filters(len(start)), to_probs=one_hot)
    return Sequence(model, start, n, sampler)


def drafted(new_drafter):  # (model, sequence) -> Drafter
    def loop(model, sequences):
        yield from speculative(model, sequences, lambda s: new_drafter(model, s))

    return loop


def itself(model, sequence):  # drafts that are all accepted; one source: a cache of one row
    return DraftModel(model, sequence.sampler, np.random.default_rng(0))


def one_text(found):
    """The new ids, which are the same in every loop."""
    first, *others = found.values()
    assert all(ids == first for ids in others), found
    return first
