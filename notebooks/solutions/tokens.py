# exercise 1
char_to_byte = {char: byte for byte, char in BYTE_TO_CHAR.items()}
spelled = {id: token for token, id in tokenizer.vocab.items()}


def decode(ids, spelled):  # -> str
    spelling = "".join(spelled[id] for id in ids)
    return bytes(char_to_byte[char] for char in spelling).decode("utf-8", errors="replace")


# exercise 2
# No merge has a digit: a pair needs two symbols in one word, and a digit is a word of one symbol.
def digit_words(text):  # -> a list of words
    parts = re.split(r"(\d)", text)  # the parts 1, 3, 5, ... are digits
    words = []
    for i, part in enumerate(parts):
        words += [part] if i % 2 else gpt2_words(part)
    return words


# exercise 3
# There are 900 ways for the 16 letters of "Once upon a time".
pieces = {tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab)}


def n_cuts(data, pieces):  # bytes, a set of bytes -> int
    ways, longest = [1], max(map(len, pieces))
    for end in range(1, len(data) + 1):
        begins = range(max(0, end - longest), end)
        ways.append(sum(ways[begin] for begin in begins if data[begin:end] in pieces))
    return ways[-1]
