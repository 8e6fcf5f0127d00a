"""Second derivatives, forward mode and `torch.func`: PyTorch's, also of what was computed here."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from test_torch_functions import CALLS  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()
    # PyTorch's other attention on CPUs has first derivatives only.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        yield


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)


def made(name, dtype=torch.float64):
    call, *inputs = CALLS[name]
    return call, [make(dtype).requires_grad_() for make in inputs]


def second(call, inputs):
    """A result, its gradients, and the gradients of a function of those."""
    torch.manual_seed(1)
    y = call(*inputs)
    direction = torch.randn(y.shape, dtype=y.dtype).requires_grad_()
    first = torch.autograd.grad(y, inputs, direction, create_graph=True)
    total = sum((g * torch.randn(g.shape, dtype=g.dtype)).sum() + g.square().sum() for g in first)
    of = [*inputs, direction]
    return [y, *first, *torch.autograd.grad(total, of, allow_unused=True, materialize_grads=True)]


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives(name):
    call, inputs = made(name)
    wanted = second(call, inputs)
    with hipdnn.torch.enable(timed=False):
        for _ in range(2):
            close(second(call, inputs), wanted)


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_by_differences(name):
    call, inputs = made(name)
    with hipdnn.torch.enable(timed=False):
        assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", CALLS)
def test_forward_mode(name):
    call, inputs = made(name)

    def tangent():
        torch.manual_seed(1)
        with forward_ad.dual_level():
            of = [forward_ad.make_dual(x.detach(), torch.randn_like(x)) for x in inputs]
            return [*forward_ad.unpack_dual(call(*of))]

    try:
        wanted = tangent()
    except NotImplementedError:
        pytest.skip("PyTorch has no forward mode of it")
    with hipdnn.torch.enable(timed=False):
        close(tangent(), wanted)


TRANSFORMS = {
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).square().sum())(x),
    "vmap": lambda f, x: torch.func.vmap(f)(x.expand(3, *x.shape)),
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(x.expand(3, *x.shape)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sin().sum())(x),
    "functional_call": lambda f, x: torch.func.vjp(f, x)[1](torch.ones_like(f(x)))[0],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["conv2d", "linear", "gelu", "layer_norm", "softmax", "scaled_dot_product_attention"])
def test_torch_func(name, transform):
    call, (x, *rest) = made(name, torch.float32)
    x, rest = x.detach(), [other.detach() for other in rest]

    def run():
        return TRANSFORMS[transform](lambda x: call(x, *rest), x)

    wanted = run()
    with hipdnn.torch.enable(timed=False):
        got = run()
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_gradients_by_torch_func_are_computed_here():
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    with hipdnn.torch.enable(timed=False):
        torch.func.grad(lambda w: F.conv2d(x, w).square().sum())(w)
    assert {row.function for row in hipdnn.torch.report() if row.routed} == {"convolution", "convolution_backward"}
