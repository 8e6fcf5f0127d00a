"""Trains a small network on handwritten digits, quantizes it by calibration and by quantization-aware training, and compares.

python examples_python/quantize_digits.py [--epochs 24] [--svg FILE.svg]

Needs PyTorch. The quantized network is a graph, which PyTorch takes no part in computing.
"""

import argparse
import time
from pathlib import Path

import hipdnn
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

#: 8 x 8 pixels and a label in each row: see ATTRIBUTION.md beside it.
DIGITS = Path(__file__).parent.parent / "examples_c" / "data" / "digits.csv"
HELD_OUT = 360


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.third, self.last = nn.Linear(64 * 4, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.last(F.relu(self.third(torch.flatten(x, 1))))


class Rounding(nn.Module):
    """The same network, with activations and weights rounded to int8 by PyTorch's fake quantization."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net
        self.largest = [0.0] * 4

    def layer(self, place: int, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.largest[place] = max(0.99 * self.largest[place], float(x.detach().abs().max()))
        x = torch.fake_quantize_per_tensor_affine(x, max(self.largest[place], 1e-6) / 127, 0, -127, 127)
        scales = layer.weight.detach().abs().flatten(1).amax(1).clamp_min(1e-6) / 127
        zeros = torch.zeros_like(scales, dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(layer.weight, scales, zeros, 0, -127, 127)
        if isinstance(layer, nn.Conv2d):
            return F.conv2d(x, weight, layer.bias, padding=1)
        return F.linear(x, weight, layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        net = self.net
        x = F.max_pool2d(F.relu(self.layer(0, net.first, x)), 2)
        x = F.max_pool2d(F.relu(self.layer(1, net.second, x)), 2)
        return self.layer(3, net.last, F.relu(self.layer(2, net.third, torch.flatten(x, 1))))


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.05)
    steps = epochs * (len(images) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for at in range(0, len(images) - 63, 64):
            batch = order[at : at + 64]
            # Shifted by at most a pixel, so that the network learns shapes and not positions.
            shift = [int(of) for of in torch.randint(-1, 2, (2,))]
            x = torch.roll(images[batch], shift, (2, 3))
            F.cross_entropy(model(x), labels[batch], label_smoothing=0.05).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = np.loadtxt(DIGITS, delimiter=",", dtype=np.float32)
    # As in examples_c/train_digits.c, digits of every writer are held out.
    rows = rows[torch.randperm(len(rows)).numpy()]
    images, labels = torch.from_numpy(rows[:, :64] / 16).reshape(-1, 1, 8, 8), torch.from_numpy(rows[:, 64]).long()
    known, held = (images[:-HELD_OUT], labels[:-HELD_OUT]), (images[-HELD_OUT:], labels[-HELD_OUT:])

    def accuracy(answer: np.ndarray) -> float:
        return 100 * float((answer.argmax(1) == held[1].numpy()).mean())

    def milliseconds(call: object) -> float:
        call()
        times = []
        for _ in range(20):
            started = time.perf_counter()
            call()
            times.append(1000 * (time.perf_counter() - started))
        return sorted(times)[10]

    net = Net()
    train(net, *known, options.epochs, 3e-3)
    # Samples have the batch sizes that the network is called with.
    samples = [known[0][at : at + HELD_OUT] for at in range(0, 3 * HELD_OUT, HELD_OUT)]
    with torch.no_grad():
        print(
            f"float            {accuracy(net(held[0]).numpy()):6.2f} %  by PyTorch {milliseconds(lambda: net(held[0])):.2f} ms"
        )
    for recipe in ("int8", "int8-per-tensor", "int8-percentile", "int8-mse", "fp8"):
        quantized = hipdnn.quantize(net, samples, recipe)
        x = held[0].numpy()
        print(f"{recipe:16} {accuracy(quantized(x)):6.2f} %  {milliseconds(lambda: quantized(x)):.2f} ms")
        if recipe == "int8":
            table = quantized.table()
            if options.svg:
                options.svg.write_text(quantized.svg(), encoding="utf-8")
    rounding = Rounding(net)
    train(rounding, *known, max(1, options.epochs // 2), 1e-3)
    trained = hipdnn.quantize(net, samples, "int8")
    print(f"int8, trained    {accuracy(trained(held[0].numpy())):6.2f} %")
    print("\nWhat int8 costs each layer:\n" + table, end="")


if __name__ == "__main__":
    main()
