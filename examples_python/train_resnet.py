"""Trains ResNet-18 on handwritten digits twice, in PyTorch alone and with hipDNN, and compares the losses.

python examples_python/train_resnet.py [--steps 200] [--width 64] [--images 32] [--size 8] [--device cuda] [--dtype float16]
    [--graph] [--rounding] [--rate 0.001] [--check] [--compile] [--plot FILE.svg]
"""

from pathlib import Path

import compare
import torch
import torch.nn.functional as F
from torch import nn

#: 8 x 8 pixels and a label in each row: see ATTRIBUTION.md beside it.
DIGITS = Path(__file__).parent.parent / "examples_c" / "data" / "digits.csv"


class Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])
        # A block starts as the identity, which keeps the first steps from amplifying rounding differences.
        nn.init.zeros_(self.norms[1].weight)
        self.relu = nn.ReLU()
        self.around = nn.Sequential()
        if before != width or stride != 1:
            self.around = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norms[0](self.first(x)))
        return self.relu(self.norms[1](self.second(y)) + self.around(x))


def resnet18(colours: int, width: int, classes: int) -> nn.Module:
    """The variant for small images, which begins with a 3 x 3 convolution."""
    begin = nn.Conv2d(colours, width, 3, 1, 1, bias=False)
    layers = [begin, nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage in range(4):
        for at in range(2):
            layers.append(Block(before, width << stage, 2 if stage and not at else 1))
            before = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def main() -> None:
    parser = compare.arguments()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--images", type=int, default=32, help="images in a step")
    parser.add_argument("--size", type=int, default=8, help="pixels along each side")
    arguments = parser.parse_args()
    on_gpu = arguments.device != "cpu"
    with DIGITS.open(encoding="utf-8") as file:
        rows = [[int(value) for value in line.split(",")] for line in file]
    data = torch.tensor(rows)
    images = data[:, :64].float().view(-1, 1, 8, 8) / 16
    images = images.expand(-1, 8 if on_gpu else 1, -1, -1).to(arguments.device)
    labels = data[:, 64].to(arguments.device)

    def model() -> tuple[nn.Module, torch.optim.Optimizer]:
        made = resnet18(images.shape[1], arguments.width, 10).to(arguments.device)
        if on_gpu:
            made = made.to(memory_format=torch.channels_last)
        return made, torch.optim.SGD(made.parameters(), 0.002, momentum=0.9)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.randint(len(images), (arguments.images,))
        x, y = images[at], labels[at]
        if arguments.size != 8:
            x = F.interpolate(x, size=(arguments.size, arguments.size))
        return x.contiguous(memory_format=torch.channels_last) if on_gpu else x, y

    compare.train("ResNet-18 on digits", model, batch, arguments)


if __name__ == "__main__":
    main()
