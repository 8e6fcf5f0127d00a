"""PyTorch modules as graphs, by way of ``torch.export``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..errors import ArgumentError, UnsupportedError
from ..graph import Graph
from ..tensor import Tensor
from ..types import padding_mode, reduction_mode, resample_mode
from .calls import CALLS, Flat, Made, Reduced, reduced


class _Reader:
    """Translates a module's calls to nodes."""

    def __init__(self, torch: Any, program: Any) -> None:
        self.torch, self.program = torch, program
        self.graph = Graph(type(program).__name__)
        self.of: dict[str, Any] = {}
        #: The arrays of parameters and buffers by tensor.
        self.weights: dict[Tensor, Any] = {}

    def array(self, value: Any) -> Any:
        return value.detach().cpu().float().numpy()

    def constant(self, array: Any, name: str) -> Tensor:
        """A tensor for a constant array."""
        tensor = self.graph.tensor(list(array.shape), data_type="float", name=name)
        self.weights[tensor] = array
        return tensor

    def parameter(self, name: str) -> Any:
        """The array of a parameter or buffer, by its placeholder's name."""
        return self.array(self.of[name])

    def value(self, argument: Any) -> Any:
        """The tensor, array or number for an argument of a call."""
        return self.of[argument.name] if hasattr(argument, "name") else argument

    def tensor_of(self, made: Made) -> Tensor:
        """The tensor of what a call made."""
        return made if isinstance(made, Tensor) else made.tensor

    def tensor(self, argument: Any) -> Tensor:
        """The same as a tensor of the graph."""
        found = self.value(argument)
        if isinstance(found, (Tensor, Flat, Reduced)):
            return self.tensor_of(found)
        made = self.constant(self.array(found), getattr(argument, "name", ""))
        self.of[argument.name] = made
        return made


