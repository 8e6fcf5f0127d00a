"""Second derivatives, forward mode and `torch.func`: PyTorch's, of what was computed here as well."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import torch.nn.functional as F  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import hipdnn.torch  # noqa: E402
from test_torch_functions import CALLS  # noqa: E402

ops = torch.ops.hipdnn


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()
    # The others of PyTorch's attention on CPUs have first derivatives only.
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


@pytest.mark.parametrize("times", [1, 2], ids=["searched", "by signature"])
@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives(name, times):
    call, inputs = made(name)
    wanted = second(call, inputs)
    with hipdnn.torch.enable():
        for _ in range(times):
            got = second(call, inputs)
    assert sum(row.routed for row in hipdnn.torch.report())
    close(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_in_other_types(name, dtype):
    call, inputs = made(name, dtype)
    theirs = second(call, inputs)
    with hipdnn.torch.enable():
        got = second(call, inputs)
    for g, t in zip(got, theirs):
        assert g.dtype == t.dtype and g.shape == t.shape
    if dtype == torch.float32:
        for g, w in zip(got, theirs):
            torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-3 * float(w.detach().abs().max() + 1))


@pytest.mark.parametrize("name", ["conv2d", "linear", "gelu", "layer_norm", "rms_norm", "causal attention", "softmax"])
def test_second_derivatives_by_differences(name):
    call, inputs = made(name)
    with hipdnn.torch.enable():
        assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True, atol=1e-4, rtol=1e-3)


def test_a_penalty_of_gradients_trains():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)

    def gradients():
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [*model.parameters()][:3])

    wanted = gradients()
    with hipdnn.torch.enable():
        for _ in range(3):
            close(gradients(), wanted)
    rows = {row.function: row for row in hipdnn.torch.report()}
    # The gradient itself was computed here; its own one was not, and is counted.
    assert rows["linear"].routed and rows["pointwise_backward"].reasons == ("the gradient of a gradient",)


def test_third_derivatives():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def third():
        y = F.gelu(x).square().sum()
        for _ in range(3):
            (slope,) = torch.autograd.grad(y, x, create_graph=True)
            y = slope.square().sum()
        return slope

    wanted = third()
    with hipdnn.torch.enable():
        close(third(), wanted)


def forward(call, inputs):
    """A result and its tangent."""
    torch.manual_seed(1)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, torch.randn_like(x)) for x in inputs]
        return list(forward_ad.unpack_dual(call(*duals)))


@pytest.mark.parametrize("with_grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_forward_mode(name, with_grad):
    call, inputs = made(name)
    inputs = [x.requires_grad_(with_grad) for x in inputs] if with_grad else [x.detach() for x in inputs]
    wanted = forward(call, inputs)
    with hipdnn.torch.enable():
        call(*inputs)
        call(*inputs)
        hipdnn.torch.reset()
        got = forward(call, inputs)
        rows = hipdnn.torch.report()
    assert all(not row.routed and row.passed_on and row.reasons == ("forward-mode differentiation",) for row in rows)
    assert rows
    close(got, wanted)
    with hipdnn.torch.enable():
        call(*inputs)
    assert sum(row.routed for row in hipdnn.torch.report())


def test_forward_mode_over_a_gradient():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)

    def tangent():
        y = F.softmax(F.gelu(x), 1)
        with forward_ad.dual_level():
            direction = forward_ad.make_dual(torch.ones_like(x), x.detach())
            return forward_ad.unpack_dual(torch.autograd.grad(y, x, direction)[0]).tangent

    wanted = tangent()
    with hipdnn.torch.enable():
        close(tangent(), wanted)


rand = lambda *shape: torch.randn(*shape, dtype=torch.float64)
OF = [2, 1], [1, 0], [1, 1]
WINDOW = [3, 2], [2, 2], [1, 0], [1, 0]
#: Operations of PyTorch's library beside what PyTorch computes, and tensors for both.
OPERATIONS = {
    "conv": (lambda x, w, b: ops.conv(x, w, b, *OF), lambda x, w, b: F.conv2d(x, w, b, *OF), (2, 4, 6, 5), (6, 4, 3, 3), (6,)),
    "conv_data": (
        lambda dy, w: ops.conv_data(dy, w, [2, 3, 11, 7], [2, 1], [0, 1], [1, 1]),
        lambda dy, w: F.conv_transpose2d(dy, w, None, (2, 1), (0, 1)), (2, 4, 5, 7), (4, 3, 3, 3),
    ),
    "conv_weights": (
        lambda x, dy: ops.conv_weights(x, dy, [6, 4, 2, 2], [1, 1], [0, 0], [1, 1]),
        lambda x, dy: F.conv2d(x.transpose(0, 1), dy.transpose(0, 1)).transpose(0, 1), (2, 4, 6, 5), (2, 6, 5, 4),
    ),
    "matmul": (ops.matmul, torch.matmul, (2, 3, 4), (2, 4, 5)),
    "linear": (ops.linear, F.linear, (2, 3, 4), (5, 4), (5,)),
    "gelu": (lambda x: ops.pointwise(x, "gelu", []), F.gelu, (3, 5)),
    "tanh": (lambda x: ops.pointwise(x, "tanh", []), torch.tanh, (3, 5)),
    "softmax": (lambda x: ops.softmax(x, 1), lambda x: torch.softmax(x, 1), (3, 5)),
    "softmax_backward": (
        lambda dy, y: ops.softmax_backward(dy, y, 1), lambda dy, y: y * (dy - (dy * y).sum(1, True)), (3, 5), (3, 5)
    ),
    "layer_norm": (lambda *t: ops.layer_norm(*t, 1e-5)[0], lambda x, *t: F.layer_norm(x, (8,), *t), (3, 8), (8,), (8,)),
    "rms_norm": (lambda *t: ops.rms_norm(*t, 1e-5)[0], lambda x, w: F.rms_norm(x, (8,), w, 1e-5), (3, 8), (8,)),
    "batch_norm": (
        lambda x, w, b: ops.batch_norm(x, w, b, torch.zeros_like(w), torch.ones_like(w), 0.1, 1e-5)[0],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (4, 3, 5), (3,), (3,),
    ),
    "sdpa": (
        lambda q, k, v: ops.sdpa(q, k, v, None, None, True, 0.3, 0.0)[0],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), *[(2, 2, 4, 3)] * 3,
    ),
    "max_pool": (
        lambda x: ops.pool(x, "maxpool", True, *WINDOW)[0], lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0)), (2, 3, 7, 6)
    ),
    "avg_pool": (
        lambda x: ops.pool(x, "avgpool_exclude_padding", False, *WINDOW)[0],
        lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0), False, False), (2, 3, 7, 6),
    ),
}  # fmt: skip

TRANSFORMS = {
    "grad": lambda f, n: torch.func.grad(lambda *t: f(*t).square().sum(), tuple(range(n))),
    "grad of grad": lambda f, n: torch.func.grad(
        lambda *t: sum(g.square().sum() for g in TRANSFORMS["grad"](f, n)(*t)), tuple(range(n))
    ),
    "jvp": lambda f, n: lambda *t: torch.func.jvp(f, t, tuple(x.cos() for x in t)),
    "vmap": lambda f, n: lambda *t: torch.func.vmap(f, (0,) + (None,) * (n - 1))(
        torch.stack([t[0], 2 * t[0]]), *t[1:]
    ),
    "vmap of all": lambda f, n: lambda *t: torch.func.vmap(f)(*(torch.stack([x, 2 * x, -x]) for x in t)),
    "vmap of grad": lambda f, n: lambda *t: torch.func.vmap(TRANSFORMS["grad"](f, n), (0,) + (None,) * (n - 1))(
        torch.stack([t[0], 2 * t[0]]), *t[1:]
    ),
    "jacrev": lambda f, n: torch.func.jacrev(f),
    "jacfwd": lambda f, n: torch.func.jacfwd(f),
    "jvp of grad": lambda f, n: lambda *t: torch.func.jvp(TRANSFORMS["grad"](f, n), t, tuple(x.cos() for x in t)),
    "grad of vmap": lambda f, n: torch.func.grad(
        lambda *t: TRANSFORMS["vmap"](f, n)(*t).square().sum(), tuple(range(n))
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_under_torch_func(name, transform):
    ours, theirs, *shapes = OPERATIONS[name]
    inputs = [rand(*shape) for shape in shapes]
    apply = TRANSFORMS[transform]
    close(apply(ours, len(inputs))(*inputs), apply(theirs, len(inputs))(*inputs))


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_have_second_derivatives_and_tangents(name):
    ours, theirs, *shapes = OPERATIONS[name]
    inputs = [rand(*shape).requires_grad_() for shape in shapes]
    close(second(ours, inputs), second(theirs, inputs))
    close(forward(ours, inputs), forward(theirs, inputs))


def test_gradients_by_torch_func_are_computed_here():
    x = rand(3, 5)
    torch.func.grad(lambda x: ops.pointwise(x, "gelu", []).sum())(x)
    assert not hipdnn.torch.report()
    torch.func.vmap(lambda x: ops.pointwise(x, "gelu", []))(x)
    (row,) = hipdnn.torch.report()
    assert (row.function, row.passed_on, row.reasons) == ("pointwise", 1, ("inside torch.func",))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["conv2d", "linear", "gelu", "layer_norm", "softmax", "scaled_dot_product_attention"])
def test_routed_functions_under_torch_func(name, transform):
    call, inputs = made(name)
    inputs = [x.detach() for x in inputs]
    make = TRANSFORMS[transform](call, len(inputs))
    wanted = make(*inputs)
    with hipdnn.torch.enable():
        call(*inputs)
        call(*inputs)
        hipdnn.torch.reset()
        got = make(*inputs)
    rows = hipdnn.torch.report()
    assert rows and all(row.passed_on and not row.routed for row in rows)
    close(got, wanted)


def test_batches_of_gradients_of_what_was_computed_here():
    x = rand(3, 5).requires_grad_()
    directions = rand(4, 3, 5)
    of = lambda: torch.autograd.grad(F.softmax(F.gelu(x), 1), x, directions, is_grads_batched=True)
    wanted = of()
    with hipdnn.torch.enable():
        close(of(), wanted)
        assert sum(row.routed for row in hipdnn.torch.report())
