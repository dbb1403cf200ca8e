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
