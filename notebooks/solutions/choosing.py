# Each solution replaces the cell of its exercise. It uses names that the notebook defines.
# ruff: noqa: F821

# exercise 1
def never(phrase):  # str -> a filter
    pieces = [tokenizer.decode([id]) for id in range(model.n_vocab)]

    def forbid(logits, ids):  # [n_vocab], the sequence so far -> [n_vocab]
        text = text_of(ids)
        end = text[max(0, len(text) - len(phrase) + 1) :]  # the last len(phrase) - 1 characters
        completes = np.array([phrase in end + piece for piece in pieces])
        return np.where(completes, np.float32(-np.inf), logits)

    return forbid


# exercise 2
def writer(ids, keys):  # ids, a list of ints -> a key, or None
    z = {key: watermark.detect(ids, key, model.n_vocab) for key in keys}
    best = max(z, key=z.get)
    return best if z[best] >= 4 else None


# exercise 3
def corrected(drawn):  # a list of (text, masses) -> {text: share}
    weights = Counter()
    for text, masses in drawn:
        weights[text] += float(np.prod(masses))  # p(x) / q(x)
    total = sum(weights.values())
    return {text: weight / total for text, weight in weights.items()}
