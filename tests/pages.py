"""Pages for the tests: recorded runs, and the data of a page as arrays again."""

import base64
import functools
import json
import re

import numpy as np

import utils
from beam import beam_search
from drafters import DraftModel
from generate import Sequence, cached, naive
from inside import page
from inside.recorder import recording
from samplers import Sampler, make_sampler
from tests.tiny import drafted_by

METHODS = ("naive", "cached", "speculative", "beam", "en-de")


def recorded(tokenizer, model, text, n=12, loop=cached, source=(), **settings):
    """What page.record makes of a text after a prompt."""
    ids = model.add_special_tokens(tokenizer.encode(text)) if model.has_source else None
    conditioned, [start] = model.begin([ids or tokenizer.encode(text)])
    sequence = Sequence(conditioned, start, n, make_sampler(**settings), seed=1)
    steps = []
    with recording(model, page.KEEP) as calls:
        for _ in loop(conditioned, [sequence], *[steps] * (loop is searched)):
            pass
    return page.record(tokenizer, model, sequence, calls, ids or [], steps, settings)


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
        return recorded(tokenizer, model, "The weather is nice.", 10, loop=searched)
    draft = utils.load("stories-draft")[1]
    drafter = DraftModel(draft, Sampler(), np.random.default_rng(3))
    loops = {"naive": naive, "cached": cached, "beam": searched, "speculative": drafted_by(drafter)}
    settings = {} if method == "beam" else {"temperature": 0.8}
    return recorded(tokenizer, model, "Once upon a", 16, loops[method], **settings)


def unpacked(text, dtype, *shape):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)


def data_of(html):
    """The data in a page."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(found[1])
