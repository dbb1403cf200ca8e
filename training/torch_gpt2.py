"""GPT-2 in PyTorch, for training. GPT2.tensors returns its weights under Hugging Face's names."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        self.n_head, self.drop = n_head, nn.Dropout(dropout)
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.q, self.k, self.v, self.out = (nn.Linear(n_embd, n_embd) for _ in range(4))
        self.fc, self.proj = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def attend(self, x):  # [batch, n_seq, n_embd] -> the same shape
        def heads(t):
            return t.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.transpose(1, 2).flatten(-2))

    def forward(self, x):  # [batch, n_seq, n_embd] -> the same shape
        x = x + self.drop(self.attend(self.ln_1(x)))
        return x + self.drop(self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh")))


class GPT2(nn.Module):
    # endings of the names of the matrices that write to the residual stream
    residual = ("out.weight", "proj.weight")

    def __init__(self, n_vocab, args):
        super().__init__()
        self.n_head = args.n_head
        self.wte = nn.Embedding(n_vocab, args.n_embd)
        self.wpe = nn.Embedding(args.n_ctx, args.n_embd)
        self.h = nn.ModuleList(
            Block(args.n_embd, args.n_head, args.dropout) for _ in range(args.n_layer)
        )
        self.ln_f = nn.LayerNorm(args.n_embd)

    def forward(self, ids):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

    def config(self):
        """Return the contents of this model's config.json, in Hugging Face's format, as a dict."""
        n_ctx, n_embd = self.wpe.weight.shape
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": len(self.wte.weight),
            "n_positions": n_ctx,
            "n_embd": n_embd,
            "n_head": self.n_head,
            "n_layer": len(self.h),
        }

    def tensors(self):
        """Return {Hugging Face's name: tensor}. The weights of q, k and v form one tensor. The
        matrices of the blocks are [n_in, n_out]."""
        tensors, names = self.state_dict(), {"q": "attn.c_attn", "out": "attn.c_proj"}
        names |= {"fc": "mlp.c_fc", "proj": "mlp.c_proj"}
        for i in range(len(self.h)):
            for kind in ("weight", "bias"):
                qkv = [tensors.pop(f"h.{i}.{part}.{kind}") for part in "qkv"]
                tensors[f"h.{i}.q.{kind}"] = torch.cat(qkv)
                for ours, theirs in names.items():
                    tensors[f"h.{i}.{theirs}.{kind}"] = tensors.pop(f"h.{i}.{ours}.{kind}").t()
        return tensors
