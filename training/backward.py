"""GPT-2 backwards: the gradient of the loss for every parameter.

A gradient has the shape of its parameter. Each of its numbers is a slope: if that number of the
parameter grows by a tiny e, the loss grows by e times the slope. So a small step against the
gradient makes the loss smaller. Here the loss is the sum of y:

    >>> x, w, e = np.array([[1.0, 2.0, 3.0]]), np.array([[4.0, 5.0, 6.0]]), 1e-6
    >>> y, back = linear(x, w)
    >>> dx, gradients = back(np.ones_like(y))  # the slope for each number of y is 1
    >>> gradients["w"]
    array([[1., 2., 3.]])
    >>> more, _ = linear(x, w + [[0, e, 0]])
    >>> (more - y).round(9) / e  # by differences: gradients["w"][0, 1] again
    array([[2.]])

Each function of the model returns two things: its result y, as in gpt2.py, and a function `back`.
back(dy) takes the loss's gradient for y, and returns those for the arguments: dy times slopes, by
the chain rule. A value that is used twice gets two gradients, which are added before we call the
`back` of the function that produced the value. So we call each `back` once, in reverse order, from
the loss to the embeddings (Rumelhart, Hinton & Williams 1986, "Learning representations by
back-propagating errors").
"""

import math

import numpy as np

from gpt2 import causal_mask, log_softmax, merge_heads, new_positions, split_heads


def linear(x, w, b=0):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    """y[i, o] is the sum of x[i, n] w[o, n] over n, plus b[o]. So dx[i, n] is the sum of
    dy[i, o] w[o, n] over o, and dw[o, n] is the sum of dy[i, o] x[i, n] over i."""

    def back(dy):  # [..., n_out] -> [..., n_in]
        rows = dy.reshape(-1, dy.shape[-1])  # [n_rows, n_out]
        dw = rows.T @ x.reshape(-1, x.shape[-1])
        return dy @ w, {"w": dw, "b": rows.sum(0)}

    return x @ w.T + b, back


def loss_and_gradients(params, n_head, ids, targets):  # 2 x [n_rows, n_seq]
    """Return the mean loss in nats per token, and its gradients, nested like params. params: of a
    GPT2 with gelu, the usual eps and no lm_head; targets: the token after each id."""
    logits, back = gpt2(ids, **params, n_head=n_head)
    loss, back_loss = cross_entropy(logits, targets)
    return loss, back(back_loss())


def cross_entropy(logits, targets):  # [..., n_vocab], [...] -> a number
    """Return the mean of -log P(target), in nats, and back(), where everything starts.

    -log P(target) is log(sum of e^logit) minus the target's logit. So the slope for each logit is
    its P, minus 1 for the target."""
    log_p = log_softmax(logits).reshape(-1, logits.shape[-1])  # [n, n_vocab]
    chosen = range(len(log_p)), targets.ravel()

    def back():  # -> [..., n_vocab]
        slopes = np.exp(log_p)  # P
        slopes[chosen] -= 1
        return (slopes / len(slopes)).reshape(logits.shape)  # the mean divides by n

    return -log_p[chosen].mean(), back


def gpt2(ids, wte, wpe, blocks, ln_f, n_head):  # [n_rows, n_seq] -> [n_rows, n_seq, n_vocab]
    positions = new_positions(ids.shape[-1], len(wpe))
    mask, backs = causal_mask(positions), []  # the `back` of each block
    x = wte[ids] + wpe[positions]  # [n_rows, n_seq, n_embd]
    for params in blocks:
        x, back_block = block(x, **params, n_head=n_head, mask=mask)
        backs.append(back_block)
    x, back_ln_f = layer_norm(x, **ln_f)
    logits, back_head = linear(x, wte)

    def back(dlogits):  # [n_rows, n_seq, n_vocab] -> the gradients, nested like params
        dx, head = back_head(dlogits)
        dx, d_ln_f = back_ln_f(dx)
        d_blocks = []
        for back_block in reversed(backs):
            dx, d_block = back_block(dx)
            d_blocks = [d_block, *d_blocks]
        dwte, dwpe = head["w"], np.zeros_like(wpe)
        np.add.at(dwte, ids, dx)  # wte was used twice; and a token may occur many times
        dwpe[positions] = dx.sum(0)
        return {"wte": dwte, "wpe": dwpe, "blocks": d_blocks, "ln_f": d_ln_f}

    return logits, back


