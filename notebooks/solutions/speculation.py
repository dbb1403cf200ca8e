# exercise 1
def best_gamma(a, c, b):  # a rate, a cost, a function of gamma -> the best gamma
    def speed_up(gamma):  # expected tokens / cost
        return sum(a**i for i in range(gamma + 1)) / (b(gamma) + c * gamma)

    return max(range(17), key=speed_up)  # for equal speed-ups, max returns the smallest gamma
