"""Quantized networks, calibrated with samples."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..errors import ArgumentError
from ..graph import Graph
from ..node import Node
from ..tensor import Tensor
from ..types import data_type
from . import report
from .observe import Range
from .recipe import Recipe, to_recipe
from .rewrite import LAYERS, Copy, Rewriter, layers_of

#: The number of samples used to measure the errors of layers.
_COMPARED = 4

_KINDS = {data_type.DOUBLE: "float64", data_type.INT8: "int8", data_type.INT32: "int32", data_type.INT64: "int64"}


class Quantized:
    """A quantized network, called with the inputs of the original graph; it returns the same results."""

    def __init__(
        self,
        graph: Graph,
        constants: Mapping[Tensor, Any],
        inputs: Sequence[Tensor],
        layers: list[report.Layer],
        shapes: Mapping[Tensor, tuple[int, ...]],
    ) -> None:
        #: The graph of the network.
        self.graph = graph
        #: The arrays of its constant tensors: weights and scales. 4-bit weights are packed two to a byte.
        self.constants = dict(constants)
        #: The inputs of each call.
        self.inputs = list(inputs)
        #: The error of each layer.
        self.layers = layers
        self._shapes = dict(shapes)

    def __call__(self, *arrays: Any) -> Any:
        if len(arrays) != len(self.inputs):
            raise ArgumentError(f"{len(arrays)} arrays, expected {len(self.inputs)}")
        if any(hasattr(array, "detach") for array in arrays):
            arrays = tuple(array.detach().cpu().numpy() if hasattr(array, "detach") else array for array in arrays)
        results = _execute(_numpy(), self.graph, {**self.constants, **dict(zip(self.inputs, arrays))})
        found = [array.reshape(self._shapes.get(tensor, array.shape)) for tensor, array in results.items()]
        return found[0] if len(found) == 1 else tuple(found)

    def table(self) -> str:
        """The errors layer by layer, as text."""
        return report.text(self.layers)

    def svg(self) -> str:
        """The errors layer by layer, as a picture."""
        return report.svg(self.graph.name, self.layers)

    def _repr_svg_(self) -> str:
        """The picture shown by a notebook."""
        return self.svg()

    def __repr__(self) -> str:
        return f"<Quantized {self.graph.name!r}: {len(self.layers)} layers>"


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        raise ArgumentError("quantization needs the package numpy") from None


def _room(numpy: Any, tensor: Tensor) -> Any:
    """An array with a tensor's layout."""
    dim, stride = tensor.dim or (), tensor.stride or ()
    order = sorted(range(len(dim)), key=lambda axis: (-stride[axis], axis))
    back = sorted(range(len(dim)), key=order.__getitem__)
    kind = _KINDS.get(tensor.data_type, "float32")
    return numpy.empty([dim[axis] for axis in order], kind).transpose(back)


def _watched(
    graph: Graph, tensors: Sequence[Tensor], rewriter: Copy | None = None
) -> tuple[Graph, dict[Tensor, Tensor]]:
    """A copy of a graph, or a rewriter's version of it, that also outputs these tensors."""
    if rewriter is None:
        rewriter = Copy(graph, graph.name)
        for node in graph._nodes:
            rewriter.node(node)
    made = rewriter.finish()
    for tensor in tensors:
        if tensor.producer is not None:
            rewriter.of[tensor].set_output(True)
            if rewriter.of[tensor].data_type is data_type.NOT_SET:
                rewriter.of[tensor].set_data_type(data_type.FLOAT)
    made._finish()
    return made, rewriter.of


def _execute(numpy: Any, graph: Graph, given: Mapping[Tensor, Any]) -> dict[Tensor, Any]:
    results = {tensor: _room(numpy, tensor) for tensor in graph._outputs}
    graph.execute({**given, **results})
    return results


def _made(
    numpy: Any,
    graph: Graph,
    recipe: Recipe,
    weights: Mapping[Tensor, Any],
    found: Mapping[Tensor, float],
    layers: Sequence[Node],
) -> Rewriter:
    """A graph with these layers quantized."""
    rewriter = Rewriter(numpy, graph, recipe, weights, found)
    for node in graph._nodes:
        if node in layers:
            rewriter.layer(node)
        else:
            rewriter.node(node)
    for tensor, array in weights.items():
        if tensor in rewriter.of:
            rewriter.constants.setdefault(rewriter.of[tensor], array)
    return rewriter