def _conv2d(
    reader: _Reader,
    node: Any,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    if isinstance(padding, str):
        raise UnsupportedError(node.name, "padding", f"is {padding!r}, expected numbers")
    two = lambda value: [value] * 2 if isinstance(value, int) else list(value) * (2 // len(value))  # noqa: E731
    y = reader.graph.conv_fprop(
        reader.tensor(x), reader.tensor(w), two(padding), two(stride), two(dilation), name=node.name
    )
    return _biased(reader, node, y, bias, [1, -1, 1, 1])


def _biased(reader: _Reader, node: Any, y: Tensor, bias: Any, shape: Sequence[int]) -> Tensor:
    if bias is None:
        return y
    array = reader.array(reader.value(bias)).reshape(shape)
    return reader.graph.add(y, reader.constant(array, bias.name), name=f"{node.name} bias")


def _linear(reader: _Reader, node: Any, x: Any, w: Any, bias: Any = None) -> Tensor | Flat:
    left, array = reader.tensor(x), reader.array(reader.value(w))
    if isinstance(reader.value(x), Flat):
        # A filter that covers the whole image.
        image = list(left.dim or ())[1:]
        weight = reader.constant(array.reshape([array.shape[0], *image]), w.name)
        y = reader.graph.conv_fprop(left, weight, name=node.name)
        return Flat(_biased(reader, node, y, bias, [1, -1, *[1] * (len(image) - 1)]))
    rank = max(len(left.dim or ()), 2)
    # Stored as [out, in]: matmul reads it transposed.
    right = reader.constant(array.T.copy().reshape([1] * (rank - 2) + [array.shape[1], array.shape[0]]), w.name)
    y = reader.graph.matmul(left, right, name=node.name)
    return _biased(reader, node, y, bias, [1] * (rank - 1) + [-1])


def _batch_norm(
    reader: _Reader, node: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any
) -> Tensor:
    epsilon = next((value for value in reversed(rest) if isinstance(value, float)), 1e-5)
    if any(value is True for value in rest[:1]):
        raise UnsupportedError(node.name, "training", "is True, expected a module in evaluation")
    numpy = importlib.import_module("numpy")
    array = lambda argument: reader.array(reader.value(argument))  # noqa: E731
    scale = array(weight) / numpy.sqrt(array(variance) + epsilon)
    shift = array(bias) - array(mean) * scale
    shape = [1, -1, *[1] * (len(reader.tensor(x).dim or ()) - 2)]
    scaled = reader.graph.mul(
        reader.tensor(x), reader.constant(scale.reshape(shape), f"{node.name} scale"), name=f"{node.name} scaled"
    )
    return reader.graph.add(scaled, reader.constant(shift.reshape(shape), f"{node.name} shift"), name=node.name)


def _max_pool(
    reader: _Reader,
    node: Any,
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    two = lambda value: [value] * 2 if isinstance(value, int) else list(value) * (2 // len(value))  # noqa: E731
    if two(dilation) != [1, 1] or ceil_mode:
        raise UnsupportedError(node.name, "dilation", "expected 1, and sizes that are rounded down")
    size = two(kernel)
    pooled, _ = reader.graph.resample(
        reader.tensor(x), resample_mode.MAXPOOL, padding_mode.NEG_INF_PAD, size, two(stride) if stride else size,
        two(padding), two(padding), name=node.name,
    )  # fmt: skip
    assert pooled is not None
    return pooled


def _flatten(reader: _Reader, node: Any, x: Any, *_: Any) -> Flat:
    tensor, shape = reader.tensor(x), list(node.meta["val"].shape)
    if len(shape) != 2 or not tensor.dim or shape[0] != tensor.dim[0]:
        raise UnsupportedError(node.name, "shape", f"is {shape}, expected the batch and all else")
    return Flat(tensor)


def _pooled(reader: _Reader, node: Any, x: Any, size: Any) -> Made:
    if [size, size] != [1, 1] and list(size) != [1, 1]:
        raise UnsupportedError(node.name, "output_size", f"is {size}, expected 1")
    return reduced(reduction_mode.AVG)(reader, node, x, (-2, -1), True)


#: How each PyTorch operation is translated.
_CALLS: dict[str, Callable[..., Made]] = {
    **CALLS,
    "conv2d.default": _conv2d,
    "linear.default": _linear,
    "batch_norm.default": _batch_norm,
    "_native_batch_norm_legit_no_training.default": _batch_norm,
    "max_pool2d.default": _max_pool,
    "adaptive_avg_pool2d.default": _pooled,
    "flatten.using_ints": _flatten,
    "view.default": _flatten,
    "reshape.default": _flatten,
    "dropout.default": lambda reader, node, x, *_: reader.value(x),
}


def graph_of_module(
    module: Any, samples: Sequence[Any]
) -> tuple[Graph, Mapping[Tensor, Any], list[Any], dict[Tensor, tuple[int, ...]]]:
    """A module as a graph, its weights as arrays, the samples as NumPy arrays, and the shapes of the results."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        torch = None
    if torch is None or not isinstance(module, torch.nn.Module):
        raise ArgumentError(f"the model is {type(module).__name__}, expected a Graph or a torch.nn.Module")
    calls = [sample if isinstance(sample, (list, tuple)) else (sample,) for sample in samples]
    if not calls:
        raise ArgumentError("there are no samples, expected at least one")
    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(calls[0]))
    reader = _Reader(torch, program)
    shapes: dict[Tensor, tuple[int, ...]] = {}
    reader.graph.name = type(module).__name__
    parameters = {**program.graph_signature.inputs_to_parameters, **program.graph_signature.inputs_to_buffers}
    held = {**dict(program.named_parameters()), **dict(program.named_buffers())}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in parameters:
                reader.of[node.name] = held[parameters[node.name]]
            else:
                reader.of[node.name] = reader.graph.tensor(
                    list(node.meta["val"].shape), data_type="float", name=node.name
                )
        elif node.op == "call_function":
            name = str(node.target).removeprefix("aten.")
            call = _CALLS.get(name)
            if call is None:
                raise UnsupportedError(
                    type(module).__name__, node.name, f"is {node.target}, expected one of {', '.join(_CALLS)}"
                )
            reader.of[node.name] = call(reader, node, *node.args, **node.kwargs)
        elif node.op == "output":
            for result in node.args[0]:
                shapes[reader.tensor(result).set_output(True)] = tuple(result.meta["val"].shape)
    arrays = [tuple(array.detach().cpu().float().numpy() for array in call) for call in calls]
    return reader.graph, reader.weights, arrays, shapes
