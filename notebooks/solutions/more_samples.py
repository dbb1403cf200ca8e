# Each function replaces the cell of its exercise. All other names come from the notebook.


# exercise 1
def voted(answers, weights):  # two lists of the same length -> one of the answers
    totals = {}
    for answer, weight in zip(answers, weights):
        totals[answer] = totals.get(answer, 0) + weight
    return max(totals, key=totals.get)  # in a tie, the answer that came first wins


# exercise 2
def draws_needed(p, sure):  # -> a number of draws, or math.inf
    if p == 0:
        return math.inf
    if p == 1:
        return 1
    return max(1, math.ceil(math.log(1 - sure) / math.log(1 - p) - 1e-9))


# exercise 3
def trusted(p, catch, slip):  # -> the share of accepted answers that are right
    # With p = 0.01, catch = 1 and slip = 0.05, only 17% of the accepted answers are right. It does
    # not help to draw until an answer is accepted: this answer, too, is right in 17% of cases.
    accepted = p * catch + (1 - p) * slip
    return p * catch / accepted
