"""Pages for the tests: recorded runs, and the data of a page as arrays again."""

import base64
import functools
import json
import re
import zlib

import numpy as np

import utils
from beam import beam_search
from drafters import DraftModel
from generate import Sequence, cached, naive
from inside import page
from samplers import Sampler, make_sampler
from tests.tiny import drafted_by

BEAMS = {"method": "beam", "beams": 3, "length_penalty": 1.0}
NAMED = {  # what the command line calls them
    "naive": {"model": "stories", "method": "naive"},
    "cached": {"model": "stories", "method": "cached"},
    "speculative": {"model": "stories", "method": "speculative", "draft": "stories-draft", "gamma": 4},
    "beam": {"model": "stories"} | BEAMS,
    "en-de": {"model": "en-de"} | BEAMS,
}
METHODS = ("naive", "cached", "speculative", "beam", "en-de")


def recorded(tokenizer, model, text, n=12, loop=cached, seed=1, named=None, **settings):
    """What page.record makes of a text after a prompt."""
    ids = model.add_special_tokens(tokenizer.encode(text)) if model.has_source else None
    conditioned, [start] = model.begin([ids or tokenizer.encode(text)])
    sequence = Sequence(conditioned, start, n, make_sampler(**settings), seed)
    steps = []
    with page.watching(sequence) as run:
        for _ in loop(conditioned, [sequence], *[steps] * (loop is searched)):
            pass
    settings = settings | {"seed": seed} | (named or {})
    return page.record(tokenizer, sequence, run, ids or [], steps, settings)


def searched(model, sequences, steps):
    """Beam search as a loop."""
    [sequence] = sequences
    [found] = beam_search(model, sequence.ids, sequence.n_left, 3, trace=steps)
    for token in found.ids:
        sequence.append(token)
    return []


@functools.cache
def by_method(method):
    """The data of a page for each kind of run, of the models in the repository."""
    tokenizer, model = utils.load("en-de" if method == "en-de" else "stories")
    if method == "en-de":
        return recorded(tokenizer, model, "The weather is nice.", 10, searched, named=NAMED[method])
    draft = utils.load("stories-draft")[1]
    drafter = DraftModel(draft, Sampler(), np.random.default_rng(3))
    loops = {"naive": naive, "cached": cached, "beam": searched, "speculative": drafted_by(drafter)}
    settings = {} if method == "beam" else {"temperature": 0.8}
    return recorded(tokenizer, model, "Once upon a", 16, loops[method], named=NAMED[method], **settings)


TYPES = {name: dtype for dtype, name in page.DTYPES.items()}


def array(data, name, *shape):
    """A packed array of a page's data."""
    kind, text = data["arrays"][name]
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<" + TYPES[kind]).reshape(shape)


def data_of(html):
    """The data in a page."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(found[1])
