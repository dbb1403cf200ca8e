# Each solution replaces the cell of its exercise. It uses names that the notebook defines.
# ruff: noqa: F821


# exercise 1
def bits_per_byte(perplexity, n_tokens, text):  # -> float
    return n_tokens * math.log2(perplexity) / len(text.encode("utf-8"))


# exercise 2
def first_given_second(joint, second):  # the second token's id -> [n_words]
    both = joint.sum(axis=(2, 3))  # P(x1, x2)
    # With a vocabulary of V tokens, k unknown tokens before `second` need a sum over V ** k texts.
    return both[:, second] / both[:, second].sum()


# exercise 3
def sharpened_texts(joint, t):  # -> [n_words, n_words, n_words, n_words]
    powers = joint ** (1 / t)
    return powers / powers.sum()


def sharpened_tokens(joint, t):  # -> [n_words, n_words, n_words, n_words]
    result = np.ones_like(joint)
    for i in range(4):  # compute the factor of token i, sharpen it, and normalise it
        so_far = joint.sum(axis=tuple(range(i + 1, 4)), keepdims=True)  # P(tokens 0 to i)
        factor = (so_far / so_far.sum(axis=i, keepdims=True)) ** (1 / t)
        result = result * factor / factor.sum(axis=i, keepdims=True)
    return result