def quantize_graph(
    graph: Graph,
    weights: Mapping[Tensor, Any],
    samples: Sequence[Any],
    recipe: str | Recipe,
    layers: Callable[[str], bool] | Sequence[str] | None,
    shapes: Mapping[Tensor, tuple[int, ...]] | None = None,
) -> Quantized:
    """The quantized form of a graph with these weights; samples are its other inputs."""
    numpy, recipe = _numpy(), to_recipe(recipe)
    graph.validate()
    unknown = [tensor for tensor in weights if tensor not in graph._inputs]
    if unknown:
        raise ArgumentError(f"weights has {unknown[0]!r}, expected inputs of the graph")
    inputs = [tensor for tensor in graph._inputs if tensor not in weights]
    names = {node.name for node in graph._nodes}
    if layers is not None and not callable(layers) and not set(layers) <= names:
        raise ArgumentError(f"layers has {sorted(set(layers) - names)}, expected some of {sorted(names)}")
    chosen = layers if callable(layers) else (lambda name: layers is None or name in layers)
    nodes = layers_of(graph, weights, chosen)
    if not nodes:
        raise ArgumentError("no layer can be quantized: expected convolutions or products with weights among these")
    feeds = [_feed(sample, inputs) for sample in samples]
    if not feeds:
        raise ArgumentError("there are no samples, expected at least one")
    read = list(dict.fromkeys(node.inputs[LAYERS[node.kind][0]] for node in nodes))
    written = [node.outputs[LAYERS[node.kind][2]] for node in nodes]
    whole, of = _watched(graph, [*(t for t in read if t is not None), *written])
    ranges = {tensor: Range() for tensor in read if tensor is not None}
    right: list[dict[Tensor, Any]] = []
    fixed = {of[tensor]: array for tensor, array in weights.items() if tensor in of}
    for feed in feeds:
        found = _execute(numpy, whole, {**fixed, **{of[tensor]: array for tensor, array in feed.items()}})
        for tensor, values in ranges.items():
            values.add(numpy, feed[tensor] if tensor in feed else found[of[tensor]], len(feeds))
        if len(right) < _COMPARED:
            right.append({tensor: found[of[tensor]] for tensor in written})
    kind = recipe.activations
    scales = (
        {tensor: values.scale(numpy, kind, recipe) for tensor, values in ranges.items()} if kind is not None else {}
    )
    together = _errors(numpy, graph, _made(numpy, graph, recipe, weights, scales, nodes), nodes, feeds, right)
    table = []
    for node in nodes:
        alone = _errors(numpy, graph, _made(numpy, graph, recipe, weights, scales, [node]), [node], feeds[:1], right)
        x = node.inputs[LAYERS[node.kind][0]]
        assert x is not None
        sqnr, worst = together[node.name]
        table.append(
            report.Layer(
                node.name,
                node.kind.removesuffix("Attributes"),
                scales.get(x),
                ranges[x].amax,
                sqnr,
                worst,
                alone[node.name][0],
            )
        )
    rewriter = _made(numpy, graph, recipe, weights, scales, nodes)
    made = rewriter.finish()
    of_result = {rewriter.of[tensor]: shape for tensor, shape in (shapes or {}).items()}
    return Quantized(made, rewriter.constants, [rewriter.of[tensor] for tensor in inputs], table, of_result)


def _feed(sample: Any, inputs: Sequence[Tensor]) -> dict[Tensor, Any]:
    """The arrays of a sample, by tensor."""
    if isinstance(sample, Mapping):
        if set(sample) != set(inputs):
            raise ArgumentError(
                f"a sample has {len(sample)} arrays, expected one for each of {[t.name or t.uid for t in inputs]}"
            )
        return dict(sample)
    arrays = sample if isinstance(sample, (list, tuple)) else (sample,)
    if len(arrays) != len(inputs):
        raise ArgumentError(f"a sample has {len(arrays)} arrays, expected {len(inputs)}")
    return dict(zip(inputs, arrays))


def _errors(
    numpy: Any,
    graph: Graph,
    rewriter: Rewriter,
    nodes: Sequence[Node],
    feeds: Sequence[Mapping[Tensor, Any]],
    right: Sequence[Mapping[Tensor, Any]],
) -> dict[str, tuple[float, float]]:
    """The signal-to-error ratio in decibels of each layer's result, and its largest error."""
    written = {node.name: node.outputs[LAYERS[node.kind][2]] for node in nodes}
    made, of = _watched(graph, list(written.values()), rewriter)
    pairs: dict[str, list[tuple[Any, Any]]] = {name: [] for name in written}
    for feed, expected in zip(feeds, right):
        found = _execute(numpy, made, {**rewriter.constants, **{of[tensor]: array for tensor, array in feed.items()}})
        for name, tensor in written.items():
            pairs[name].append((expected[tensor].ravel(), found[of[tensor]].ravel()))
    joined = {name: [numpy.concatenate(part) for part in zip(*of_layer)] for name, of_layer in pairs.items()}
    return {name: report.ratio(numpy, *both) for name, both in joined.items()}
