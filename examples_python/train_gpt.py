"""Trains a small GPT on text twice, in PyTorch alone and with its functions routed to hipDNN, and compares the losses.

python examples_python/train_gpt.py [--steps 200] [--layers 6] [--size 128] [--check]
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import hipdnn.torch

TEXT = Path(__file__).parent.parent / "README.md"


class Block(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.qkv(self.before(x)).chunk(3, -1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    def __init__(
        self, letters: int, size: int, heads: int, layers: int, length: int
    ) -> None:
        super().__init__()
        self.letters, self.places = (
            nn.Embedding(letters, size),
            nn.Embedding(length, size),
        )
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, letters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def train(
    steps: int,
    layers: int,
    size: int,
    heads: int = 4,
    length: int = 64,
    batch: int = 16,
) -> tuple[list[float], float]:
    torch.manual_seed(0)
    text = TEXT.read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    model = GPT(len(letters), size, heads, layers, length)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    losses, started = [], time.perf_counter()
    for step in range(steps):
        if step == 3:
            # The first steps plan their graphs.
            started = time.perf_counter()
        at = torch.randint(len(data) - length - 1, (batch,))
        x, y = (
            torch.stack([data[a + by : a + by + length] for a in at]) for by in (0, 1)
        )
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, 1000 * (time.perf_counter() - started) / max(steps - 3, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--size", type=int, default=128, help="numbers for each letter")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail where a loss differs by more than 1 percent",
    )
    arguments = parser.parse_args()

    theirs, their_time = train(arguments.steps, arguments.layers, arguments.size)
    with hipdnn.torch.enable():
        ours, our_time = train(arguments.steps, arguments.layers, arguments.size)
    apart = max(abs(a / b - 1) for a, b in zip(ours, theirs))
    print(
        f"loss {theirs[0]:.3f} -> {theirs[-1]:.3f} in PyTorch, {ours[-1]:.3f} with hipDNN; at most {100 * apart:.3f} % apart"
    )
    print(
        f"a step takes {their_time:.1f} ms in PyTorch, {our_time:.1f} ms with hipDNN: {their_time / our_time:.2f} x"
    )
    for row in sorted(hipdnn.torch.report(), key=lambda row: -row.routed):
        why = (
            f", in PyTorch {row.passed_on}: {'; '.join(row.reasons)}"
            if row.passed_on
            else ""
        )
        print(f"  {row.function:<30} {row.routed:>6} here{why}  ({row.place})")
    if arguments.check and (
        apart > 0.01 or any(row.passed_on for row in hipdnn.torch.report())
    ):
        raise SystemExit(
            "the losses are more than 1 % apart, or something was not computed by hipDNN"
        )


if __name__ == "__main__":
    main()
