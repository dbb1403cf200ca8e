# exercise 1
def back_embedding(dx, ids, n_vocab):  # [n, n_embd], [n] -> [n_vocab, n_embd]
    dwte = np.zeros((n_vocab, dx.shape[1]), dx.dtype)
    np.add.at(dwte, ids, dx)  # dwte[ids] += dx would add only one row of a token
    return dwte


# exercise 2
def adam_step(p, g, mean, square, n, rate):  # -> the new p, mean and square
    mean = 0.9 * mean + 0.1 * g
    square = 0.95 * square + 0.05 * g * g
    step = (mean / (1 - 0.9**n)) / (np.sqrt(square / (1 - 0.95**n)) + 1e-8)
    return p - rate * step, mean, square


# exercise 3
# The mean of the parts' gradients would give each row of a small part too much weight.
def in_parts(gradient_of, inputs, targets, size):  # -> the gradient of the mean loss
    total = 0
    for i in range(0, len(inputs), size):
        part = inputs[i : i + size], targets[i : i + size]
        total = total + len(part[0]) * gradient_of(*part)  # a part counts by its rows
    return total / len(inputs)
