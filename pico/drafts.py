"""Speculative decoding: a drafter guesses the next tokens; the model checks them all in one pass.

The text has exactly the model's own distribution. Nothing is faster here, where each pass of either
model rereads the text. With caches, a large model's pass over five new tokens takes little longer
than over one. p is the model's distribution, q the drafter's: Leviathan et al. 2023, "Fast
Inference from Transformers via Speculative Decoding". Full file: speculative.py. Next:
translate.py.
"""

from functools import partial

import numpy as np

from pico import given, load
from pico.choices import draw
from pico.forward import generate, gpt2, softmax


def speculative(model, drafter, ids, to_probs, n_passes, rng):  # yields drafts and new ids
    for _ in range(n_passes):
        drafts, qs = drafter(ids, to_probs, rng)  # each draft, and the q that it was drawn from
        logits = model(ids + drafts)  # one pass: [len(ids) + len(drafts), n_vocab]
        ps = to_probs(logits[len(ids) - 1 :])  # a p after the text, and after each draft
        new_ids = verify(drafts, qs, ps, rng)
        ids = ids + new_ids
        yield drafts, new_ids  # one new id, and one more for each accepted draft


# x is drafted and accepted with probability q(x) * min(1, p(x) / q(x)) = min(q(x), p(x)). To reach
# p(x), max(0, p(x) - q(x)) is missing. Over all x it sums to P(rejection), which draws from it.
def verify(drafts, qs, ps, rng):  # -> the accepted drafts, and one more token
    accepted = []
    for x, q, p in zip(drafts, qs, ps):
        if rng.random() >= p[x] / q[x]:  # reject x, and drop the drafts after it
            missing = np.maximum(p - q, 0)
            return accepted + [draw(missing, rng.random())]
        accepted.append(x)
    return accepted + [draw(ps[-1], rng.random())]


def from_model(small, ids, to_probs, rng, n=4):  # a drafter: each draft is a pass of a small model
    drafts, qs = [], []
    for _ in range(n):
        q = to_probs(small(ids + drafts)[-1])  # [n_vocab]
        drafts.append(draw(q, rng.random()))
        qs.append(q)
    return drafts, qs


def from_text(n_vocab, ids, to_probs, rng, n=4):  # a drafter: what last followed ids[-1]
    for i in reversed(range(len(ids) - 1)):
        if ids[i] == ids[-1]:
            drafts = ids[i + 1 : i + 1 + n]
            return drafts, [np.float32(np.arange(n_vocab) == x) for x in drafts]  # q(x) is 1
    return [], []


def one_hot(logits):  # [..., n_vocab] -> same: 1 for the best token, else 0; a draw is then greedy
    return np.float32(logits == logits.max(-1, keepdims=True))


if __name__ == "__main__":  # To try: n=1 in from_model. At most 2 tokens a pass: 24 in all, not 35.
    prompt = given("The cat said meow. The dog said woof. The cat said")
    tokenizer, large = load("stories", gpt2)
    _, small = load("stories-draft", gpt2)
    by_small, by_text = partial(from_model, small), partial(from_text, tokenizer.n_vocab)
    ids, rng = tokenizer.encode(prompt), np.random.default_rng(0)
    for drafter, to_probs in [(by_small, one_hot), (by_text, one_hot), (by_small, softmax)]:
        drafts, parts = zip(*speculative(large, drafter, ids, to_probs, 14, rng))
        n_small, new_ids = len(sum(drafts, [])) * (drafter is by_small), sum(parts, [])
        print("|".join([prompt, *map(tokenizer.decode, parts)]))
        name = f"{drafter.func.__name__} and {to_probs.__name__}: {len(new_ids)} tokens in"
        print(f"{name} {len(parts)} passes (|) of the large model, {n_small} of the small one")
        if to_probs is one_hot:
            print("the ids of forward.py:", new_ids == list(generate(large, ids, len(new_ids))))
    p, q = softmax(large(ids)[-1]), softmax(small(ids)[-1])  # of the first token after the prompt
    firsts = [verify([draw(q, rng.random())], [q], [p, p], rng)[0] for _ in range(5000)]
    print("first token    small  large  verified")
    for x in np.argsort(-p)[:5]:
        print(f"{tokenizer.decode([x])!r:13} {q[x]:6.1%} {p[x]:6.1%} {firsts.count(x) / 5000:7.1%}")
