# exercise 1
def passes_needed(lengths, n_rows):  # -> the numbers of passes (static, continuous)
    groups = [lengths[i : i + n_rows] for i in range(0, len(lengths), n_rows)]
    free_at = [0] * n_rows  # for each row, the pass at which it becomes free
    for length in lengths:
        row = free_at.index(min(free_at))
        free_at[row] += length
    return sum(map(max, groups)), max(free_at)


# exercise 2
def rows_needed(rate, n, step, most=64):  # -> the fewest rows that are enough, or None
    for rows in range(1, most + 1):
        if rows / (n * step(rows)) >= rate:  # finished texts per second >= readers per second
            return rows
    return None
