"""Calls that were made before go straight to their plan: what that must tell apart, and what it must not keep."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import torch.nn.functional as F  # noqa: E402

import hipdnn.torch  # noqa: E402
from hipdnn.torch import graphs, operation, ops, router  # noqa: E402

if not graphs._DESCRIBED:
    pytest.skip("PyTorch describes tensors to others from 2.10 on", allow_module_level=True)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()
    graphs.forget()
    router.ROUTER.forget()


@pytest.fixture
def searched(monkeypatch):
    """The calls of handlers, which nothing known avoids."""
    seen = []
    for function, handler in list(router.HANDLERS.items()):
        note = lambda *args, _of=handler, **named: (seen.append(_of), _of(*args, **named))[1]  # noqa: E731
        monkeypatch.setitem(router.HANDLERS, function, note)
    return seen


def checked(call, *inputs, **named):
    """A call with gradients, by hipDNN and PyTorch."""
    results = []
    for on in (True, False):
        given = [t.detach().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in inputs]
        if on:
            hipdnn.torch.enable()
        try:
            y = call(*given, **named)
        finally:
            hipdnn.torch.disable()
        wanted = [t for t in given if isinstance(t, torch.Tensor) and t.requires_grad]
        assert y.requires_grad == bool(wanted)
        results.append([y, *(torch.autograd.grad(y, wanted, torch.ones_like(y)) if wanted else [])])
    for got, wanted in zip(*results):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape and got.stride() == wanted.stride()
        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)


def rand(*shape, grad=False, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def test_handlers_are_asked_once(searched):
    x, w, b = rand(3, 4), rand(5, 4, grad=True), rand(5, grad=True)
    with hipdnn.torch.enable():
        for _ in range(3):
            F.linear(x, w, b).sum().backward()
            F.linear(x, w, bias=b)
            F.layer_norm(x, (4,), w[0].detach(), w[1].detach())
            F.batch_norm(rand(4, 3, 2, 2), torch.zeros(3), torch.ones(3), training=True)
            torch.matmul(x, w.t())
            F.max_pool2d(rand(1, 2, 4, 4), 2)
    assert len(searched) == 6
    assert sum(row.routed for row in hipdnn.torch.report()) == 18


@pytest.mark.parametrize("twice", range(2))
def test_signatures_are_told_apart(twice, searched):
    for _ in range(twice + 1):
        for grad_x in (False, True):
            for grad_w in (False, True):
                checked(F.linear, rand(3, 4, grad=grad_x), rand(5, 4, grad=grad_w))
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            checked(F.linear, rand(3, 4, dtype=dtype, grad=True), rand(5, 4, dtype=dtype))
        checked(F.linear, rand(4, 3).t(), rand(5, 4))
        checked(F.linear, rand(6, 4)[::2], rand(5, 4, grad=True))
        checked(F.linear, rand(2, 3, 4), rand(5, 4), rand(5, grad=True))
        for negative in (0.1, 0.2):
            checked(F.leaky_relu, rand(3, 4), negative)
            checked(F.leaky_relu, rand(3, 4), negative_slope=negative)
        for approximate in ("none", "tanh"):
            checked(F.gelu, rand(3, 4, grad=True), approximate=approximate)
        for stride in (1, 2, (1, 2), [2, 1]):
            checked(F.conv2d, rand(1, 2, 6, 6, grad=True), rand(3, 2, 3, 3), None, stride)
        image = rand(2, 4, 6, 6).to(memory_format=torch.channels_last)
        checked(F.conv2d, image.requires_grad_(), rand(3, 4, 3, 3))
        checked(F.softmax, rand(3, 4, grad=True), 1)
        checked(F.softmax, rand(3, 4, grad=True), 0)
        checked(torch.matmul, rand(2, 3, 4, grad=True), rand(4, 5, grad=True))
        checked(torch.matmul, rand(2, 1, 3, 4, grad=True), rand(5, 4, 6, grad=True))
    assert len(searched) < 45


def test_one_tensor_twice_and_two_tensors():
    x, w = rand(4, 4), rand(4, 4)
    for given in ((x, x), (x, w), (w, x)):
        checked(F.linear, *given)
        checked(torch.matmul, *given)
        checked(F.linear, *(t.detach().requires_grad_() for t in given))


def test_modes_are_told_apart():
    x, w = rand(3, 4), rand(5, 4, grad=True)
    with hipdnn.torch.enable():
        for _ in range(2):
            assert F.linear(x, w).requires_grad
            with torch.no_grad():
                assert not F.linear(x, w).requires_grad
            with torch.autocast("cpu", torch.bfloat16):
                y = F.linear(x, w)
                assert y.dtype == torch.bfloat16
            (grad,) = torch.autograd.grad(y.float().sum(), w)
            torch.testing.assert_close(grad, x.sum(0).expand(5, 4), rtol=2e-2, atol=2e-2)
            with torch.autocast("cpu", torch.float16):
                assert F.linear(x, w).dtype == torch.float16
            assert torch.func.vmap(lambda row: F.linear(row, w))(x).shape == (3, 5)
            torch.testing.assert_close(torch.func.grad(lambda x: F.linear(x, w).sum())(x), w.sum(0).expand(3, 4))


def test_memory_that_is_not_aligned_and_views_that_negate():
    w = rand(5, 4, grad=True)
    room = torch.randn(13)
    for x in (room[:12], room[1:], room[:12]):
        checked(F.linear, x.view(3, 4), w)
    plain = torch.as_strided(torch.ones(24), (3, 4), (8, 2))
    negated = torch.view_as_complex(torch.ones(3, 4, 2)).conj().imag
    for x in (plain, negated, plain):
        with hipdnn.torch.enable():
            assert F.relu(x).sum() == max(0, x.sum())


def test_second_derivatives_after_first_ones():
    x, w = rand(3, 4, grad=True, dtype=torch.float64), rand(5, 4, grad=True, dtype=torch.float64)
    with hipdnn.torch.enable():
        for call in (F.linear, lambda x, w: torch.matmul(x, w.t()), lambda x, w: F.gelu(x) + w.sum()):
            call(x, w).sum().backward()
            assert torch.autograd.gradgradcheck(call, (x, w), atol=1e-4)


def test_running_statistics_are_those_of_each_layer():
    layers = [torch.nn.BatchNorm2d(3) for _ in range(2)]
    x = rand(4, 3, 5, 5)
    with hipdnn.torch.enable():
        for _ in range(3):
            for factor, layer in enumerate(layers, 1):
                layer(factor * x)
    mean = x.mean((0, 2, 3)) * (1 - 0.9**3)
    for factor, layer in enumerate(layers, 1):
        torch.testing.assert_close(layer.running_mean, factor * mean, rtol=1e-3, atol=1e-4)


def test_results_are_changed_in_place():
    x, w = rand(3, 4), rand(5, 4, grad=True)
    with hipdnn.torch.enable():
        for _ in range(2):
            F.linear(x, w).add_(1).sum().backward()
            first, second = F.linear(x, w), F.linear(x, w)
            assert first.data_ptr() != second.data_ptr() and first._base is None


def test_counts_begin_anew():
    def call():
        F.gelu(torch.ones(2))

    with hipdnn.torch.enable():
        for times in (1, 3):
            hipdnn.torch.reset()
            for _ in range(times):
                call()
            ((function, place, routed, *_),) = hipdnn.torch.report()
            assert (function, routed) == ("gelu", times) and place.startswith(__file__)


def test_what_is_made_on_the_way_is_not_kept():
    seen = []

    @graphs.cached
    def function(x):
        seen.append(x)
        return ops.pointwise.forward.function(x + 1, "relu", [])

    for value in (1.0, 2.0):
        assert (function(torch.full((4,), value)) == value + 1).all()
    assert len(seen) == 2


def test_arguments_without_a_signature_are_searched_each_time(searched):
    class Odd(torch.Tensor):
        pass

    with hipdnn.torch.enable():
        for _ in range(2):
            F.relu(torch.ones(3).as_subclass(Odd))
    (row,) = hipdnn.torch.report()
    assert len(searched) == row.passed_on == 2 and "a Odd" in row.reasons[0]
    assert operation.plain(torch.ones(1))


def test_what_goes_on_in_pytorch_does_so_at_once(searched):
    with hipdnn.torch.enable():
        for _ in range(3):
            x = rand(3)
            assert F.relu(x, inplace=True) is x
    (row,) = hipdnn.torch.report()
    assert (row.passed_on, row.reasons, len(searched)) == (3, ("in place",), 1)


def test_reasons_that_end_are_forgotten(searched):
    x = rand(3)
    with hipdnn.torch.enable():
        for routed in range(2):
            with torch.autograd.forward_ad.dual_level():
                F.gelu(x)
            F.gelu(x)
    assert [(row.routed, row.passed_on) for row in hipdnn.torch.report()] == [(0, 2), (2, 0)]


def test_running_statistics_are_changed_by_all_ways():
    """In the types that statistics have and in others, with and without gradients, scale and bias, and of rows."""
    for shape in ((4, 3, 5, 5), (4, 3)):
        for dtype in (torch.float32, torch.bfloat16):
            for weight in (None, rand(3, grad=True, dtype=dtype)):
                for grad in (False, True):
                    x, found = rand(*shape, grad=grad, dtype=dtype), []
                    for on in (True, False):
                        running = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
                        if on:
                            hipdnn.torch.enable()
                        for _ in range(2):
                            y = F.batch_norm(x, *running, weight, weight, training=True)
                        hipdnn.torch.disable()
                        found.append((y, *running))
                    for got, wanted in zip(*found):
                        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)


def test_others_that_override_functions_are_asked():
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Above(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append("above")
            return func(*args, **(kwargs or {}))

    seen: list[object] = []
    x = rand(3)
    with hipdnn.torch.enable():
        with Above():
            F.relu(x)
        assert seen == ["above"]
        assert isinstance(F.relu(x.as_subclass(Mine)), Mine) and F.relu in seen
        with torch._C.DisableTorchFunction():
            F.relu(x)
    assert isinstance(F.relu(x.as_subclass(Mine)), Mine)
    assert sum(row.routed for row in hipdnn.torch.report()) == 1
    # PyTorch's function is as it was for those that look at it.
    assert torch.jit.script(F.relu)(x).equal(F.relu(x))
    traced = torch.fx.symbolic_trace(lambda x: F.relu(F.layer_norm(x, (3,))))
    assert [node.target for node in traced.graph.nodes if node.op == "call_function"] == [F.layer_norm, F.relu]
