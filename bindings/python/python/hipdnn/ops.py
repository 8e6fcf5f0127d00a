"""cuDNN's functions on PyTorch tensors besides graphs."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .errors import GraphError
from .graph import Graph
from .types import reduction_mode

__all__ = ["causal_conv1d"]


def causal_conv1d(x: Any, weight: Any, bias: Any, activation: str = "silu") -> Any:
    """Convolves each channel of x [N, C, L] with its own filter, weight [C, K], over preceding elements and its own, adds bias [C] and
    applies x · sigmoid(x) ("silu") or nothing ("identity"). It has gradients; `torch.compile` leaves it as it is."""
    if activation not in ("silu", "identity"):
        raise GraphError("causal_conv1d", "activation", f"is {activation!r}, expected 'silu' or 'identity'")
    shapes = tuple(x.shape), tuple(weight.shape), tuple(bias.shape)
    if [len(shape) for shape in shapes] != [3, 2, 1] or not shapes[0][1] == shapes[1][0] == shapes[2][0]:
        raise GraphError("causal_conv1d", "weight", f"shapes are {shapes}, expected [N, C, L], [C, K] and [C]")
    return _call()(x, weight, bias, activation)


def _convolved(graph: Graph, x: Any, weight: Any, bias: Any) -> Any:
    y = graph.conv_fprop(x, weight, pre_padding=[0, weight.shape[3] - 1], post_padding=[0, 0])
    return graph.bias(y, bias)


def _images(x: Any, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """The operands of the equivalent convolution of one-row images."""
    channels, taps = weight.shape
    return (
        x.detach().contiguous().unsqueeze(2),
        weight.detach().reshape(channels, 1, 1, taps).contiguous(),
        bias.detach().reshape(1, channels, 1, 1).contiguous(),
    )


@functools.lru_cache(None)
def _call() -> Any:
    """The function with its gradients, made once PyTorch is loaded."""
    torch = importlib.import_module("torch")

    class CausalConv1d(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(context: Any, x: Any, weight: Any, bias: Any, activation: str) -> Any:
            context.save_for_backward(x, weight, bias)
            context.activation = activation
            operands = _images(x, weight, bias)
            graph = Graph(compute_data_type="float", intermediate_data_type="float")
            y = _convolved(graph, *operands)
            y = graph.swish(y) if activation == "silu" else y
            y.set_output(True).set_data_type(x.dtype)
            return graph(*operands).squeeze(2)

        @staticmethod
        def backward(context: Any, dy: Any) -> Any:
            x, weight, bias = context.saved_tensors
            operands = _images(x, weight, bias)
            gradient = dy.detach().contiguous().unsqueeze(2)
            if context.activation == "silu":
                graph = Graph(compute_data_type="float", intermediate_data_type="float")
                before = _convolved(graph, *operands)
                graph.swish_backward(gradient, before).set_output(True).set_data_type("float")
                graph.set_io_tuples([*operands, gradient], ["swish_backward.0::OUT_0"])
                gradient = graph(*operands, gradient)
            window: dict[str, Any] = {"pre_padding": [0, weight.shape[1] - 1], "post_padding": [0, 0]}
            graph = Graph(compute_data_type="float")
            dx = graph.conv_dgrad(gradient, operands[1], **window).set_dim(operands[0].shape)
            dx.set_output(True).set_data_type(x.dtype)
            dx = graph(gradient, operands[1])
            graph = Graph(compute_data_type="float")
            dweight = graph.conv_wgrad(operands[0], gradient, **window).set_dim(operands[1].shape)
            dweight.set_output(True).set_data_type(weight.dtype)
            dweight = graph(operands[0], gradient)
            graph = Graph(compute_data_type="float")
            dbias = graph.reduction(gradient, reduction_mode.ADD).set_dim(operands[2].shape)
            dbias.set_output(True).set_data_type(bias.dtype)
            dbias = graph(gradient)
            return dx.squeeze(2), dweight.reshape(weight.shape), dbias.reshape(bias.shape), None

    return torch.compiler.disable(CausalConv1d.apply)
