# exercise 1
def sure_width(n_vocab, n):  # -> a number of beams
    # There are n_vocab ** (n - 1) beginnings of n - 1 tokens. The optimum may continue even the
    # least probable of them, if its next token is certain. So no beginning may be dropped.
    return n_vocab ** (n - 1)


# exercise 2
def best_first(next_log_probs, n):  # -> n ids, the number of continued beginnings
    import heapq

    heap, continued = [(0.0, ())], 0
    while True:
        cost, ids = heapq.heappop(heap)  # the most probable beginning
        if len(ids) == n:  # all others in the heap are less probable, and can only fall
            return ids, continued
        continued += 1
        for token, log_p in enumerate(next_log_probs(ids)):
            heapq.heappush(heap, (cost - float(log_p), (*ids, token)))
