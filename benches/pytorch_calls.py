"""Measures the host time of PyTorch calls on small tensors, in PyTorch alone and with `hipdnn.torch`, in microseconds.

python benches/pytorch_calls.py [--device cuda] [--dtype bfloat16] [--seconds 0.2] [--only linear]
"""

from __future__ import annotations

import argparse
import time

import hipdnn.torch
import torch
import torch.nn.functional as F


def cases(device, dtype):
    rand = lambda *shape: torch.randn(*shape, device=device, dtype=dtype, requires_grad=True)
    factor = lambda size: torch.randn(size, device=device, requires_grad=True)
    x, w, b = rand(2, 4, 16), rand(16, 16), rand(16)
    scale, shift = rand(16), rand(16)
    q, k, v = (rand(1, 2, 64, 64) for _ in range(3))
    image, filters = rand(1, 8, 6, 6), rand(8, 8, 3, 3)
    factors = [factor(8) for _ in range(2)]
    stats = [torch.zeros(8, device=device), torch.ones(8, device=device)]
    return {
        "linear": (lambda: F.linear(x, w, b), (x, w, b)),
        "matmul": (lambda: torch.matmul(x, w), (x, w)),
        "layer_norm": (lambda: F.layer_norm(x, (16,), scale, shift), (x, scale, shift)),
        "attention": (lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v)),
        "gelu": (lambda: F.gelu(x), (x,)),
        "relu": (lambda: F.relu(x), (x,)),
        "softmax": (lambda: F.softmax(x, -1), (x,)),
        "conv2d": (lambda: F.conv2d(image, filters, padding=1), (image, filters)),
        "batch_norm": (lambda: F.batch_norm(image, *stats, *factors, training=True), (image, *factors)),
        "max_pool2d": (lambda: F.max_pool2d(image, 2), (image,)),
        "not routed": (lambda: torch.add(x, x), (x,)),
        "attribute": (lambda: x.shape, None),
    }


def microseconds(call, seconds, wait):
    """The median of rounds."""
    for _ in range(20):
        call()
    wait()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        for _ in range(50):
            call()
        times.append((time.perf_counter() - began) / 50 * 1e6)
        wait()
    return sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    wait = torch.cuda.synchronize if arguments.device != "cpu" else lambda: None
    print(f"{'us':<12}{'inference':>28}{'with gradients':>28}")
    print(f"{'':<12}{'PyTorch':>9}{'hipDNN':>9}{'more':>10}{'PyTorch':>9}{'hipDNN':>9}{'more':>10}")
    for name, (call, inputs) in cases(arguments.device, getattr(torch, arguments.dtype)).items():
        if arguments.only not in name:
            continue

        def gradients():
            y = call()
            torch.autograd.grad(y, inputs, y)

        row = ""
        for of in (call, gradients) if inputs else (call,):
            theirs = []
            with torch.set_grad_enabled(of is gradients):
                theirs.append(microseconds(of, arguments.seconds, wait))
                with hipdnn.torch.enable():
                    ours = microseconds(of, arguments.seconds, wait)
                theirs.append(microseconds(of, arguments.seconds, wait))
            row += f"{min(theirs):>9.1f}{ours:>9.1f}{ours - min(theirs):>10.1f}"
        print(f"{name:<12}{row}", flush=True)
    left = [row for row in hipdnn.torch.report() if row.passed_on]
    for row in left:
        print(f"in PyTorch: {row.function} {row.passed_on}: {'; '.join(row.reasons)[:200]}")


if __name__ == "__main__":
    main()
