# Each part replaces its exercise's cell, where all other names are defined.


# exercise 1
def voted(answers, weights):  # lists of the same length -> one of the answers
    totals = {}
    for answer, weight in zip(answers, weights):
        totals[answer] = totals.get(answer, 0) + weight
    return max(totals, key=totals.get)  # a dict keeps the order: of equals the first


# exercise 2
def draws_needed(p, sure):  # -> a number of draws
    if p == 0:
        return math.inf
    if p == 1:
        return 1
    return max(1, math.ceil(math.log(1 - sure) / math.log(1 - p) - 1e-9))


# exercise 3
def trusted(p, catch, slip):  # -> 0 to 1
    # p = 0.01, catch = 1, slip = 0.05: 0.17. Drawing on until one is accepted does not help: it
    # makes an accepted answer certain, and that answer is as little worth as before.
    accepted = p * catch + (1 - p) * slip
    return p * catch / accepted
