"""Group normalization of any shape, type and layout matches PyTorch."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

FUNCTIONS = ["native_group_norm", "native_group_norm_backward"]


def sample(of, dtype):
    """Channels, groups and places derived from a number, with or without scale and bias."""
    draw = random.Random(of)
    groups, depth = draw.choice([1, 2, 3, 5, 8]), draw.choice([1, 2, 4, 5, 7])
    places = [draw.choice([1, 2, 3, 4, 6, 8, 17]) for _ in range(draw.choice([0, 1, 2, 2, 2, 3]))]
    dims = (draw.choice([1, 2, 4]), groups * depth, *places)
    x = torch.randn(dims, dtype=dtype) * 2 + 1
    if len(dims) == 4 and draw.random() < 0.5:
        x = x.to(memory_format=torch.channels_last)
    factors = [None, None]
    if draw.random() < 0.8:
        mixed = dtype in (torch.bfloat16, torch.half) and draw.random() < 0.5
        factors = [torch.randn(dims[1], dtype=torch.float32 if mixed else dtype) for _ in range(2)]
    return x, groups, factors


def with_gradients(x, groups, factors, dy):
    inputs = [of.detach().clone().requires_grad_() for of in (x, *factors) if of is not None]
    x, *factors = (*inputs, None, None)[:3]
    y = F.group_norm(x, groups, *factors)
    return [y, *torch.autograd.grad(y, inputs, dy)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.half, torch.double], ids=str)
def test_results_and_gradients_are_pytorchs(dtype):
    torch.manual_seed(5)
    routed = 0
    for of in range(60):
        x, groups, factors = sample(of, dtype)
        dy = torch.randn_like(x)
        if x[0].numel() // groups == 1:
            continue
        wanted = with_gradients(x, groups, factors, dy)
        hipdnn.torch.reset()
        with hipdnn.torch.enable(timed=False):
            got = with_gradients(x, groups, factors, dy)
        rows = hipdnn.torch.report()
        assert [row.function for row in rows] == FUNCTIONS
        routed += sum(row.routed for row in rows)
        tolerance = 1e-3 if dtype in (torch.float32, torch.double) else 5e-2
        for g, w in zip(got, wanted):
            assert (g.dtype, g.stride()) == (w.dtype, w.stride()), (of, x.shape)
            scale = max(1.0, w.abs().max().item())
            torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance * scale, msg=lambda text: f"{of}: {text}")
    assert routed > 80


def test_on_a_cpu_it_stays_pytorchs():
    hipdnn.torch.reset()
    x = torch.randn(2, 8, 4, 4).requires_grad_()
    with hipdnn.torch.enable():
        F.group_norm(x, 2).sum().backward()
    assert not any(row.function in FUNCTIONS for row in hipdnn.torch.report())
    hipdnn.torch.reset()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of PyTorch's")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.half], ids=str)
@pytest.mark.parametrize("places", [(16, 16), (64, 64), (128, 128)], ids=str)
def test_on_a_gpu_short_and_long_groups(dtype, places):
    x = torch.randn(10, 24, *places, device="cuda", dtype=dtype)
    factors = [torch.randn(24, device="cuda", dtype=dtype) for _ in range(2)]
    dy = torch.randn_like(x)
    # In double, as the reference for rounding errors.
    wanted = with_gradients(x.double(), 2, [of.double() for of in factors], dy.double())
    plain = with_gradients(x, 2, factors, dy)
    hipdnn.torch.reset()
    with hipdnn.torch.enable(timed=False):
        got = with_gradients(x, 2, factors, dy)
    assert [(row.function, row.routed) for row in hipdnn.torch.report()] == [(name, 1) for name in FUNCTIONS]
    for g, w, p in zip(got, wanted, plain):
        error, theirs = ((of.double() - w).abs().max().item() for of in (g, p))
        assert (g.dtype, g.stride()) == (p.dtype, p.stride())
        assert error <= 2 * theirs + 1e-5 * w.abs().max().item(), (error, theirs)
