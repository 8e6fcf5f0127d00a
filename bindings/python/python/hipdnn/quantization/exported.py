"""PyTorch modules as graphs, by way of ``torch.export``."""

from __future__ import annotations

import importlib
import inspect
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..errors import ArgumentError, UnsupportedError
from ..graph import Graph
from ..tensor import Tensor
from .calls import CALLS, Flat, Made, Reduced, kept_axes, like
from .moves import FILLS, MOVES, SAME, Elements, Moved, moved, values_of
from .windows import WINDOWS, biased

#: Single precision has all integers up to this.
_LARGEST_INTEGER = 1 << 24


def _name(node: Any) -> str:
    """The name of a call's operation."""
    return str(node.target).removeprefix("aten.")


def _list(results: Any) -> Sequence[Any]:
    return results if isinstance(results, (list, tuple)) else [results]


class _Reader:
    """Translates a module's calls to nodes."""

    def __init__(self, torch: Any, program: Any) -> None:
        self.torch, self.program = torch, program
        self.graph = Graph(type(program).__name__)
        #: What each call made: a tensor in some form, rearranged elements, an array that is known, or a list of these.
        self.of: dict[str, Any] = {}
        #: The integers among the module's inputs, and what follows from them: this graph is for them alone once a call reads them.
        self.facts: dict[str, Any] = {}
        self.has_facts = False
        #: The arrays of parameters and buffers by tensor.
        self.weights: dict[Tensor, Any] = {}
        #: The tensors of parameters and buffers by their placeholder's name.
        self.made: dict[str, Tensor] = {}
        self.elements = Elements(torch)
        #: Operations that make floats of integers.
        self.conversions = {torch.ops.aten.to.dtype, torch.ops.aten._to_copy.default}
        #: The tensors of rearranged elements that nodes read, with the numbers of the elements and the call that made them.
        self.views: dict[Tensor, tuple[Any, str]] = {}
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
        if not hasattr(argument, "name"):
            return argument
        found = self.of[argument.name]
        if not isinstance(found, Moved):
            return found
        if found.tensor is None:
            found.tensor = self.tensor_with(found.numbers, argument.name)
        # A graph's tensors have a dimension at least.
        return found.tensor if found.numbers.dim() else Reduced(found.tensor, [0])

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

    def tensor_with(self, numbers: Any, name: str) -> Tensor:
        """A tensor with the elements of these numbers: one that is there, or a view."""
        shape = list(numbers.shape) or [1]
        parts = self.elements.parts(numbers) if numbers.numel() else []
        if not parts:
            raise UnsupportedError(name, "shape", f"is {list(numbers.shape)}, expected elements")
        [(source, places, _), *others] = parts
        is_whole = not others and isinstance(source, Tensor) and list(source.dim or ()) == shape
        if is_whole and (places[1:] > places[:-1]).all():
            return source
        if not any(isinstance(source, Tensor) for source, *_ in parts):
            return self.constant(values_of(self.elements, numbers, {}).reshape(shape), name)
        view = self.graph.tensor(shape, data_type="float", name=name)
        self.views[view] = numbers, name
        return view

    def numbers(self, argument: Any) -> Any:
        """The numbers of an operand's elements, in PyTorch's shape."""
        found = self.of[argument.name]
        if isinstance(found, Moved):
            return found.numbers
        shape = argument.meta["val"].shape
        if self.is_array(found):
            array = self.array(found)
            return self.elements.of(array, argument.name, array.size).reshape(shape)
        tensor = self.tensor_of(found)
        if tensor in self.views:
            return self.views[tensor][0].reshape(shape)
        return self.elements.of(tensor, tensor, math.prod(tensor.dim or ())).reshape(shape)

    def fact(self, argument: Any) -> Any:
        """An operand whose values decide where elements are: an array, or what follows from integers of the call."""
        if argument.name in self.facts:
            self.has_facts = True
            return self.facts[argument.name]
        if not self.is_array(self.of.get(argument.name)):
            raise UnsupportedError(self.call, argument.name, "is computed from the inputs, expected known numbers")
        return self.of[argument.name]

    def shaped(self, argument: Any, shape: Sequence[int]) -> Tensor:
        """The tensor of an operand with these dimensions, and the same elements in order."""
        found = self.value(argument)
        if self.is_array(found):
            return self.constant(self.array(found).reshape(shape), argument.name)
        tensor = self.tensor_of(found)
        if list(tensor.dim or ()) == list(shape):
            return tensor
        return self.tensor_with(self.numbers(argument).reshape(list(shape)), argument.name)

    def plain(self, argument: Any, rank: int = 1) -> Tensor:
        """The tensor of an operand with PyTorch's dimensions, behind leading ones if these are fewer."""
        shape = list(argument.meta["val"].shape)
        return self.shaped(argument, [1] * (rank - len(shape)) + shape)

    def computed(self, node: Any) -> Any:
        """What PyTorch computes for a call whose operands are parameters and buffers alone; else None."""
        of = {operand.name: self.of.get(operand.name) for operand in node.all_input_nodes}
        if _name(node) in FILLS:
            zeros = lambda value: self.torch.zeros(list(value.shape), dtype=value.dtype)  # noqa: E731
            of = {operand.name: zeros(operand.meta["val"]) for operand in node.all_input_nodes}
        result = node.meta.get("val")
        is_fact = isinstance(result, self.torch.Tensor) and not result.dtype.is_floating_point
        if is_fact or node.target in self.conversions:
            of.update({name: self.facts[name] for name in of if name in self.facts})
        if not all(self.is_array(operand) for operand in of.values()):
            return None
        self.has_facts = self.has_facts or any(name in self.facts for name in of)
        # The module keeps its parameters, and random numbers are others the next time.
        is_random = self.torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if is_random or getattr(getattr(node.target, "_schema", None), "is_mutable", True):
            return None
        arguments, named = self.torch.fx.node.map_arg((node.args, node.kwargs), lambda operand: of[operand.name])
        with self.torch.no_grad():
            return node.target(*arguments, **named)

    def read(self, node: Any, kind: str) -> Any:
        """What a call of the module makes."""
        self.call = node.name
        made = self.computed(node)
        if made is not None:
            return made
        if node.target is operator.getitem:
            return self.part(*node.args)
        call = _CALLS.get(_name(node))
        if call is None:
            raise UnsupportedError(
                kind,
                node.name,
                f"is {node.target}, expected one of the {len(_CALLS)} calls that nodes or views express",
            )
        results = node.meta.get("val")
        # Of a maximum and its index, the first.
        for result in results[:1] if node.target is self.torch.ops.aten.max.dim else _list(results):
            if getattr(result, "dtype", self.torch.float32) is not self.torch.float32:
                raise UnsupportedError(node.name, "type", f"the result is {result.dtype}, expected float32")
        try:
            inspect.signature(call).bind(self, node, *node.args, **node.kwargs)
        except TypeError as error:
            raise UnsupportedError(node.name, "arguments", str(error)) from None
        return call(self, node, *node.args, **node.kwargs)

    def part(self, argument: Any, place: int) -> Any:
        """One of the results of a call."""
        made = self.of[argument.name]
        if isinstance(made, (list, tuple)) and place < len(made):
            return made[place]
        if place:
            raise UnsupportedError(argument.name, f"result {place}", "is none that a node writes")
        return made


