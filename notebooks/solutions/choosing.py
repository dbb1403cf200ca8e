# exercise 1
def corrected(drawn):  # a list of (text, masses) -> {text: share}
    # Most draws can be nearly worthless. In the lesson, more than half have a weight near 0.
    weights = {}
    for text, masses in drawn:
        weights[text] = weights.get(text, 0) + np.prod(masses)  # p(x) / q(x)
    total = sum(weights.values())
    return {text: weight / total for text, weight in weights.items()}


# exercise 2
def trusted(p, catch, slip):  # -> the share of accepted answers that are right
    # With p = 0.01, catch = 1 and slip = 0.05, only 17% of the accepted answers are right. It does
    # not help to draw until an answer is accepted: this answer, too, is right in 17% of cases.
    accepted = p * catch + (1 - p) * slip
    return p * catch / accepted
