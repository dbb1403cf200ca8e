"""Llama on one page: GPT-2 with five numbered changes. Touvron et al. 2023, "LLaMA: Open and
Efficient Foundation Language Models"; for change 3, "Llama 2". Full file: families/llama.py.
"""

from functools import partial

import numpy as np

from pico import given, load
from pico.forward import attention, causal_mask, generate


def llama(ids, frequencies, wte, blocks, norm, n_head):  # [n_seq] -> [n_seq, n_vocab]
    x = wte[ids]  # [n_seq, n_embd]: no wpe (see 4)
    mask = causal_mask(len(ids))
    for block in blocks:
        h = rms_norm(x, **block["attn_norm"])
        x = x + self_attention(h, mask, frequencies, n_head, **block["attn"])
        h = rms_norm(x, **block["mlp_norm"])
        x = x + feed_forward(h, **block["mlp"])
    return rms_norm(x, **norm) @ wte.T


def rms_norm(x, g):  # 1. A simpler norm: each row gets mean square 1; its mean is not subtracted
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def self_attention(x, mask, frequencies, n_head, q, k, v, o):  # 2. No linear layer has a bias
    queries = [rotate(part, frequencies) for part in np.split(x @ q["w"].T, n_head, axis=-1)]
    n_kv_head = len(k["w"]) // queries[0].shape[-1]  # 3. Heads share keys: a smaller cache
    keys = [rotate(part, frequencies) for part in np.split(x @ k["w"].T, n_kv_head, axis=-1)]
    values = np.split(x @ v["w"].T, n_kv_head, axis=-1)  # n_kv_head x [n_seq, d_head]
    shared = [i * n_kv_head // n_head for i in range(n_head)]  # head -> its keys: 0 0 0 0 1 1 1 1
    heads = [attention(queries[i], keys[j], values[j], mask) for i, j in enumerate(shared)]
    return np.hstack(heads) @ o["w"].T


def rotate(x, frequencies):  # [n_seq, d_head] -> same. 4. A token's position rotates its q and k
    angles = np.outer(np.arange(len(x), dtype=np.float32), frequencies)  # [n_seq, d_head / 2]
    cos, sin = np.cos(angles), np.sin(angles)  # angle: position * frequency, in radians
    a, b = np.split(x, 2, axis=-1)  # d_head / 2 points (a, b): a is from the first half
    return np.hstack([a * cos - b * sin, a * sin + b * cos])  # q @ k.T: position is distance now


def feed_forward(x, gate, c_fc, c_proj):  # [n_seq, n_embd] -> same. 5. silu(gate x) scales c_fc x
    g = x @ gate["w"].T  # [n_seq, n_inner]
    silu = g / (1 + np.exp(-g))  # like gelu: about 0 for very negative g, about g for large g
    return (silu * (x @ c_fc["w"].T)) @ c_proj["w"].T


if __name__ == "__main__":  # To try: frequencies / 4. All tokens seem nearer, and words repeat.
    prompt = given("Tom had a red car.")
    tokenizer, model = load("stories-llama", llama)  # model(ids, frequencies)
    ids = tokenizer.encode(prompt)
    powers = np.arange(0, 1, 2 / 32, dtype=np.float32)  # [d_head / 2]: 0 to 15/16
    for title, frequencies in [("with rotations", 10_000**-powers), ("without", 0 * powers)]:
        new_ids = generate(partial(model, frequencies=frequencies), ids, 40)
        print(f"{title}: {prompt}{tokenizer.decode(new_ids)}\n")