def _linear(reader: _Reader, node: Any, x: Any, w: Any, bias: Any = None) -> Made:
    left, array = reader.tensor(x), reader.array(reader.value(w))
    value = reader.value(x)
    ranks = len(x.meta["val"].shape), len(left.dim or ())
    # A row is a matrix of one; a dimension that is lost beside others is made anew.
    if isinstance(value, Reduced) and ranks[1] - 1 in value.axes or max(ranks) == 1:
        value = left = reader.plain(x, 2)
        value = left if ranks[0] > 1 else Reduced(left, [0])
    # As two dimensions it is a product like all others.
    if isinstance(value, Flat) and len(left.dim or ()) > 2:
        # A filter that covers the whole image.
        image = list(left.dim or ())[1:]
        weight = reader.constant(array.reshape([array.shape[0], *image]), w.name)
        y = reader.graph.conv_fprop(left, weight, name=node.name)
        return Flat(biased(reader, node, y, bias, [1, -1, *[1] * (len(image) - 1)]))
    rank = max(len(left.dim or ()), 2)
    # Stored as [out, in]: matmul reads it transposed.
    right = reader.constant(array.T.copy().reshape([1] * (rank - 2) + [array.shape[1], array.shape[0]]), w.name)
    y = reader.graph.matmul(left, right, name=node.name)
    return like(value, biased(reader, node, y, bias, [1] * (rank - 1) + [-1]))


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


