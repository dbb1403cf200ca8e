# Each part replaces the cell of its exercise. The notebook defines all other names.


# exercise 1
def voted(answers, weights):  # lists of the same length -> one of the answers
    totals = {}
    for answer, weight in zip(answers, weights):
        totals[answer] = totals.get(answer, 0) + weight
    return max(totals, key=totals.get)  # in a tie, max returns the answer that came first


# exercise 2
def draws_needed(p, sure):  # -> a number of draws
    if p == 0:
        return math.inf
    if p == 1:
        return 1
    return max(1, math.ceil(math.log(1 - sure) / math.log(1 - p) - 1e-9))


# exercise 3
def trusted(p, catch, slip):  # -> 0 to 1
    # With p = 0.01, catch = 1 and slip = 0.05, only 0.17 of the accepted answers are right. Drawing
    # until an answer is accepted does not help: the accepted answer is right no more often.
    accepted = p * catch + (1 - p) * slip
    return p * catch / accepted
