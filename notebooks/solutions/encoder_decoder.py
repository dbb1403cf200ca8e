# exercise 1
def best(text, candidates):  # str, list of str -> one of the candidates
    decoder = model.read(tokenizer.encode(text))

    def log_probability(candidate):  # includes log P(</s>): the text must end here
        ids = [*model.start_ids, *tokenizer.encode(candidate)]  # encode adds </s>
        return log_probabilities(decoder, ids).sum()

    return max(candidates, key=log_probability)


# exercise 2
def aligned(text):  # str -> list of (target token's name, source token's name)
    source, target = translate(text)
    weights = attentions(source, target)[2][-1].mean(0)  # [target, source]
    looked_at = names(np.array(source)[weights.argmax(-1)])
    return list(zip(names(target), looked_at))[:-1]


# exercise 3
def switch(first, second, n):  # two English texts -> at most 40 new ids
    one, other = (model.read(tokenizer.encode(text)) for text in (first, second))
    cache, new, ids = one.new_cache(), model.start_ids, []
    while len(ids) < 40 and not (ids and ids[-1] in model.stop_ids):
        if len(ids) == n:
            cache.source = other.source  # the keys and values of the other source
        new = [int(one(np.array(new), cache, last=1)[-1].argmax())]
        ids += new
    return ids
