"""Run one prompt through every loop. With greedy decoding, all loops generate the same text."""

import numpy as np

from decoding.batching import continuous
from decoding.beam import beam_search
from decoding.drafters import DraftModel, PromptLookup
from generate import Sequence, begin, cached, naive
from gpt2 import Cache
from samplers import Sampler, one_hot
from tests.support.tiny import drafted_by


def every_loop(model, prompt, others, n, new_filters):
    """Return {loop's name: the new ids after prompt}, for greedy decoding of at most n tokens.

    others: more prompts for the batch. new_filters(n_prompt): returns the filters of one sequence.
    """
    own, start = begin(model, prompt)
    sampler = Sampler(*new_filters(len(start)), to_probs=one_hot)
    drafter = DraftModel(own, sampler, np.random.default_rng(0))
    loops = {
        "naive": naive,
        "cached": cached,
        "lookup": drafted_by(PromptLookup(own.n_vocab)),
        "model drafts": drafted_by(drafter),
    }
    found = {
        name: list(loop(own, Sequence(own, start, n, sampler))) for name, loop in loops.items()
    }
    starts = [begin(model, other) for other in others] + [(own, start)]
    sequences = [
        Sequence(each, ids, n, Sampler(*new_filters(len(ids)), to_probs=one_hot))
        for each, ids in starts
    ]
    if isinstance(own.new_cache(), Cache):
        list(continuous(sequences, max_rows=2))
        found["continuous"] = sequences[-1].new_ids
    found["beam"] = beam_search(own, start, n, width=1, filters=new_filters(len(start)))[0].ids
    return found


def one_text(found):
    """Assert that all loops generated the same new ids, and return these ids."""
    first, *others = found.values()
    assert all(ids == first for ids in others), found
    return first
