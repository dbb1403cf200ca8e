# Each solution replaces the cell of its exercise. It uses names that the notebook defines.
# ruff: noqa: F821

# exercise 1
def typical(mass):  # -> a filter
    def keep_typical(logits, ids):  # [n_vocab] -> [n_vocab], -inf where removed
        p = softmax(logits)
        surprise = -log_softmax(logits)  # inf where p is 0
        expected = (p[p > 0] * surprise[p > 0]).sum()
        order = np.argsort(np.abs(surprise - expected), kind="stable")
        size = np.searchsorted(np.cumsum(p[order], dtype=float), mass) + 1
        kept = np.full_like(logits, -np.inf)
        kept[order[:size]] = logits[order[:size]]
        return kept

    return keep_typical


# exercise 2
def gumbel_draw(logits, rng):  # [n_vocab] -> an id
    return int(np.argmax(logits - np.log(-np.log(rng.random(len(logits))))))


# exercise 3
def at_entropy(bits):  # -> a filter
    def with_that_entropy(logits, ids):  # [n_vocab] -> [n_vocab]
        low, high = 0.01, 100.0
        for _ in range(40):
            middle = np.sqrt(low * high)
            if entropy(softmax(logits / middle)) < bits:
                low = middle
            else:
                high = middle
        return logits / np.float32(low)

    return with_that_entropy
