# exercise 1
def code_length(probabilities):  # a list of P(x_i | x_<i) -> bytes
    bits = -np.log2(probabilities).sum()
    return math.ceil(bits / 8 - 1e-9)


# exercise 2
def mixed(p, q, w):  # two models' probabilities [n], the weight of p -> bits per symbol
    return -np.log2(w * p + (1 - w) * q).mean()


# exercise 3
def ranks(logits, ids):  # [n, n_vocab], [n] -> [n], 1 for the likeliest token
    chosen = np.take_along_axis(logits, np.array(ids)[:, None], axis=-1)
    return 1 + (logits > chosen).sum(-1)