def block(x, ln_1, attn, ln_2, mlp, n_head, mask):  # [..., n_seq, n_embd] -> same
    h, back_ln_1 = layer_norm(x, **ln_1)
    h, back_attn = self_attention(h, **attn, n_head=n_head, mask=mask)
    x = x + h
    h, back_ln_2 = layer_norm(x, **ln_2)
    h, back_mlp = feed_forward(h, **mlp)

    def back(dx):  # [..., n_seq, n_embd] -> same
        dh, d_mlp = back_mlp(dx)
        dh, d_ln_2 = back_ln_2(dh)
        dx = dx + dh  # x was used twice: by the MLP, and in the sum
        dh, d_attn = back_attn(dx)
        dh, d_ln_1 = back_ln_1(dh)
        return dx + dh, {"ln_1": d_ln_1, "attn": d_attn, "ln_2": d_ln_2, "mlp": d_mlp}

    return x + h, back


def self_attention(x, c_attn, c_proj, n_head, mask):  # [..., n_seq, n_embd] -> same
    qkv, back_qkv = linear(x, **c_attn)  # [..., n_seq, 3 * n_embd]
    q, k, v = (split_heads(part, n_head) for part in np.split(qkv, 3, axis=-1))
    heads, back_heads = attention(q, k, v, mask)  # [..., n_head, n_seq, d_head]
    y, back_proj = linear(merge_heads(heads), **c_proj)

    def back(dy):  # [..., n_seq, n_embd] -> same
        dx, d_proj = back_proj(dy)
        dq, dk, dv = map(merge_heads, back_heads(split_heads(dx, n_head)))
        dx, d_attn = back_qkv(np.concatenate([dq, dk, dv], axis=-1))
        return dx, {"c_attn": d_attn, "c_proj": d_proj}

    return y, back


def attention(q, k, v, mask):  # 3 x [..., n_seq, d] -> [..., n_seq, d]
    scale = 1 / math.sqrt(q.shape[-1])
    weights, back_softmax = softmax(q * scale @ k.swapaxes(-1, -2) + mask)  # [..., n_seq, n_seq]

    def back(dy):  # [..., n_seq, d] -> 3 x [..., n_seq, d]
        dv = weights.swapaxes(-1, -2) @ dy
        dscores = back_softmax(dy @ v.swapaxes(-1, -2)) * scale
        return dscores @ k, dscores.swapaxes(-1, -2) @ q, dv

    return weights @ v, back


def feed_forward(x, c_fc, c_proj):  # [..., n_embd] -> same
    h, back_fc = linear(x, **c_fc)
    h, back_gelu = gelu(h)
    y, back_proj = linear(h, **c_proj)

    def back(dy):  # [..., n_embd] -> same
        dh, d_proj = back_proj(dy)
        dx, d_fc = back_fc(back_gelu(dh))
        return dx, {"c_fc": d_fc, "c_proj": d_proj}

    return y, back


def layer_norm(x, g, b):  # [..., n_embd] -> same
    x = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    n = x * scale  # mean 0, variance 1

    def back(dy):  # [..., n_embd] -> same
        # If x[i] grows by e, the mean grows by e / n_embd, and the deviation by e * n[i] / n_embd.
        # So n[j] grows by e * scale * ((1 if i == j else 0) - (1 + n[i] * n[j]) / n_embd).
        dn, axes = dy * g, tuple(range(dy.ndim - 1))
        dx = dn - dn.mean(-1, keepdims=True) - n * (dn * n).mean(-1, keepdims=True)
        return dx * scale, {"g": (dy * n).sum(axes), "b": dy.sum(axes)}

    return n * g + b, back


def gelu(x):  # [...] -> same
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x * x * x))

    def back(dy):  # [...] -> same
        slope = (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)  # of t
        return dy * 0.5 * (1 + t + x * slope)

    return 0.5 * x * (1 + t), back


def softmax(x):  # [..., n] -> same
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)

    def back(dy):  # [..., n] -> same. If x[i] grows, p[j] has the slope p[j] * ((i == j) - p[i])
        return p * (dy - (dy * p).sum(-1, keepdims=True))

    return p, back
