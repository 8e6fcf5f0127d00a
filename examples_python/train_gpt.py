"""Trains a small GPT on text twice, in PyTorch alone and with hipDNN, and compares the losses.

python examples_python/train_gpt.py [--steps 200] [--layers 6] [--size 128] [--heads 4] [--length 64] [--texts 16] [--device cuda]
    [--dtype bfloat16] [--graph] [--rounding] [--rate 0.001] [--check] [--compile] [--plot FILE.svg]
"""

from pathlib import Path

import compare
import torch
import torch.nn.functional as F
from torch import nn

TEXT = Path(__file__).parent.parent / "README.md"


class Block(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    def __init__(self, letters: int, size: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.letters, self.places = (
            nn.Embedding(letters, size),
            nn.Embedding(length, size),
        )
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, letters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        x = self.letters(text) + self.places(places)
        return self.head(self.norm(self.blocks(x)))


def text() -> tuple[int, torch.Tensor]:
    """The number of letters in the text, and the index of each. Rounded up to a multiple of 8, which suits GPUs; the others never occur."""
    words = TEXT.read_text(encoding="utf-8")
    letters = sorted(set(words))
    return -(-len(letters) // 8) * 8, torch.tensor([letters.index(letter) for letter in words])


def batch_of(data: torch.Tensor, length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random parts of the text, and the letters that follow each of theirs."""
    at = torch.randint(len(data) - length - 1, (count,))
    x, y = (torch.stack([data[a + by : a + by + length] for a in at]) for by in (0, 1))
    return x, y


def main() -> None:
    parser = compare.arguments()
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--size", type=int, default=128, help="numbers for each letter")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=64, help="letters of a text")
    parser.add_argument("--texts", type=int, default=16, help="texts in a step")
    arguments = parser.parse_args()
    length, count = arguments.length, arguments.texts
    classes, data = text()

    def model() -> tuple[nn.Module, torch.optim.Optimizer]:
        sizes = arguments.size, arguments.heads, arguments.layers, length
        made = GPT(classes, *sizes).to(arguments.device)
        capturable = arguments.device != "cpu"
        return made, torch.optim.AdamW(made.parameters(), 3e-4, capturable=capturable)

    compare.train("GPT on text", model, lambda: batch_of(data, length, count), arguments)


if __name__ == "__main__":
    main()
