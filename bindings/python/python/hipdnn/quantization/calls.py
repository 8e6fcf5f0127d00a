"""PyTorch's elementwise operations, reductions, normalizations, products and attention as nodes of a graph."""

from __future__ import annotations

import importlib
import math
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
    ranks = {len(_dims(reader.tensor_of(value))) for value in shaped}
    rank = max(ranks)
    is_alike = len(ranks) == 1 and all(_form(value) == _form(first) for value in shaped)
    last = 2 if isinstance(first, Flat) else rank
    is_image = isinstance(first, Flat) and any(dim != 1 for dim in _dims(first.tensor)[2:])
    for value in values:
        if reader.is_array(value) and (
            value.numel() > 1 and (isinstance(first, Reduced) or is_image) or value.dim() > last
        ):
            is_alike = False
    operands: list[Any] = []
    for argument, value in zip(arguments, values):
        if isinstance(value, (int, float)):
            operands.append(_number(node, value))
        elif not is_alike:
            operands.append(reader.plain(argument, max(node.meta["val"].dim(), 1)))
        elif isinstance(value, (Tensor, Flat, Reduced)):
            operands.append(reader.tensor_of(value))
        else:
            array = reader.array(value)
            ones = [1] * (last - min(array.ndim, last))
            shape = [*ones, *array.shape, *[1] * (rank - last)] if array.size > 1 else [1] * rank
            operands.append(reader.constant(array.reshape(shape), argument.name))
    if is_alike:
        return operands, first
    # A graph's tensors have a dimension at least.
    return operands, None if node.meta["val"].dim() else Reduced(reader.tensor_of(shaped[0]), [0])


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
        value = reader.plain(x)
    tensor = reader.tensor_of(value)
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
        return _without(value, reader.graph.reduction(tensor, mode, axis=axes, name=node.name), axes, keepdim)

    return call


def _without(value: Made, y: Tensor, axes: Sequence[int], keepdim: bool) -> Made:
    """The reduction of a value, with or without the dimensions that have one element."""
    if keepdim:
        return like(value, y)
    rank = len(_dims(y))
    if isinstance(value, Tensor) and list(axes) == list(range(2, rank)):
        return Flat(y)
    # What it does not have any more: what its operand had lost too.
    gone = value.axes if isinstance(value, Reduced) else range(2, rank) if isinstance(value, Flat) else ()
    return Reduced(y, sorted({*gone, *axes}))


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


def _log_of_sum(reader: Any, node: Any, x: Any, axes: Any, keepdim: bool = False) -> Made:
    value, tensor, axes = _axes(reader, node, x, axes)
    graph, name = reader.graph, node.name
    largest = graph.reduction(tensor, reduction_mode.MAX, axis=axes, name=f"{name} maximum")
    weights = graph.exp(graph.sub(tensor, largest, name=f"{name} shifted"), name=f"{name} exponentials")
    total = graph.reduction(weights, reduction_mode.ADD, axis=axes, name=f"{name} sum")
    return _without(value, graph.add(graph.log(total, name=f"{name} log"), largest, name=name), axes, keepdim)


def _variance(root: bool) -> Callable[..., Made]:
    def call(
        reader: Any, node: Any, x: Any, axes: Any = None, *, correction: Any = None, keepdim: bool = False
    ) -> Made:
        value, tensor, axes = _axes(reader, node, x, axes)
        graph, name, dims = reader.graph, node.name, _dims(tensor)
        left = math.prod(dims[axis] for axis in axes) - (1 if correction is None else correction)
        if left <= 0:
            raise UnsupportedError(name, "correction", f"is {correction}, expected fewer than there are elements")
        mean = graph.reduction(tensor, reduction_mode.AVG, axis=axes, name=f"{name} mean")
        apart = graph.sub(tensor, mean, name=f"{name} differences")
        total = graph.reduction(graph.mul(apart, apart, name=f"{name} squares"), reduction_mode.ADD, axis=axes)
        y = graph.div(total, float(left), name=f"{name} variance" if root else name)
        return _without(value, graph.sqrt(y, name=name) if root else y, axes, keepdim)

    return call


def _largest(reader: Any, node: Any, x: Any, axis: int, keepdim: bool = False) -> list[Made]:
    return [reduced(reduction_mode.MAX)(reader, node, x, axis, keepdim)]


def _log_softmax(reader: Any, node: Any, x: Any, axis: int, _half_to_float: Any = None, *, dtype: Any = None) -> Made:
    del dtype
    return _softmax(reader, node, x, axis, logarithm=True)


