"""An encoder-decoder, T5: an encoder reads the English text once; a decoder writes the German one.

The decoder also looks at the encoder's output. Raffel et al. 2020, "Exploring the Limits of
Transfer Learning with a Unified Text-to-Text Transformer". Full file: families/seq2seq.py. Next:
llama.py.
"""

from itertools import takewhile

import numpy as np

from pico import given, load
from pico.forward import causal_mask, generate, softmax


def translate(english, wte, n_head, encoder, decoder):  # ids [n_source] -> German ids, weights
    source = encode(english, wte, n_head, **encoder)  # [n_source, n_embd]: only once
    new_ids = generate(lambda ids: decode(ids, source, wte, n_head, **decoder)[0], [0], 100)
    german = list(takewhile(lambda id: id != 1, new_ids))  # from <pad>, 0, to </s>, 1
    _, weights = decode([0] + german, source, wte, n_head, **decoder)
    return german, weights  # [n + 1, n_source]: row i, what german[i] looked at


def encode(ids, wte, n_head, blocks, norm, relative_bias):  # [n_source] -> [n_source, n_embd]
    x = wte[ids]
    bias = position_bias(len(ids), *np.split(relative_bias, 2))  # instead of wpe; and no mask
    for block in blocks:
        h = rms_norm(x, **block["attn_norm"])
        x = x + attention(h, h, bias, n_head, **block["attn"])[0]  # English looks at English
        h = rms_norm(x, **block["mlp_norm"])
        x = x + feed_forward(h, **block["mlp"])
    return rms_norm(x, **norm)


def decode(ids, source, wte, n_head, blocks, norm, relative_bias):  # German ids [n]
    x = wte[ids]  # [n, n_embd]
    bias = position_bias(len(ids), relative_bias, relative_bias)  # no later ones: masked below
    bias[:, causal_mask(len(ids))] = -np.inf  # in every head
    for block in blocks:
        h = rms_norm(x, **block["attn_norm"])
        x = x + attention(h, h, bias, n_head, **block["attn"])[0]  # German looks at earlier German,
        h = rms_norm(x, **block["cross_norm"])
        mixed, weights = attention(h, source, 0, n_head, **block["cross"])  # then at English
        x = x + mixed
        h = rms_norm(x, **block["mlp_norm"])
        x = x + feed_forward(h, **block["mlp"])
    logits = rms_norm(x, **norm) / x.shape[-1] ** 0.5 @ wte.T  # T5 scales x before wte
    return logits, weights  # [n, n_vocab]; [n, n_source]: where the last block looked


def attention(x, source, bias, n_head, q, k, v, o):  # [n, n_embd] looks at [n_source, n_embd]
    queries = np.array(np.split(x @ q["w"].T, n_head, axis=-1))  # [n_head, n, d_head]
    keys = np.array(np.split(source @ k["w"].T, n_head, axis=-1))  # [n_head, n_source, d_head],
    values = np.array(np.split(source @ v["w"].T, n_head, axis=-1))  # computed again in each pass
    scores = queries @ keys.swapaxes(1, 2) + bias  # [n_head, n, n_source], without / d_head**0.5
    weights = softmax(scores)
    return np.hstack(weights @ values) @ o["w"].T, weights.mean(0)  # heads joined; mean weights


def position_bias(n, earlier, later):  # 2 tables [n_rows, n_head] -> scores to add, [n_head, n, n]
    i, j = np.indices((n, n))
    distance = abs(j - i)
    near = len(earlier) // 2  # half of the rows: one per distance; far ones share the rest
    far = np.log(np.maximum(distance, near) / near) / np.log(128 / near)  # 0 at near, 1 at 128
    row = np.where(distance < near, distance, near + np.minimum(far * near, near - 1).astype(int))
    bias = np.where((j > i)[:, :, None], later[row], earlier[row])  # [n, n, n_head]
    return np.moveaxis(bias, -1, 0)


def rms_norm(x, g):  # like layer_norm in pico/forward.py, but no mean is subtracted, and no b added
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def feed_forward(x, c_fc, c_proj):  # [n, n_embd] -> same, with relu
    return np.maximum(x @ c_fc["w"].T, 0) @ c_proj["w"].T


if __name__ == "__main__":  # To try: "Tom does not want to go home." Even "nicht" looks at "home".
    tokenizer, model = load("en-de", translate)
    english = tokenizer.encode(given("She bought a new car yesterday."))
    german, weights = model(english)
    print(tokenizer.decode(german))
    for id, row in zip(german, weights):
        j = row[:-1].argmax()  # the last column is </s>
        print(f"{tokenizer.decode([id]):>12} <- {tokenizer.decode([english[j]])} {row[j]:.0%}")
