"""Activations, softmax and their gradients."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...types import reduction_mode
from ..graphs import activation, compute
from ..operation import operation


@operation
def pointwise(x: Tensor, method: str, numbers: Sequence[float]) -> Tensor:
    """An activation: a method of a graph with its numbers."""
    build = lambda graph, x: activation(graph, method, numbers, x)  # noqa: E731
    return compute(method, tuple(numbers), [x], build, shape=() if x.dim() == 0 else None)[0]


@pointwise.register_fake
def _(x, method, numbers):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


#: PyTorch's own, by the method of a graph.
_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "relu": lambda x, *of: F.hardtanh(x, of[1], of[2]) if of else F.relu(x),
    "swish": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "gelu": F.gelu, "gelu_approx_tanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip


@pointwise.register_elsewhere
def _(x, method, numbers):  # type: ignore[no-untyped-def]
    return _FUNCTIONS[method](x, *numbers)


@operation
def pointwise_backward(dy: Tensor, x: Tensor, method: str, numbers: Sequence[float]) -> Tensor:
    """Its gradient."""
    name = f"{method}_backward"
    build = lambda graph, dy, x: activation(graph, name, numbers, dy, x)  # noqa: E731
    return compute(name, tuple(numbers), [dy, x], build, shape=() if x.dim() == 0 else None)[0]


_aten = torch.ops.aten

#: Their gradients.
_GRADIENTS: dict[str, Callable[..., Tensor]] = {
    "relu": lambda dy, x, *of: _aten.hardtanh_backward(dy, x, *of[1:]) if of else _aten.threshold_backward(dy, x, 0),
    # PyTorch's own one has no derivative.
    "swish": lambda dy, x: dy * torch.sigmoid(x) * (1 + x * torch.sigmoid(-x)),
    "sigmoid": lambda dy, x: _aten.sigmoid_backward(dy, torch.sigmoid(x)),
    "tanh": lambda dy, x: _aten.tanh_backward(dy, torch.tanh(x)),
    "leaky_relu": lambda dy, x, slope=0.01: _aten.leaky_relu_backward(dy, x, slope, False),
    "elu": lambda dy, x, alpha=1.0: _aten.elu_backward(dy, alpha, 1, 1, False, x),
    "gelu": _aten.gelu_backward,
    "gelu_approx_tanh": lambda dy, x: _aten.gelu_backward(dy, x, approximate="tanh"),
}


@pointwise_backward.register_elsewhere
def _(dy, x, method, numbers):  # type: ignore[no-untyped-def]
    return _GRADIENTS[method](dy, x, *numbers)


@pointwise_backward.register_fake
def _(dy, x, method, numbers):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


def _pointwise_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, ctx.method, ctx.numbers = inputs
    ctx.save_for_backward(x)


def _pointwise_backward(ctx, dy):  # type: ignore[no-untyped-def]
    return pointwise_backward.gradient(dy, ctx.saved_tensors[0], ctx.method, ctx.numbers), None, None


pointwise.register_autograd(_pointwise_backward, setup_context=_pointwise_context)


@operation
def softmax(x: Tensor, dim: int) -> Tensor:
    """Softmax along a dimension, in one graph."""

    def build(graph: Any, x: Any) -> Any:
        e = graph.exp(graph.sub(x, graph.reduction(x, reduction_mode.MAX, axis=dim)))
        return graph.div(e, graph.reduction(e, reduction_mode.ADD, axis=dim))

    return compute("softmax", dim, [x], build)[0]


@softmax.register_fake
def _(x, dim):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


@softmax.register_elsewhere
def _(x, dim):  # type: ignore[no-untyped-def]
    return torch.softmax(x, dim)


@operation
def softmax_backward(dy: Tensor, y: Tensor, dim: int) -> Tensor:
    """Its gradient, from its result."""

    def build(graph: Any, dy: Any, y: Any) -> Any:
        p = graph.mul(dy, y)
        return graph.sub(p, graph.mul(y, graph.reduction(p, reduction_mode.ADD, axis=dim)))

    return compute("softmax_backward", dim, [dy, y], build)[0]


@softmax_backward.register_elsewhere
def _(dy, y, dim):  # type: ignore[no-untyped-def]
    return torch.ops.aten._softmax_backward_data(dy, y, dim, y.dtype)


@softmax_backward.register_fake
def _(dy, y, dim):  # type: ignore[no-untyped-def]
    return torch.empty_like(y)


def _softmax_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    _, ctx.dim = inputs
    ctx.save_for_backward(output)


def _softmax_backward(ctx, dy):  # type: ignore[no-untyped-def]
    return softmax_backward.gradient(dy, ctx.saved_tensors[0], ctx.dim), None


softmax.register_autograd(_softmax_backward, setup_context=_softmax_context)
