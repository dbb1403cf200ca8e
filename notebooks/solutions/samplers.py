# exercise 1
def gumbel_draw(logits, rng):  # [n_vocab] -> an id
    return int(np.argmax(logits - np.log(-np.log(rng.random(len(logits))))))


# exercise 2
def at_entropy(logits, bits):  # [n_vocab] -> [n_vocab]
    low, high = 0.01, 100.0
    for _ in range(40):
        middle = np.sqrt(low * high)
        if entropy(softmax(logits / middle)) < bits:
            low = middle
        else:
            high = middle
    return logits / np.float32(low)
