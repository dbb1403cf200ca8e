"""Llama in PyTorch, for training. Its modules and tensors have Hugging Face's names."""

import torch
import torch.nn as nn
import torch.nn.functional as F

THETA, EPS = 10000.0, 1e-5


def rotate(x, cos, sin):  # [..., n_seq, n_dim], two [n_seq, n_dim / 2] -> [..., n_seq, n_dim]
    """Apply rotary position embeddings (Su et al. 2021). Dimension i is paired with dimension
    i + n_dim / 2."""
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class Attention(nn.Module):
    """Grouped-query attention: n_head / n_kv_head query heads share one key-value head."""

    def __init__(self, n_embd, n_head, n_kv_head):
        super().__init__()
        self.n_dim = n_embd // n_head
        self.q_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.k_proj = nn.Linear(n_embd, n_kv_head * self.n_dim, bias=False)
        self.v_proj = nn.Linear(n_embd, n_kv_head * self.n_dim, bias=False)
        self.o_proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x, cos, sin):  # [batch, n_seq, n_embd] -> the same shape
        def heads(t):
            return t.unflatten(-1, (-1, self.n_dim)).transpose(1, 2)

        q = rotate(heads(self.q_proj(x)), cos, sin)
        k = rotate(heads(self.k_proj(x)), cos, sin)
        v = heads(self.v_proj(x))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(x.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """The feed-forward network SwiGLU (Shazeer 2020)."""

    def __init__(self, n_embd, n_inner):
        super().__init__()
        self.gate_proj = nn.Linear(n_embd, n_inner, bias=False)
        self.up_proj = nn.Linear(n_embd, n_inner, bias=False)
        self.down_proj = nn.Linear(n_inner, n_embd, bias=False)

    def forward(self, x):  # [batch, n_seq, n_embd] -> the same shape
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.drop = nn.Dropout(args.dropout)
        self.input_layernorm = nn.RMSNorm(args.n_embd, eps=EPS)
        self.self_attn = Attention(args.n_embd, args.n_head, args.n_kv_head)
        self.post_attention_layernorm = nn.RMSNorm(args.n_embd, eps=EPS)
        self.mlp = MLP(args.n_embd, args.n_inner)

    def forward(self, x, cos, sin):  # [batch, n_seq, n_embd] -> the same shape
        x = x + self.drop(self.self_attn(self.input_layernorm(x), cos, sin))
        return x + self.drop(self.mlp(self.post_attention_layernorm(x)))


class Llama(nn.Module):
    # endings of the names of the matrices that write to the residual stream
    residual = ("o_proj.weight", "down_proj.weight")

    def __init__(self, n_vocab, args):
        super().__init__()
        self.args = args
        self.embed_tokens = nn.Embedding(n_vocab, args.n_embd)
        self.layers = nn.ModuleList(Block(args) for _ in range(args.n_layer))
        self.norm = nn.RMSNorm(args.n_embd, eps=EPS)
        n_dim = args.n_embd // args.n_head
        frequencies = THETA ** (-torch.arange(0, n_dim, 2) / n_dim)
        angles = torch.outer(torch.arange(args.n_ctx), frequencies)  # [n_ctx, n_dim / 2]
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, ids):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
        x, n_seq = self.embed_tokens(ids), ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:n_seq], self.sin[:n_seq])
        return self.norm(x) @ self.embed_tokens.weight.T

    def config(self):
        """Return the contents of this model's config.json, in Hugging Face's format, as a dict."""
        args = self.args
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(self.embed_tokens.weight),
            "max_position_embeddings": args.n_ctx,
            "hidden_size": args.n_embd,
            "intermediate_size": args.n_inner,
            "num_hidden_layers": args.n_layer,
            "num_attention_heads": args.n_head,
            "num_key_value_heads": args.n_kv_head,
            "rms_norm_eps": EPS,
            "rope_theta": THETA,
        }

    def tensors(self):
        """Return {Hugging Face's name: tensor}. Matrices are [n_out, n_in]."""
        return {f"model.{name}": tensor for name, tensor in self.state_dict().items()}
