"""PyTorch modules as graphs, by way of ``torch.export``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..errors import ArgumentError, UnsupportedError
from ..graph import Graph
from ..tensor import Tensor
from ..types import padding_mode, reduction_mode, resample_mode
from .calls import CALLS, Flat, Made, Reduced, kept_axes, like, reduced, whole

#: Single precision has all integers up to this.
_LARGEST_INTEGER = 1 << 24


class _Reader:
    """Translates a module's calls to nodes."""

    def __init__(self, torch: Any, program: Any) -> None:
        self.torch, self.program = torch, program
        self.graph = Graph(type(program).__name__)
        self.of: dict[str, Any] = {}
        #: The arrays of parameters and buffers by tensor.
        self.weights: dict[Tensor, Any] = {}
        #: The tensors of parameters and buffers by their placeholder's name.
        self.made: dict[str, Tensor] = {}
        #: The name of the call that is translated.
        self.call = ""

    def is_array(self, value: Any) -> bool:
        """Whether a value is known without the module's inputs."""
        return isinstance(value, self.torch.Tensor)

    def array(self, value: Any) -> Any:
        if not self.is_array(value):
            raise UnsupportedError(self.call, "weight", "is computed from the inputs, expected a parameter or a buffer")
        return self.checked(value, self.call, "a parameter")

    def checked(self, value: Any, where: str, what: str) -> Any:
        """The NumPy array of a PyTorch tensor; what is computed in other types has other results."""
        is_integer = not (value.dtype.is_floating_point or value.dtype.is_complex)
        if not is_integer and value.dtype is not self.torch.float32:
            raise UnsupportedError(where, "type", f"{what} is {value.dtype}, expected float32 or integers")
        if is_integer and value.numel() and max(int(value.max()), -int(value.min())) > _LARGEST_INTEGER:
            raise UnsupportedError(where, "type", f"{what} has integers of more than 24 bits, expected smaller ones")
        return value.detach().cpu().float().contiguous().numpy()

    def constant(self, array: Any, name: str) -> Tensor:
        """A tensor for a constant array."""
        tensor = self.graph.tensor(list(array.shape), data_type="float", name=name)
        self.weights[tensor] = array
        return tensor

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
        name = getattr(argument, "name", "")
        if name not in self.made:
            self.made[name] = self.constant(self.array(found), name)
        return self.made[name]

    def computed(self, node: Any) -> Any:
        """What PyTorch computes for a call whose operands are parameters and buffers alone; else None."""
        operands = [self.of.get(operand.name) for operand in node.all_input_nodes]
        if not operands or not all(self.is_array(operand) for operand in operands):
            return None
        # The module keeps its parameters, and random numbers are others the next time.
        is_random = self.torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if is_random or getattr(getattr(node.target, "_schema", None), "is_mutable", True):
            return None
        arguments, named = self.torch.fx.node.map_arg((node.args, node.kwargs), lambda operand: self.of[operand.name])
        with self.torch.no_grad():
            return node.target(*arguments, **named)

    def read(self, node: Any, kind: str) -> Any:
        """What a call of the module makes."""
        self.call = node.name
        made = self.computed(node)
        if made is not None:
            return made
        call = _CALLS.get(str(node.target).removeprefix("aten."))
        if call is None:
            raise UnsupportedError(kind, node.name, f"is {node.target}, expected one of {', '.join(_CALLS)}")
        result = getattr(node.meta.get("val"), "dtype", self.torch.float32)
        if result is not self.torch.float32:
            raise UnsupportedError(node.name, "type", f"the result is {result}, expected float32")
        try:
            inspect.signature(call).bind(self, node, *node.args, **node.kwargs)
        except TypeError as error:
            raise UnsupportedError(node.name, "arguments", str(error)) from None
        return call(self, node, *node.args, **node.kwargs)


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
        whole(reader, node, x), reader.tensor(w), two(padding), two(stride), two(dilation), name=node.name
    )
    return _biased(reader, node, y, bias, [1, -1, 1, 1])


def _biased(reader: _Reader, node: Any, y: Tensor, bias: Any, shape: Sequence[int]) -> Tensor:
    if bias is None:
        return y
    array = reader.array(reader.value(bias)).reshape(shape)
    return reader.graph.add(y, reader.constant(array, bias.name), name=f"{node.name} bias")


