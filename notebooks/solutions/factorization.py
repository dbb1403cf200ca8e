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
    # It favours "She" more: after "She" it is clear how to go on, and that counts here, too.
    powers = joint ** (1 / t)
    return powers / powers.sum()


def sharpened_tokens(joint, t):  # -> [n_words, n_words, n_words, n_words]
    powers = [factor ** (1 / t) for factor in factors_of(joint)]
    a, b, c, d = (power / power.sum(axis=-1, keepdims=True) for power in powers)
    return a[:, None, None, None] * b[..., None, None] * c[..., None] * d
