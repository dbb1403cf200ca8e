# exercise 1
def best(text, candidates):  # str, list of str -> one of the candidates
    conditioned = model.condition([model.wrap(encoder.encode(text))])

    def log_probability(candidate):  # that it ends is part of it: </s>
        ids = [*model.start_ids, *encoder.encode(candidate), *model.stop_ids]
        return log_probabilities(conditioned, ids).sum()

    return max(candidates, key=log_probability)


# exercise 2
def aligned(text):  # str -> list of (name of a target token, name of a source token)
    source, target = translate(text)
    weights = attentions(source, target)[2][-1].mean(0)  # [target, source]
    looked_at = names(np.array(source)[weights.argmax(-1)])
    return list(zip(names(target), looked_at))[:-1]


# exercise 3
def switch(first, second, n):  # two English texts -> the ids that were written, </s> included
    one, other = (model.condition([model.wrap(encoder.encode(t))]) for t in (first, second))
    cache, new, ids = one.new_cache(), model.start_ids, []
    while len(ids) < 40 and not (ids and ids[-1] in model.stop_ids):
        if len(ids) == n:
            cache.source = other.source  # the cache holds it, so that it follows its rows
        new = [int(one(np.array(new), cache, last=1)[-1].argmax())]
        ids += new
    return ids
