"""Record runs for the tests of the HTML page, and unpack a page's data."""

import base64
import functools
import json
import re
import zlib

import numpy as np

import page
import utils
from decoding.beam import beam_search
from decoding.drafters import DraftModel
from generate import Sequence, begin, cached, naive
from samplers import make_sampler
from speculative import speculative


def recorded(tokenizer, model, text, n=12, loop=cached, seed=1, named=None, **settings):
    """Continue a prompt and return the data of the page, as made by page.record. named: what the
    command line tells the page, besides the sampler's settings."""
    ids = tokenizer.encode(text)
    runs, start = begin(model, ids)
    sampler, steps = make_sampler(**settings), []
    sequence = Sequence(runs, start, n, sampler, page.die(seed))
    with page.watching(sequence) as run:
        for _ in loop(runs, sequence, *[steps] * (loop is searched)):
            pass
    settings = settings | {"seed": seed} | (named or {})
    return page.record(tokenizer, sequence, run, () if runs is model else ids, steps, settings)


def searched(model, sequence, steps):
    """A generation loop that runs beam search and yields the tokens of the best text."""
    [found] = beam_search(model, sequence.ids, sequence.n_left, 3, trace=steps)
    for token in found.ids:
        yield sequence.append(token)


def drafted(model, sequence):
    """Run speculative decoding with the model stories-draft as the drafter."""
    draft = utils.load("stories-draft")[1]
    drafter = DraftModel(draft, sequence.sampler, np.random.default_rng(3))
    return speculative(model, sequence, drafter)


def banning(*tokens):
    """Return a filter that removes tokens. It writes into the logits, as a user's own may."""

    def ban(logits, ids):
        logits[[*tokens]] = -np.inf
        return logits

    return ban


BEAMS = {"method": "beam", "beams": 3, "length_penalty": 1.0}
DRAFTS = {"method": "speculative", "draft": "stories-draft", "gamma": 4}
RUNS = {  # name -> model, prompt, number of tokens, loop, names for the page, settings
    "naive": ("stories", "Once upon a", 16, naive, {"method": "naive"}, {"temperature": 0.8}),
    "cached": ("stories", "Once upon a", 16, cached, {"method": "cached"}, {"temperature": 0.8}),
    "greedy": ("stories", "Once upon a", 16, cached, {"method": "cached"}, {"temperature": 0}),
    "drafts": ("stories", "Once upon a time", 40, drafted, DRAFTS, {"temperature": 0.9}),
    "beam": ("stories", "Once upon a", 16, searched, BEAMS, {}),
    "en-de": ("en-de", "The weather is nice.", 10, searched, BEAMS, {}),
}


@functools.cache
def run(name):
    """Run one of RUNS with a model in the repository, and return the data of its page."""
    model, prompt, n, loop, named, settings = RUNS[name]
    named = named | {"model": model}
    return recorded(*utils.load(model), prompt, n, loop, named=named, **settings)


def array(data, name, *shape):
    """Unpack an array from a page's data."""
    kind, text = data["arrays"][name]
    data = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(data, kind.removesuffix("Array").lower()).reshape(shape)


def data_of(html):
    """Return the data that a page contains."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(found[1])