def _factors(reader: Any, node: Any, shape: Sequence[int], of: Sequence[tuple[Any, float, str]]) -> list[Tensor]:
    """A norm's parameters; those that the module has not are a number."""
    numpy = importlib.import_module("numpy")
    made = []
    for argument, number, word in of:
        array = numpy.full(shape, number, "float32") if argument is None else reader.array(reader.value(argument))
        made.append(reader.constant(array.reshape(shape), f"{node.name} {word}"))
    return made


def _row(node: Any, y: Tensor) -> Made:
    """A result, without the dimension that a row got to be a matrix."""
    return Reduced(y, [0]) if len(_dims(y)) > node.meta["val"].dim() else y


def _layer_norm(
    reader: Any,
    node: Any,
    x: Any,
    shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    *_: Any,
) -> Made:
    value = reader.plain(x, 2)
    full = [1] * (len(_dims(value)) - len(shape)) + list(shape)
    made = _factors(reader, node, full, [(weight, 1, "scale"), (bias, 0, "bias")])
    y = reader.graph.layernorm(norm_forward_phase.INFERENCE, value, *made, epsilon=epsilon, name=node.name)[0]
    assert y is not None
    return _row(node, y)


def _rms_norm(
    reader: Any, node: Any, x: Any, shape: Sequence[int], weight: Any = None, epsilon: float | None = None
) -> Made:
    value = reader.plain(x, 2)
    full = [1] * (len(_dims(value)) - len(shape)) + list(shape)
    made = _factors(reader, node, full, [(weight, 1, "scale")])
    epsilon = 2.0**-23 if epsilon is None else epsilon
    y = reader.graph.rmsnorm(norm_forward_phase.INFERENCE, value, *made, epsilon=epsilon, name=node.name)[0]
    assert y is not None
    return _row(node, y)


