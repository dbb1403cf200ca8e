# exercise 1
def code_length(probabilities):
    bits = -np.log2(probabilities).sum()
    return math.ceil(bits / 8 - 1e-9)


# exercise 2
def mixed(p, q, w):
    return -np.log2(w * p + (1 - w) * q).mean()


# exercise 3
def ranks(logits, ids):
    chosen = np.take_along_axis(logits, np.array(ids)[:, None], axis=-1)
    return 1 + (logits > chosen).sum(-1)
