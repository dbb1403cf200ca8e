"""The optimizer Muon (Jordan 2024, https://kellerjordan.github.io/posts/muon/) in float32.

torch.optim.Muon orthogonalises in bfloat16. On a CPU without bfloat16 units, that is 8 times slower
than float32.
"""

import math

import torch
from tqdm import tqdm


def orthogonalize(g, steps=5):
    """Return approximately the orthogonal (or semi-orthogonal) matrix that is nearest to the matrix
    g. steps: the number of quintic Newton-Schulz iterations."""
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Gradient descent with momentum. The update of each matrix is orthogonalised. params: the
    hidden weight matrices."""

    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        """Use the gradients to update all matrices in place."""
        for group in self.param_groups:
            for p in group["params"]:
                velocity = self.state[p].setdefault("velocity", torch.zeros_like(p))
                velocity.lerp_(p.grad, 1 - group["momentum"])
                nesterov = p.grad.lerp(velocity, group["momentum"])
                scale = math.sqrt(max(1, p.shape[0] / p.shape[1]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(orthogonalize(nesterov), alpha=-group["lr"] * scale)


def update(model, optimizers, step, n_steps, warm_up=100):
    """Clip the gradients, take one step with each optimizer, and reset the gradients.

    step: the number of steps before this one; n_steps: the total number of steps. Each initial
    learning rate, `peak`, is multiplied by two factors. The first factor rises linearly to 1 during
    the first `warm_up` steps. The second falls linearly from 1 and would be 0 at step n_steps."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            peak = group.setdefault("peak", group["lr"])
            group["lr"] = peak * min(1, (step + 1) / warm_up) * (1 - step / n_steps)
        optimizer.step()
        optimizer.zero_grad()


def fit(model, optimizers, epochs, loss_of, after_epoch):
    """Train on all batches of all epochs. epochs: a list of batches for each epoch.
    loss_of(*batch) -> a scalar tensor. Call after_epoch(1) after the first epoch, and so on."""
    n_steps = sum(map(len, epochs))
    with tqdm(total=n_steps, unit="step") as bar:
        for number, batches in enumerate(epochs, 1):
            for batch in batches:
                loss = loss_of(*batch)
                loss.backward()
                update(model, optimizers, bar.n, n_steps)
                bar.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)
                bar.update()
            after_epoch(number)
