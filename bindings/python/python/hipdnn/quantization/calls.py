"""PyTorch's elementwise operations, reductions, normalizations, products and attention as nodes of a graph."""

from __future__ import annotations

import importlib
import struct
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


def like(value: Any, tensor: Tensor) -> Made:
    """A tensor in the form of another value."""
    if isinstance(value, Reduced):
        return Reduced(tensor, value.axes)
    return Flat(tensor) if isinstance(value, Flat) else tensor


def kept_axes(value: Made, tensor: Tensor) -> list[int]:
    """The axes of the graph that are PyTorch's, in order."""
    lost = value.axes if isinstance(value, Reduced) else ()
    rank = 2 if isinstance(value, Flat) else len(_dims(tensor))
    return [axis for axis in range(rank) if axis not in lost]


def whole(reader: Any, node: Any, x: Any) -> Tensor:
    """The tensor of an operand that has PyTorch's dimensions."""
    if isinstance(reader.value(x), (Flat, Reduced)):
        raise _odd(node, "an operand lost dimensions, expected keepdim")
    return reader.tensor(x)


def _number(node: Any, number: Any) -> float:
    """A number, which has to be finite in single precision."""
    try:
        is_finite = abs(struct.unpack("f", struct.pack("f", number))[0]) < float("inf")
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise UnsupportedError(node.name, "number", f"is {number}, expected a finite one of single precision")
    return float(number)


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
            operands.append(_number(node, value))
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
    def call(reader: Any, node: Any, x: Any, *others: Any, alpha: Any = 1) -> Made:
        arguments = (x, *others)
        if alpha != 1 and isinstance(arguments[-1], (int, float)):
            arguments, alpha = (*arguments[:-1], arguments[-1] * alpha), 1
        operands, first = _operands(reader, node, arguments)
        if alpha != 1:
            operands[-1] = reader.graph.mul(operands[-1], _number(node, alpha), name=f"{node.name} alpha")
        return like(first, getattr(reader.graph, method)(*operands, name=node.name))

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
        return like(first, made)
    roots = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if power not in roots:
        raise UnsupportedError(node.name, "exponent", f"is {power}, expected 2, 3, 4, 0.5, -0.5 or -1")
    return _of_operands(roots[power])(reader, node, x)


def _gelu(reader: Any, node: Any, x: Any, approximate: str = "none") -> Made:
    return _of_operands("gelu_approx_tanh" if approximate == "tanh" else "gelu")(reader, node, x)


def _axes(reader: Any, node: Any, x: Any, axes: Any) -> tuple[Any, Tensor, list[int]]:
    """A tensor and the axes of the graph that are PyTorch's."""
    value = reader.value(x)
    if isinstance(value, Flat) and any(dim != 1 for dim in _dims(value.tensor)[2:]):
        raise _odd(node, "its operand lost dimensions, expected keepdim")
    tensor = reader.tensor(x)
    kept = kept_axes(value, tensor)
    if axes is None or axes == []:
        axes = range(len(kept))
    axes = [axes] if isinstance(axes, int) else axes
    return value, tensor, sorted(kept[axis] for axis in axes)


def reduced(mode: reduction_mode) -> Callable[..., Made]:
    def call(reader: Any, node: Any, x: Any, axes: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Made:
        # The type of each result is checked.
        del dtype
        value, tensor, axes = _axes(reader, node, x, axes)
        y = reader.graph.reduction(tensor, mode, axis=axes, name=node.name)
        if keepdim:
            return like(value, y)
        rank = len(_dims(tensor))
        if isinstance(value, Tensor) and axes == list(range(2, rank)):
            return Flat(y)
        # What it does not have any more: what its operand had lost too.
        gone = value.axes if isinstance(value, Reduced) else range(2, rank) if isinstance(value, Flat) else ()
        return Reduced(y, sorted({*gone, *axes}))

    return call


def _softmax(
    reader: Any, node: Any, x: Any, axis: int, _half_to_float: Any = None, *, dtype: Any = None, logarithm: bool = False
) -> Made:
    del dtype
    value, tensor, axes = _axes(reader, node, x, axis)
    graph, name = reader.graph, node.name
    largest = graph.reduction(tensor, reduction_mode.MAX, axis=axes, name=f"{name} maximum")
    shifted = graph.sub(tensor, largest, name=f"{name} shifted")
    weights = graph.exp(shifted, name=f"{name} exponentials")
    total = graph.reduction(weights, reduction_mode.ADD, axis=axes, name=f"{name} sum")
    if logarithm:
        return like(value, graph.sub(shifted, graph.log(total, name=f"{name} log"), name=name))
    return like(value, graph.div(weights, total, name=name))


def _log_softmax(reader: Any, node: Any, x: Any, axis: int, _half_to_float: Any = None, *, dtype: Any = None) -> Made:
    del dtype
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
    value = whole(reader, node, x)
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
    left, right = whole(reader, node, a), whole(reader, node, b)
    if len(_dims(left)) != len(_dims(right)) or len(_dims(left)) < 2:
        raise _odd(node, "operands have other numbers of dimensions, expected the same, from two on")
    return reader.graph.matmul(left, right, name=node.name)


def _attention(
    reader: Any, node: Any, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    del enable_gqa  # The shapes tell.
    if mask is not None:
        raise UnsupportedError(node.name, "attn_mask", "expected no mask")
    if dropout:
        raise UnsupportedError(node.name, "dropout_p", f"is {dropout}, expected 0")
    tensors = [whole(reader, node, argument) for argument in (q, k, v)]
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