def _group_norm(
    reader: Any, node: Any, x: Any, groups: int, weight: Any = None, bias: Any = None, epsilon: float = 1e-5, *_: Any
) -> Tensor:
    shape = list(node.meta["val"].shape)
    # Each group of channels is a row, and then an image again.
    rows = reader.shaped(x, [shape[0], groups, math.prod(shape[1:]) // groups])
    made = _factors(reader, node, [1, 1, _dims(rows)[-1]], [(None, 1, "ones"), (None, 0, "zeros")])
    y = reader.graph.layernorm(norm_forward_phase.INFERENCE, rows, *made, epsilon=epsilon, name=f"{node.name} rows")[0]
    assert y is not None
    y = reader.tensor_with(reader.elements.of(y, y, math.prod(shape)).reshape(shape), node.name)
    channels = [1, -1, *[1] * (len(shape) - 2)]
    for argument, method, word in ((weight, reader.graph.mul, "scale"), (bias, reader.graph.add, "bias")):
        if argument is not None:
            array = reader.array(reader.value(argument)).reshape(channels)
            y = method(y, reader.constant(array, f"{node.name} {word}"), name=f"{node.name} {word}")
    return y


def _instance_norm(
    reader: Any, node: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, is_own: bool, _: float,
    epsilon: float, *__: Any,
) -> Tensor:  # fmt: skip
    del mean, variance
    if not is_own:
        raise UnsupportedError(node.name, "use_input_stats", "is False, expected an image's own statistics")
    return _group_norm(reader, node, x, node.meta["val"].shape[1], weight, bias, epsilon)


def _matmul(reader: Any, node: Any, a: Any, b: Any) -> Made:
    shapes = [list(operand.meta["val"].shape) for operand in (a, b)]
    rank = max(2, *map(len, shapes))
    lost = [axis for axis, shape in zip((rank - 2, rank - 1), shapes) if len(shape) == 1]
    left = shapes[0] if len(shapes[0]) > 1 else [1, *shapes[0]]
    right = shapes[1] if len(shapes[1]) > 1 else [*shapes[1], 1]
    tensors = [reader.shaped(operand, [1] * (rank - len(shape)) + shape) for operand, shape in ((a, left), (b, right))]
    y = reader.graph.matmul(*tensors, name=node.name)
    return Reduced(y, lost) if lost else y


def _biased_matmul(reader: Any, node: Any, bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    rank, graph = node.meta["val"].dim(), reader.graph
    y = graph.matmul(reader.plain(a, rank), reader.plain(b, rank), name=f"{node.name} product")
    if alpha != 1:
        y = graph.mul(y, _number(node, alpha), name=f"{node.name} alpha")
    added = reader.plain(bias, rank)
    if beta != 1:
        added = graph.mul(added, _number(node, beta), name=f"{node.name} beta")
    return graph.add(y, added, name=node.name)


def _mask(reader: Any, node: Any, mask: Any, shape: Sequence[int]) -> Tensor:
    """What is added to the scores."""
    if mask.meta["val"].dtype.is_floating_point:
        return reader.shaped(mask, [1] * (len(shape) - mask.meta["val"].dim()) + list(mask.meta["val"].shape))
    numpy = importlib.import_module("numpy")
    array = reader.fact(mask).cpu().numpy()
    array = numpy.where(array, numpy.float32(0), numpy.float32("-inf")).astype("float32")
    return reader.constant(array.reshape([1] * (len(shape) - array.ndim) + list(array.shape)), mask.name)


def _attention(
    reader: Any, node: Any, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Made:  # fmt: skip
    del enable_gqa  # The shapes tell.
    if dropout:
        raise UnsupportedError(node.name, "dropout_p", f"is {dropout}, expected 0")
    lost = 4 - node.meta["val"].dim()
    if lost < 0:
        raise _odd(node, "expected four dimensions at most")
    tensors = [reader.plain(argument, 4) for argument in (q, k, v)]
    scale = scale if scale is not None else _dims(tensors[0])[-1] ** -0.5
    bias = None if mask is None else _mask(reader, node, mask, [*_dims(tensors[0])[:3], _dims(tensors[1])[2]])
    y = reader.graph.sdpa(
        *tensors, attn_scale=scale, bias=bias, use_causal_mask=is_causal, is_inference=True, name=node.name
    )[0]
    assert y is not None
    return Reduced(y, range(lost)) if lost else y


def _clamp(reader: Any, node: Any, x: Any, least: Any = None, most: Any = None) -> Made:
    [tensor], first = _operands(reader, node, [x])
    for number, method in ((least, reader.graph.max), (most, reader.graph.min)):
        if number is not None:
            tensor = method(tensor, _number(node, number), name=f"{node.name} {method.__name__}")
    return like(first, tensor)


def _hardtanh(reader: Any, node: Any, x: Any, least: float = -1, most: float = 1) -> Made:
    return _clamp(reader, node, x, least, most)


def _leaky_relu(reader: Any, node: Any, x: Any, slope: float = 0.01) -> Made:
    [tensor], first = _operands(reader, node, [x])
    return like(first, reader.graph.leaky_relu(tensor, slope, name=node.name))


def _elu(reader: Any, node: Any, x: Any, alpha: float = 1) -> Made:
    [tensor], first = _operands(reader, node, [x])
    return like(first, reader.graph.elu(tensor, alpha=_number(node, alpha), name=node.name))


def _softplus(reader: Any, node: Any, x: Any, beta: float = 1, threshold: float = 20) -> Made:
    del threshold  # Above it PyTorch takes x itself, which differs by less than its last place.
    [tensor], first = _operands(reader, node, [x])
    return like(first, reader.graph.softplus(tensor, beta=_number(node, beta), name=node.name))


def _hard(of: str) -> Callable[..., Made]:
    """x + 3 within 0 and 6, over 6; times x for hardswish."""

    def call(reader: Any, node: Any, x: Any) -> Made:
        [tensor], first = _operands(reader, node, [x])
        graph, name = reader.graph, node.name
        shifted = graph.min(graph.max(graph.add(tensor, 3.0, name=f"{name} shifted"), 0.0), 6.0)
        if of == "hardswish":
            shifted = graph.mul(tensor, shifted, name=f"{name} product")
        return like(first, graph.div(shifted, 6.0, name=name))

    return call


_ONE = {
    "relu": "relu", "relu_": "relu", "silu_": "swish", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "reciprocal": "reciprocal", "neg": "neg", "abs": "abs", "erf": "erf", "silu": "swish", "maximum": "max",
    "minimum": "min", "sin": "sin", "floor": "floor", "ceil": "ceil",
}  # fmt: skip
_TWO = {"add": "add", "sub": "sub", "mul": "mul", "div": "div"}

#: How they are translated.
CALLS: dict[str, Callable[..., Any]] = {
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
    "logsumexp.default": _log_of_sum,
    "var.correction": _variance(False),
    "std.correction": _variance(True),
    "max.dim": _largest,
    "rms_norm.default": _rms_norm,
    "instance_norm.default": _instance_norm,
    "group_norm.default": _group_norm,
    **{f"hardtanh{place}.default": _hardtanh for place in ("", "_")},
    **{f"clamp{place}.default": _clamp for place in ("", "_")},
    **{f"leaky_relu{place}.default": _leaky_relu for place in ("", "_")},
    **{f"elu{place}.default": _elu for place in ("", "_")},
    "softplus.default": _softplus,
    **{f"{of}{place}.default": _hard(of) for of in ("hardswish", "hardsigmoid") for place in ("", "_")},
    "relu6.default": lambda reader, node, x: _clamp(reader, node, x, 0, 6),
    "addmm.default": _biased_matmul,
    "baddbmm.default": _biased_matmul,
    "matmul.default": _matmul,
    "mm.default": _matmul,
    "bmm.default": _matmul,
    "scaled_dot_product_attention.default": _attention,
}