def _flatten(reader: _Reader, node: Any, x: Any, *_: Any) -> Any:
    shape, value = list(node.meta["val"].shape), reader.of[x.name]
    # A graph that keeps the dimensions needs no view.
    if isinstance(value, (Tensor, Flat, Reduced)):
        tensor = reader.tensor_of(value)
        dims = tensor.dim or ()
        if len(shape) == 2 and len(dims) > 1 and shape[0] == dims[0] and tensor not in reader.views:
            return Flat(tensor)
    return moved(reader, node, _name(node))


def _dropout(reader: _Reader, node: Any, x: Any, probability: float = 0.5, train: bool = False) -> Made:
    if train and probability:
        raise UnsupportedError(node.name, "train", "is True, expected a module in evaluation")
    return reader.value(x)


def _same(reader: _Reader, node: Any, x: Any, *_: Any, **__: Any) -> Any:
    if x.meta["val"].dtype is not reader.torch.float32:
        raise UnsupportedError(node.name, "type", f"its operand is {x.meta['val'].dtype}, expected float32")
    return reader.of[x.name]


def _moved(reader: _Reader, node: Any, *_: Any, **__: Any) -> Any:
    return moved(reader, node, _name(node))


#: How each PyTorch operation is translated.
_CALLS: dict[str, Callable[..., Any]] = {
    **CALLS,
    **WINDOWS,
    **dict.fromkeys(MOVES, _moved),
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints"), _flatten),
    "linear.default": _linear,
    "batch_norm.default": _batch_norm,
    "_native_batch_norm_legit_no_training.default": _batch_norm,
    "dropout.default": _dropout,
    "_assert_tensor_metadata.default": lambda *_, **__: None,
}


class Exported:
    """A module as a graph, for the arrays of a call."""

    def __init__(self, module: Any, samples: Sequence[Any]) -> None:
        torch = _torch(module)
        calls = _calls(torch, samples)
        with torch.no_grad():
            program = torch.export.export(module.eval(), tuple(calls[0]))
            if _changes_what_is_read(program):
                program = program.run_decompositions({})
            program = _decomposed(torch, program)
        reader = self.reader = _Reader(torch, program)
        self.graph, self.weights = reader.graph, reader.weights
        self.graph.name = type(module).__name__
        signature = program.graph_signature
        known = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        held = {**dict(program.named_parameters()), **dict(program.named_buffers()), **program.constants}
        given: list[Tensor] = []
        #: The module's results: calls, parameters or inputs.
        self.results: list[Any] = []
        live = _live(program)
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in known:
                reader.of[node.name] = held[known[node.name]]
            elif node.op == "placeholder":
                array = calls[0][len(given)]
                if not array.dtype.is_floating_point:
                    reader.facts[node.name] = array
                made = reader.graph.tensor(list(array.shape) or [1], data_type="float", name=node.name)
                reader.of[node.name] = made if array.dim() else Reduced(made, [0])
                given.append(made)
            elif node.op == "call_function" and node in live:
                reader.of[node.name] = reader.read(node, type(module).__name__)
                if (
                    node.name in reader.of
                    and not getattr(node.meta.get("val"), "dtype", torch.float32).is_floating_point
                ):
                    reader.facts[node.name] = reader.of[node.name]
            elif node.op == "output":
                names = set(signature.user_outputs)
                self.results = [of for of in node.args[0] if getattr(of, "name", None) in names]
        self.inputs, self.calls = given, calls

    def arrays(self, call: Sequence[Any]) -> dict[Tensor, Any]:
        """The arrays of a call."""
        made = {tensor: self.reader.checked(array, tensor.name, "an input") for tensor, array in zip(self.inputs, call)}
        # A graph's tensors have a dimension at least.
        return {tensor: array if array.ndim else array.reshape(1) for tensor, array in made.items()}


