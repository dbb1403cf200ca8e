# Each part replaces the cell of its exercise. The notebook defines all other names.


# exercise 1
def passes_needed(lengths, n_rows):  # -> (static, continuous)
    groups = [lengths[i : i + n_rows] for i in range(0, len(lengths), n_rows)]
    free_at = [0] * n_rows  # the pass at which each row is free
    for length in lengths:
        row = free_at.index(min(free_at))
        free_at[row] += length
    return sum(map(max, groups)), max(free_at)


# exercise 2
def rows_needed(rate, n, step, most=64):  # -> a number of rows, or None
    for rows in range(1, most + 1):
        if rows / (n * step(rows)) >= rate:  # texts that finish per second
            return rows
    return None


# exercise 3
def arrange(prompts):  # a list of lists of ids -> the same lists, reordered
    return sorted(prompts)  # neighbours share the longest beginnings
