"""Trains a small GPT with fp8 matmul, compares it with bfloat16, and times a large block forward and backward.

python examples_python/fp8_gpt.py [--steps 200] [--device cuda] [--block 4096 8192]

The operands are scaled to 8 bits by the largest magnitude of the previous step (delayed scaling): one graph writes a tensor's
8-bit floats by rows and by columns, another its largest magnitude. Values and weights are fp8_e4m3, gradients fp8_e5m2. Sums are in single
precision. Attention, normalizations and the optimizer stay PyTorch's.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time

import hipdnn
import torch
import torch.nn.functional as F
from hipdnn import data_type, reduction_mode
from torch import nn
from train_gpt import GPT, Block, batch_of, text

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
NAMES = {
    torch.float32: data_type.FLOAT,
    torch.bfloat16: data_type.BFLOAT16,
    torch.float8_e4m3fn: data_type.FP8_E4M3,
    torch.float8_e5m2: data_type.FP8_E5M2,
}
SINGLE = {"intermediate_data_type": "float", "compute_data_type": "float"}


@functools.cache
def quantizer(rows, columns, of, to):
    """The graphs x -> x * scale in 8 bits by rows and by columns, and x -> the largest magnitude of x."""
    graph = hipdnn.Graph("quantize", io_data_type=NAMES[of], **SINGLE)
    x, scale = graph.tensor([rows, columns]), graph.tensor([1, 1], data_type="float")
    scaled = graph.mul(x, scale)
    by_rows, by_columns = (graph.identity(scaled).set_data_type(NAMES[to]).set_output(True) for _ in range(2))
    by_columns.set_stride([1, rows])
    sizes = hipdnn.Graph("largest", io_data_type=NAMES[of], **SINGLE)
    same = sizes.tensor([rows, columns])
    largest = sizes.reduction(sizes.abs(same), reduction_mode.MAX).set_data_type("float").set_output(True)
    return (graph, x, scale, by_rows, by_columns), (sizes, same, largest)


@functools.cache
def product(m, n, k, of_a, of_b, to, with_bias):
    """The graph a [m, k] * b [k, n] * scales (+ bias), both operands contiguous along k."""
    graph = hipdnn.Graph("product", io_data_type=NAMES[to], **SINGLE)
    a = graph.tensor([1, m, k], data_type=NAMES[of_a])
    b = graph.tensor([1, k, n], stride=[k * n, 1, k], data_type=NAMES[of_b])
    scales = [graph.tensor([1, 1, 1], data_type="float") for _ in range(2)]
    y = graph.mul(graph.mul(graph.matmul(a, b), scales[0]), scales[1])
    bias = graph.tensor([1, 1, n], data_type="bfloat16") if with_bias else None
    y = (graph.add(y, bias) if with_bias else y).set_output(True)
    return graph, a, b, *scales, bias, y


class Scales:
    """The scales of all quantized tensors, each from its largest magnitude in the previous step."""

    def __init__(self, device):
        self.tops = []
        self.device = device

    def add(self, dtype):
        self.tops.append(LARGEST[dtype])
        return len(self.tops) - 1

    def ready(self):
        # A row per tensor: NVIDIA's libraries need scales aligned to 16 bytes.
        self.top = torch.tensor(self.tops, device=self.device)[:, None].expand(-1, 4).contiguous()
        self.largest, self.scale, self.inverse = (torch.ones_like(self.top) for _ in range(3))

    def step(self):
        """Call it after each step. Tensors that were all 0 keep a scale of 1."""
        self.scale.copy_(torch.where(self.largest > 0, self.top / self.largest, torch.ones_like(self.top)))
        torch.reciprocal(self.scale, out=self.inverse)


class Small:
    """A matrix in 8 bits."""

    def __init__(self, scales, place, x, dtype):
        rows, columns = x.shape
        (graph, of, scale, by_rows, by_columns), (sizes, same, largest) = quantizer(rows, columns, x.dtype, dtype)
        self.rows = torch.empty(rows, columns, dtype=dtype, device=x.device)
        self.columns = torch.empty(columns, rows, dtype=dtype, device=x.device)
        largest_of_x, scale_of_x, self.inverse = (
            of_all[place, :1] for of_all in (scales.largest, scales.scale, scales.inverse)
        )
        arrays = {of: x, scale: scale_of_x.view(1, 1), by_rows: self.rows, by_columns: self.columns.t()}
        graph.execute(arrays)
        sizes.execute({same: x, largest: largest_of_x.view(1, 1)})


def multiplied(a, b, inverses, to, bias=None):
    """a [m, k] * b [n, k] transposed."""
    (m, k), n = a.shape, b.shape[0]
    graph, of_a, of_b, first, second, of_bias, y = product(m, n, k, a.dtype, b.dtype, to, bias is not None)
    out = torch.empty(m, n, dtype=to, device=a.device)
    arrays = {of_a: a[None], of_b: b.t()[None], y: out[None]}
    arrays |= {first: inverses[0].view(1, 1, 1), second: inverses[1].view(1, 1, 1)}
    if bias is not None:
        arrays[of_bias] = bias.to(torch.bfloat16).view(1, 1, n)
    graph.execute(arrays)
    return out


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, layer):
        flat = x.reshape(-1, x.shape[-1]).to(torch.bfloat16).contiguous()
        small = Small(layer.scales, layer.places[0], flat, torch.float8_e4m3fn)
        weights = Small(layer.scales, layer.places[1], weight.detach(), torch.float8_e4m3fn)
        ctx.layer, ctx.small, ctx.weights, ctx.shape = layer, small, weights, x.shape
        y = multiplied(small.rows, weights.rows, (small.inverse, weights.inverse), torch.bfloat16, bias)
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, dy):
        layer, flat = ctx.layer, dy.reshape(-1, dy.shape[-1]).contiguous()
        small = Small(layer.scales, layer.places[2], flat, torch.float8_e5m2)
        dx = multiplied(small.rows, ctx.weights.columns, (small.inverse, ctx.weights.inverse), torch.bfloat16)
        dw = multiplied(small.columns, ctx.small.columns, (small.inverse, ctx.small.inverse), torch.float32)
        return dx.view(ctx.shape), dw, flat.sum(0, dtype=torch.float32), None


class Linear(nn.Module):
    """A linear layer whose three matmuls are 8-bit."""

    def __init__(self, of, scales):
        super().__init__()
        self.weight, self.bias, self.scales = of.weight, of.bias, scales
        self.places = [scales.add(dtype) for dtype in (torch.float8_e4m3fn, torch.float8_e4m3fn, torch.float8_e5m2)]

    def forward(self, x):
        return Product.apply(x, self.weight, self.bias, self)


def in_eight_bits(model, device):
    """Makes the blocks' linear layers multiply in 8 bits; returns their scales."""
    scales = Scales(device)
    for block in [module for module in model.modules() if isinstance(module, Block)]:
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(block, name, Linear(layer, scales))
    scales.ready()
    return scales