def _torch(module: Any) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        torch = None
    if torch is None or not isinstance(module, torch.nn.Module):
        raise ArgumentError(f"the model is {type(module).__name__}, expected a Graph or a torch.nn.Module")
    return torch


def _calls(torch: Any, samples: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """The arrays of each call."""
    calls = [sample if isinstance(sample, (list, tuple)) else (sample,) for sample in samples]
    if not calls:
        raise ArgumentError("there are no samples, expected at least one")
    for call in calls:
        others = [type(array).__name__ for array in call if not isinstance(array, torch.Tensor)]
        if others or len(call) != len(calls[0]):
            raise ArgumentError(f"a sample has {others or len(call)}, expected {len(calls[0])} of PyTorch's tensors")
    return calls


def _live(program: Any) -> set[Any]:
    """What the results depend on: of what the others compute, nothing is seen."""
    live: set[Any] = set()
    for node in reversed(program.graph.nodes):
        if node.op == "output" or node in live:
            live.update(node.all_input_nodes)
    return live


def _decomposed(torch: Any, program: Any) -> Any:
    """A program in which PyTorch has replaced calls that have no node by those that they consist of."""
    calls = [node for node in _live(program) if node.op == "call_function"]
    unknown = {node.target for node in calls if _name(node) not in _CALLS and node.target is not operator.getitem}
    all_of = torch.export.default_decompositions() if unknown else {}
    table = {target: all_of[target] for target in unknown if target in all_of}
    return program.run_decompositions(table) if table else program


def _changes_what_is_read(program: Any) -> bool:
    """Whether a call writes to memory that others read, too: PyTorch then has a form of the program without that."""
    for node in program.graph.nodes:
        is_call = node.op == "call_function"
        if is_call and getattr(getattr(node.target, "_schema", None), "is_mutable", False) and node.all_input_nodes:
            own = node.all_input_nodes[0]
            if len(own.users) > 1 or _name(own) in (MOVES.keys() | SAME):
                return True
    return False


def graph_of_module(
    module: Any, samples: Sequence[Any]
) -> tuple[Graph, Mapping[Tensor, Any], list[Any], dict[Tensor, tuple[int, ...]]]:
    """A module as one graph, its weights as arrays, the samples as NumPy arrays, and the shapes of the results."""
    exported = Exported(module, samples)
    reader = exported.reader
    read = {tensor for node in exported.graph._nodes for _, tensor in node.read()}
    for view, (_, name) in reader.views.items():
        if view in read:
            raise UnsupportedError(
                type(module).__name__, name, "rearranges elements between nodes, expected what one graph computes"
            )
    if reader.has_facts:
        raise UnsupportedError(type(module).__name__, "inputs", "are indices, expected what is computed with")
    shapes: dict[Tensor, tuple[int, ...]] = {}
    for result in exported.results:
        made = reader.of[result.name]
        is_one = isinstance(made, (Tensor, Flat, Reduced))
        tensor = reader.tensor_of(made) if is_one else None
        if tensor is None or tensor.producer is None or tensor in shapes:
            raise UnsupportedError(
                type(module).__name__, result.name, "is returned, expected results of nodes, each once"
            )
        shapes[tensor.set_output(True)] = tuple(result.meta["val"].shape)
    arrays = []
    for call in exported.calls:
        # The graph's inputs are those that a node reads.
        arrays.append(tuple(array for tensor, array in exported.arrays(call).items() if tensor in read))
    return exported.graph, exported.weights, arrays, shapes
