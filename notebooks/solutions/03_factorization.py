# Each part replaces its exercise's cell, where all other names are defined.
# ruff: noqa: F821


# exercise 1
def bits_per_byte(text):
    nats = -log_probabilities(model, [end, *tokenizer.encode(text)]).sum()
    return nats / math.log(2) / len(text.encode("utf-8"))


# exercise 2
def first_given_second(second):  # the id of the second token -> [n_words]
    both = joint.sum(axis=(2, 3))  # P(x1, x2)
    return both[:, second] / both[:, second].sum()  # of k unknown tokens: V ** k texts to sum over


# exercise 3
def sharpened_texts(t):  # -> [n_words, n_words, n_words, n_words]
    powers = joint ** (1 / t)
    return powers / powers.sum()


def sharpened_tokens(t):  # -> [n_words, n_words, n_words, n_words]
    result = np.ones_like(joint)
    for i in range(4):  # P(x1), P(x2 | x1), ...: the sum over what comes later, normalised
        so_far = joint.sum(axis=tuple(range(i + 1, 4)), keepdims=True)  # P(x1 .. x_i)
        factor = (so_far / so_far.sum(axis=i, keepdims=True)) ** (1 / t)
        result = result * factor / factor.sum(axis=i, keepdims=True)
    return result