def losses(steps, device, width, with_eight_bits):
    letters, data = text()
    torch.manual_seed(0)
    model = GPT(letters, width, 4, 4, 64).to(device)
    scales = in_eight_bits(model, device) if with_eight_bits else None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    for _ in range(steps):
        x, y = (part.to(device) for part in batch_of(data, 64, 16))
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            loss = F.cross_entropy(model(x).float().flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if scales:
            scales.step()
        found.append(loss.item())
    return found


def block_times(size, device, tokens=(4, 2048)):
    """Median milliseconds of a block forward and backward in bfloat16 and in 8 bits, alternating."""
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    blocks = [Block(size, size // 128).to(device) for _ in range(2)]
    scales = in_eight_bits(blocks[1], device)
    x = torch.randn(*tokens, size, device=device, dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn_like(x)

    def step(block):
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            y = block(x)
        y.backward(dy)
        block.zero_grad(set_to_none=True)
        if block is blocks[1]:
            scales.step()

    times = [[], []]
    for turn in range(25):
        for block, found in zip(blocks, times):
            finish()
            started = time.perf_counter()
            step(block)
            finish()
            if turn >= 5:
                found.append(1000 * (time.perf_counter() - started))
    return [statistics.median(found) for found in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=128, help="numbers for each letter")
    parser.add_argument("--block", type=int, nargs="*", default=[], help="sizes of blocks to time, on 4 x 2048 tokens")
    arguments = parser.parse_args()
    wide, small = (losses(arguments.steps, arguments.device, arguments.width, eight) for eight in (False, True))
    last = max(1, arguments.steps // 10)
    means = [statistics.mean(found[-last:]) for found in (wide, small)]
    print(
        f"loss of the last {last} of {arguments.steps} steps: bfloat16 {means[0]:.4f}, fp8 {means[1]:.4f}, ratio {means[1] / means[0]:.4f}"
    )
    for size in arguments.block:
        wide, small = block_times(size, arguments.device)
        print(
            f"block of {size}, forward and backward: bfloat16 {wide:.3f} ms, fp8 {small:.3f} ms, {wide / small:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