def _linear(reader: _Reader, node: Any, x: Any, w: Any, bias: Any = None) -> Made:
    left, array = reader.tensor(x), reader.array(reader.value(w))
    value = reader.value(x)
    # As two dimensions it is a product like all others.
    if isinstance(value, Flat) and len(left.dim or ()) > 2:
        # A filter that covers the whole image.
        image = list(left.dim or ())[1:]
        weight = reader.constant(array.reshape([array.shape[0], *image]), w.name)
        y = reader.graph.conv_fprop(left, weight, name=node.name)
        return Flat(_biased(reader, node, y, bias, [1, -1, *[1] * (len(image) - 1)]))
    rank = max(len(left.dim or ()), 2)
    if isinstance(value, Reduced) and rank - 1 in value.axes:
        raise UnsupportedError(node.name, "shape", "its operand lost its last dimension, expected keepdim")
    # Stored as [out, in]: matmul reads it transposed.
    right = reader.constant(array.T.copy().reshape([1] * (rank - 2) + [array.shape[1], array.shape[0]]), w.name)
    y = reader.graph.matmul(left, right, name=node.name)
    return like(value, _biased(reader, node, y, bias, [1] * (rank - 1) + [-1]))


def _batch_norm(
    reader: _Reader, node: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any
) -> Made:
    epsilon = next((value for value in reversed(rest) if isinstance(value, float)), 1e-5)
    if any(value is True for value in rest[:1]):
        raise UnsupportedError(node.name, "training", "is True, expected a module in evaluation")
    numpy = importlib.import_module("numpy")
    array = lambda argument: reader.array(reader.value(argument))  # noqa: E731
    scale = (1 if weight is None else array(weight)) / numpy.sqrt(array(variance) + numpy.float32(epsilon))
    shift = (0 if bias is None else array(bias)) - array(mean) * scale
    value, tensor = reader.value(x), reader.tensor(x)
    dims = list(tensor.dim or ())
    # Features of a flat image are the elements of all its other dimensions.
    channel = kept_axes(value, tensor)[1]
    shape = [1, *dims[1:]] if isinstance(value, Flat) else [-1 if axis == channel else 1 for axis in range(len(dims))]
    scaled = reader.graph.mul(
        tensor, reader.constant(scale.reshape(shape), f"{node.name} scale"), name=f"{node.name} scaled"
    )
    shifted = reader.graph.add(scaled, reader.constant(shift.reshape(shape), f"{node.name} shift"), name=node.name)
    return like(value, shifted)


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
        whole(reader, node, x), resample_mode.MAXPOOL, padding_mode.NEG_INF_PAD, size, two(stride) if stride else size,
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


def _dropout(reader: _Reader, node: Any, x: Any, probability: float = 0.5, train: bool = False) -> Made:
    if train and probability:
        raise UnsupportedError(node.name, "train", "is True, expected a module in evaluation")
    return reader.value(x)


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
    "dropout.default": _dropout,
    "detach_.default": lambda reader, node, x: reader.value(x),
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
    for call in calls:
        others = [type(array).__name__ for array in call if not isinstance(array, torch.Tensor)]
        if others or len(call) != len(calls[0]):
            raise ArgumentError(f"a sample has {others or len(call)}, expected {len(calls[0])} of PyTorch's tensors")
    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(calls[0]))
    reader = _Reader(torch, program)
    shapes: dict[Tensor, tuple[int, ...]] = {}
    reader.graph.name = type(module).__name__
    signature = program.graph_signature
    known = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    held = {**dict(program.named_parameters()), **dict(program.named_buffers()), **program.constants}
    given: list[Tensor] = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in known:
                reader.of[node.name] = held[known[node.name]]
            else:
                made = reader.graph.tensor(list(node.meta["val"].shape), data_type="float", name=node.name)
                reader.of[node.name] = made
                given.append(made)
        elif node.op == "call_function":
            reader.of[node.name] = reader.read(node, type(module).__name__)
        elif node.op == "output":
            for result in node.args[0]:
                shapes[reader.tensor(result).set_output(True)] = tuple(result.meta["val"].shape)
    # The graph's inputs are those that a node reads.
    read = {tensor for node in reader.graph._nodes for _, tensor in node.read()}
    arrays = [
        tuple(reader.checked(array, tensor.name, "an input") for tensor, array in zip(given, call) if tensor in read)
        for call in calls
    ]
    return reader.graph, reader.weights, arrays, shapes
