# exercise 1
def code_length(probabilities):  # a list of P(x_i | x_<i) -> a number of bytes
    bits = -np.log2(probabilities).sum()
    return math.ceil(bits / 8 - 1e-9)


# exercise 2
def mixed(p, q, w):  # -> bits per symbol; p, q: two models' probabilities, [n]; w: p's weight
    return -np.log2(w * p + (1 - w) * q).mean()


# exercise 3
def ranks(logits, ids):  # [n, n_vocab], [n] -> [n]; the likeliest token has rank 1
    chosen = np.take_along_axis(logits, np.array(ids)[:, None], axis=-1)
    return 1 + (logits > chosen).sum(-1)
