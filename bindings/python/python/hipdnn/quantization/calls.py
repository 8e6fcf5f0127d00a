"""PyTorch's elementwise operations, reductions, normalizations, products and attention as nodes of a graph."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Union

from ..errors import UnsupportedError
from ..tensor import Tensor
from ..types import norm_forward_phase, reduction_mode


class Flat:
    """A tensor that the module flattened to two dimensions; the graph keeps its shape."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Reduced:
    """A tensor without some dimensions, which have one element in the graph."""

    def __init__(self, tensor: Tensor, axes: Sequence[int]) -> None:
        self.tensor, self.axes = tensor, tuple(axes)


#: What a call makes.
Made = Union[Tensor, Flat, Reduced]


def _odd(node: Any, what: str) -> UnsupportedError:
    return UnsupportedError(node.name, "shape", what)


def _dims(tensor: Tensor) -> list[int]:
    return list(tensor.dim or ())


def _form(value: Made) -> Any:
    """Values of one form have their dimensions in the same places."""
    if isinstance(value, Reduced):
        return value.axes, len(_dims(value.tensor))
    return (Flat, *_dims(value.tensor)[2:]) if isinstance(value, Flat) else Tensor


def _like(value: Any, tensor: Tensor) -> Made:
    """A tensor in the form of another value."""
    if isinstance(value, Reduced):
        return Reduced(tensor, value.axes)
    return Flat(tensor) if isinstance(value, Flat) else tensor


def _operands(reader: Any, node: Any, arguments: Sequence[Any]) -> tuple[list[Any], Any]:
    """The tensors and numbers for arguments that PyTorch aligns at their last dimensions, and one that has the result's form."""
    values = [reader.value(argument) for argument in arguments]
    shaped = [value for value in values if isinstance(value, (Tensor, Flat, Reduced))]
    if not shaped:
        return [reader.tensor(argument) if hasattr(argument, "name") else argument for argument in arguments], None
    first = shaped[0]
    if any(_form(value) != _form(first) for value in shaped):
        raise _odd(node, "operands lost different dimensions, expected the same ones, or keepdim")
    rank = max(len(_dims(reader.tensor_of(value))) for value in shaped)
    operands: list[Any] = []
    for argument, value in zip(arguments, values):
        if isinstance(value, (Tensor, Flat, Reduced)):
            operands.append(reader.tensor_of(value))
        elif isinstance(value, (int, float)):
            operands.append(value)
        else:
            array = reader.array(value)
            last = 2 if isinstance(first, Flat) else rank
            is_image = isinstance(first, Flat) and any(dim != 1 for dim in _dims(first.tensor)[2:])
            if array.size > 1 and (isinstance(first, Reduced) or is_image or array.ndim > last):
                raise _odd(node, f"a parameter has {list(array.shape)}, expected the dimensions of the other operand")
            ones = [1] * (last - min(array.ndim, last))
            shape = [*ones, *array.shape, *[1] * (rank - last)] if array.size > 1 else [1] * rank
            operands.append(reader.constant(array.reshape(shape), argument.name))
    return operands, first


def _of_operands(method: str) -> Callable[..., Made]:
    def call(reader: Any, node: Any, *arguments: Any, alpha: Any = 1, **_: Any) -> Made:
        operands, first = _operands(reader, node, arguments)
        if alpha != 1:
            operands[-1] = reader.graph.mul(operands[-1], alpha, name=f"{node.name} alpha")
        return _like(first, getattr(reader.graph, method)(*operands, name=node.name))

    return call


def _turned_sub(reader: Any, node: Any, x: Any, number: Any, alpha: Any = 1) -> Made:
    return _of_operands("sub")(reader, node, number, x, alpha=alpha)


def _square(reader: Any, node: Any, x: Any) -> Made:
    return _of_operands("mul")(reader, node, x, x)


def _power(reader: Any, node: Any, x: Any, power: Any) -> Made:
    if power in (2, 3, 4):
        [tensor], first = _operands(reader, node, [x])
        made = tensor
        for place in range(int(power) - 1):
            made = reader.graph.mul(made, tensor, name=node.name if place == power - 2 else f"{node.name} {place + 2}")
        return _like(first, made)
    roots = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if power not in roots:
        raise UnsupportedError(node.name, "exponent", f"is {power}, expected 2, 3, 4, 0.5, -0.5 or -1")
    return _of_operands(roots[power])(reader, node, x)


def _gelu(reader: Any, node: Any, x: Any, approximate: str = "none") -> Made:
    return _of_operands("gelu_approx_tanh" if approximate == "tanh" else "gelu")(reader, node, x)


def _axes(reader: Any, node: Any, x: Any, axes: Any) -> tuple[Any, Tensor, list[int]]:
    """A tensor and the axes of the graph that are PyTorch's."""
    value = reader.value(x)
    if isinstance(value, Reduced) or isinstance(value, Flat) and any(dim != 1 for dim in _dims(value.tensor)[2:]):
        raise _odd(node, "its operand lost dimensions, expected keepdim")
    tensor = reader.tensor(x)
    rank = 2 if isinstance(value, Flat) else len(_dims(tensor))
    if axes is None or axes == []:
        axes = range(rank)
    axes = [axes] if isinstance(axes, int) else axes
    return value, tensor, sorted(axis % rank for axis in axes)


