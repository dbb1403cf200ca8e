"""One prompt through every loop: greedy, each of them finds the same text."""

import functools

import numpy as np

from batching import continuous
from beam import beam_search
from drafters import DraftModel, PromptLookup
from generate import Sequence, cached, naive
from samplers import Sampler, one_hot
from speculative import speculative


def every_loop(model, prompt, others, n, new_filters):
    """{loop: new ids}. others: prompts that run in the same batch; new_filters(n_prompt): the list
    of filters of a sequence."""
    prompts, found = [*others, prompt], {}
    alone = [model.begin([prompt])[0] for prompt in prompts]  # each drafts for its own row

    def drafts_of(sequence):
        row = next(row for row, other in enumerate(sequences) if other is sequence)
        return DraftModel(alone[row], sequence.sampler, np.random.default_rng(0))

    for name, loop in {
        "naive": naive,
        "cached": cached,
        "lookup": functools.partial(speculative, new_drafter=lambda s: PromptLookup(model.n_vocab)),
        "model drafts": functools.partial(speculative, new_drafter=drafts_of),
    }.items():
        ready, starts = model.begin(prompts)
        sequences = [greedy_sequence(ready, start, n, new_filters) for start in starts]
        for _ in loop(ready, sequences):
            pass
        found[name] = sequences[-1].new_ids
    starts = [model.begin([prompt])[1][0] for prompt in prompts]
    sequences = [greedy_sequence(own, start, n, new_filters) for own, start in zip(alone, starts)]
    for _ in continuous(model, sequences, max_rows=2):
        pass
    found["continuous"] = sequences[-1].new_ids
    ready, [start] = model.begin([prompt])
    sequence = greedy_sequence(ready, start, n, new_filters)
    found["alone"] = [token for _, token in cached(ready, [sequence])]
    found["beam"] = beam_search(ready, start, n, width=1, filters=new_filters(len(start)))[0].ids
    return found


def greedy_sequence(model, start, n, new_filters):
    sampler = Sampler(*new_filters(len(start)), to_probs=one_hot)
    return Sequence(model, start, n, sampler)


def one_text(found):
    """The new ids, which are the same in every loop."""
    first, *others = found.values()
    assert all(ids == first for ids in others), found
    return first
