# Each part replaces the cell of its exercise. The notebook defines all other names.
# ruff: noqa: F821

# exercise 1
def sure_width(n_vocab, n):  # -> a number of beams
    # The optimum may have any of the n_vocab ** (n - 1) beginnings of n - 1 tokens, even the least
    # probable one, if the token after it is certain. So all must survive until the last step.
    return n_vocab ** (n - 1)


# exercise 2
def best_first(next_log_probs, n):  # -> n ids, and how many beginnings were continued
    import heapq

    heap, continued = [(0.0, ())], 0
    while True:
        cost, ids = heapq.heappop(heap)  # the most probable beginning
        if len(ids) == n:
            return ids, continued
        continued += 1
        for token, log_p in enumerate(next_log_probs(ids)):
            heapq.heappush(heap, (cost - float(log_p), (*ids, token)))


# exercise 3
def consensus(texts):  # lists of ids -> the index of the text most like the others
    bigrams = [set(zip(text, text[1:])) for text in texts]

    def mean_similarity(i):  # the mean over all others, 0 to 1
        others = [b for j, b in enumerate(bigrams) if j != i]
        return np.mean([len(bigrams[i] & b) / len(bigrams[i] | b) for b in others])

    return max(range(len(texts)), key=mean_similarity)