def reduced(mode: reduction_mode) -> Callable[..., Made]:
    def call(reader: Any, node: Any, x: Any, axes: Any = None, keepdim: bool = False, **_: Any) -> Made:
        value, tensor, axes = _axes(reader, node, x, axes)
        y = reader.graph.reduction(tensor, mode, axis=axes, name=node.name)
        if keepdim:
            return _like(value, y)
        if not isinstance(value, Flat) and axes == list(range(2, len(_dims(tensor)))):
            return Flat(y)
        return Reduced(y, axes)

    return call


def _softmax(reader: Any, node: Any, x: Any, axis: int, *_: Any, logarithm: bool = False) -> Made:
    value, tensor, axes = _axes(reader, node, x, axis)
    graph, name = reader.graph, node.name
    largest = graph.reduction(tensor, reduction_mode.MAX, axis=axes, name=f"{name} maximum")
    shifted = graph.sub(tensor, largest, name=f"{name} shifted")
    weights = graph.exp(shifted, name=f"{name} exponentials")
    total = graph.reduction(weights, reduction_mode.ADD, axis=axes, name=f"{name} sum")
    if logarithm:
        return _like(value, graph.sub(shifted, graph.log(total, name=f"{name} log"), name=name))
    return _like(value, graph.div(weights, total, name=name))


def _log_softmax(reader: Any, node: Any, x: Any, axis: int, *_: Any) -> Made:
    return _softmax(reader, node, x, axis, logarithm=True)


def _layer_norm(
    reader: Any,
    node: Any,
    x: Any,
    shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    *_: Any,
) -> Tensor:
    numpy = importlib.import_module("numpy")
    value = reader.value(x)
    if not isinstance(value, Tensor):
        raise _odd(node, "its operand lost dimensions, expected keepdim")
    full = [1] * (len(_dims(value)) - len(shape)) + list(shape)
    of = [(weight, numpy.ones, "scale"), (bias, numpy.zeros, "bias")]
    made = [
        reader.constant(
            (make(full, numpy.float32) if argument is None else reader.array(reader.value(argument))).reshape(full),
            f"{node.name} {word}",
        )
        for argument, make, word in of
    ]
    y = reader.graph.layernorm(norm_forward_phase.INFERENCE, value, *made, epsilon=epsilon, name=node.name)[0]
    assert y is not None
    return y


def _matmul(reader: Any, node: Any, a: Any, b: Any) -> Tensor:
    left, right = (reader.value(argument) for argument in (a, b))
    if any(isinstance(value, (Flat, Reduced)) for value in (left, right)):
        raise _odd(node, "an operand lost dimensions, expected keepdim")
    left, right = reader.tensor(a), reader.tensor(b)
    if len(_dims(left)) != len(_dims(right)) or len(_dims(left)) < 2:
        raise _odd(node, "operands have other numbers of dimensions, expected the same, from two on")
    return reader.graph.matmul(left, right, name=node.name)


def _attention(
    reader: Any, node: Any, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, is_causal: bool = False,
    scale: float | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    if mask is not None or dropout:
        raise UnsupportedError(node.name, "attn_mask", "expected neither a mask nor dropout")
    tensors = [reader.tensor(argument) for argument in (q, k, v)]
    if any(len(_dims(tensor)) != 4 for tensor in tensors):
        raise _odd(node, "expected four dimensions")
    scale = scale if scale is not None else _dims(tensors[0])[-1] ** -0.5
    y = reader.graph.sdpa(*tensors, attn_scale=scale, use_causal_mask=is_causal, is_inference=True, name=node.name)[0]
    assert y is not None
    return y


_ONE = {
    "relu": "relu", "relu_": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "reciprocal": "reciprocal", "neg": "neg", "abs": "abs", "erf": "erf", "silu": "swish", "maximum": "max",
    "minimum": "min",
}  # fmt: skip
_TWO = {"add": "add", "sub": "sub", "mul": "mul", "div": "div"}

#: How they are translated.
CALLS: dict[str, Callable[..., Made]] = {
    **{f"{name}.default": _of_operands(method) for name, method in _ONE.items()},
    **{f"{name}{place}.Tensor": _of_operands(method) for name, method in _TWO.items() for place in ("", "_")},
    "rsub.Scalar": _turned_sub,
    "square.default": _square,
    "pow.Tensor_Scalar": _power,
    "gelu.default": _gelu,
    "mean.dim": reduced(reduction_mode.AVG),
    "mean.default": reduced(reduction_mode.AVG),
    "sum.dim_IntList": reduced(reduction_mode.ADD),
    "sum.default": reduced(reduction_mode.ADD),
    "amax.default": reduced(reduction_mode.MAX),
    "amin.default": reduced(reduction_mode.MIN),
    "softmax.int": _softmax,
    "_softmax.default": _softmax,
    "log_softmax.int": _log_softmax,
    "_log_softmax.default": _log_softmax,
    "layer_norm.default": _layer_norm,
    "matmul.default": _matmul,
    "mm.default": _matmul,
    "bmm.default": _matmul,
    "scaled_dot_product_attention.default": _attention,
}
