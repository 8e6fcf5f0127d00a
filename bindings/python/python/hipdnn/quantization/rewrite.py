"""A copy of a graph with quantized convolutions and matmuls."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Callable

from ..errors import ArgumentError
from ..graph import Graph
from ..node import Node
from ..tensor import Tensor
from ..types import data_type
from .observe import rounded, scales
from .recipe import Recipe

#: The quantized operations: input, weights, output, and the axis of the weights that is the output channels.
LAYERS = {"ConvolutionFwdAttributes": ("x", "w", "y", 0), "MatmulAttributes": ("a", "b", "c", -1)}

#: The names in ml_dtypes of types that NumPy lacks.
_EXTENDED = {data_type.FP8_E4M3: "float8_e4m3fn", data_type.FP8_E5M2: "float8_e5m2"}


def layers_of(graph: Graph, weights: Mapping[Tensor, Any], chosen: Callable[[str], bool]) -> list[Node]:
    """The nodes to quantize: those with constant weights and a selected name."""
    found = []
    for node in graph._nodes:
        if node.kind in LAYERS and node.inputs[LAYERS[node.kind][1]] in weights and chosen(node.name):
            found.append(node)
    return found


class Copy:
    """A copy of a graph, node by node."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.old = graph
        self.new = Graph(
            name, compute_data_type=graph.compute_data_type, intermediate_data_type=graph.intermediate_data_type
        )
        self.new.io_data_type = graph._types()["io"]
        #: The new tensor for each old one.
        self.of: dict[Tensor, Tensor] = {}
        self.outputs = list(graph._outputs)

    def tensor(self, old: Tensor) -> Tensor:
        """The new tensor for an old one, made on first use."""
        if old not in self.of:
            new = self.new._new_tensor(
                name=old.name, dim=old.dim, stride=old.stride, data_type=old.data_type,
                is_virtual=old.producer is not None and old not in self.outputs, is_pass_by_value=old.is_pass_by_value, value=old.value,
            )  # fmt: skip
            new.producer = old.producer
            self.of[old] = new
        return self.of[old]

    def node(self, node: Node) -> None:
        """Copies a node unchanged."""
        again = copy.copy(node)
        again.inputs = {key: None if of is None else self.tensor(of) for key, of in node.inputs.items()}
        again.outputs = {key: self.tensor(of) for key, of in node.outputs.items()}
        beside = {key: self._beside(value) for key, value in node.rest.get("in_inputs", {}).items()}
        again.rest = {**node.rest, "in_inputs": beside} if beside else dict(node.rest)
        self.new._change()
        self.new._nodes.append(again)

    def _beside(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._beside(each) for each in value]
        return self.tensor(value) if isinstance(value, Tensor) else value

    def finish(self) -> Graph:
        """The new graph, with the old one's results."""
        for old in self.outputs:
            self.of[old].set_output(True)
        self.new._finish()
        return self.new


class Rewriter(Copy):
    """A graph whose layers read quantized tensors."""

    def __init__(
        self,
        numpy: Any,
        graph: Graph,
        recipe: Recipe,
        weights: Mapping[Tensor, Any],
        activations: Mapping[Tensor, float],
    ) -> None:
        super().__init__(graph, f"{graph.name or 'graph'} ({recipe.name})")
        self.numpy, self.recipe, self.weights, self.activations = numpy, recipe, weights, activations
        #: The arrays of constant tensors of the new graph.
        self.constants: dict[Tensor, Any] = {}
        self._quantized: dict[Tensor, Tensor] = {}

    def _weight(self, values: Any, name: str, like: Tensor) -> Tensor:
        """A tensor of weights with their old layout; 4-bit weights are packed."""
        if self.recipe.weights is not data_type.INT4:
            return self._constant(self._typed(values, self.recipe.weights), name, self.recipe.weights, like)
        tensor = self.new.tensor(list(values.shape), data_type=data_type.INT4, name=name)
        self.constants[tensor] = self._nibbles(values)
        return tensor

    def _constant(self, array: Any, name: str, kind: data_type, like: Tensor | None = None) -> Tensor:
        tensor = self.new.tensor(list(array.shape), like.stride if like is not None else None, kind, name=name)
        if like is not None:
            # The layout of the old weights.
            order = sorted(range(array.ndim), key=lambda axis: (-(like.stride or ())[axis], axis))
            back = sorted(range(array.ndim), key=order.__getitem__)
            array = self.numpy.ascontiguousarray(array.transpose(order)).transpose(back)
        self.constants[tensor] = array
        return tensor

    def _typed(self, values: Any, kind: data_type) -> Any:
        if kind is data_type.INT8:
            return values.astype(self.numpy.int8)
        try:
            import ml_dtypes
        except ImportError:
            raise ArgumentError(
                f"weights of {kind.value} need the package ml_dtypes, whose types NumPy takes"
            ) from None
        return values.astype(getattr(ml_dtypes, _EXTENDED[kind]))

    def _nibbles(self, values: Any) -> Any:
        """4-bit integers, two to a byte, the first in the lower half."""
        flat = values.astype(self.numpy.int8).reshape(-1).view(self.numpy.uint8) & 15
        flat = self.numpy.append(flat, self.numpy.zeros(flat.size % 2, self.numpy.uint8))
        return flat[0::2] | flat[1::2] << 4

    def _activation(self, old: Tensor) -> Tensor:
        """A layer's quantized input, made once for all its readers."""
        if old not in self._quantized:
            kind, scale, name = self.recipe.activations, self.activations[old], f"{old.name or f't{old.uid}'} quantized"
            assert kind is not None
            part = self.new.mul(self.tensor(old), 1 / scale, name=f"{name}, scaled")
            if kind is data_type.INT8:
                # Rounded here, and clipped when stored.
                half = self.new.add(part, 0.5, name=f"{name}, half up")
                found = self.new.floor(half, name=name).set_data_type(kind)
            else:
                found = self.new.identity(part, name=name).set_data_type(kind)
            self._quantized[old] = found
        return self._quantized[old]

    def layer(self, node: Node) -> None:
        """Adds a quantized convolution or matmul that replaces the old node's result."""
        x_key, w_key, y_key, axis = LAYERS[node.kind]
        x, w, y = node.inputs[x_key], node.inputs[w_key], node.outputs[y_key]
        assert x is not None and w is not None
        values = self.numpy.asarray(self.weights[w], self.numpy.float32)
        if self.recipe.group is not None:
            self._in_groups(node, values)
            return
        axis %= values.ndim
        reduced = [at for at in range(values.ndim) if at != axis or not self.recipe.is_per_channel]
        scale = scales(self.numpy, values, self.recipe.weights, self.recipe, reduced)
        quantized = rounded(self.numpy, values, scale, self.recipe.weights)
        name = w.name or f"{node.name} weights"
        weight = self._weight(quantized, f"{name} quantized", w)
        again = copy.copy(node)
        # If activations are not quantized, the weights are dequantized first.
        if self.recipe.activations is None:
            factor = self._constant(scale, f"{name} scale", data_type.FLOAT)
            whole = self.new.mul(weight, factor, name=f"{name} whole")
            again.inputs = {x_key: self.tensor(x), w_key: whole}
            again.outputs = {y_key: self.tensor(y)}
            self.new._nodes.append(again)
            return
        is_integer = self.recipe.weights is data_type.INT8 and self.recipe.activations is data_type.INT8
        sums = self.new._new_tensor(
            name=f"{node.name} sums",
            dim=y.dim,
            stride=y.stride,
            data_type=data_type.INT32 if is_integer else data_type.FLOAT,
            is_virtual=True,
        )
        sums.producer = node.name
        again.inputs = {x_key: self._activation(x), w_key: weight}
        again.outputs = {y_key: sums}
        again.compute_data_type = data_type.INT32 if is_integer else data_type.FLOAT
        self.new._change()
        self.new._nodes.append(again)
        channels = [1] * len(y.dim or ())
        channels[1 if axis == 0 else -1] = scale.size
        factor = self._constant(
            (scale.reshape(-1) * self.numpy.float32(self.activations[x])).reshape(channels),
            f"{node.name} scale",
            data_type.FLOAT,
        )
        whole = self.new.mul(sums, factor, name=f"{node.name} whole")
        self._stand_for(whole, y)

    def _stand_for(self, made: Tensor, old: Tensor) -> None:
        """Replaces a tensor of the old graph by one of the new graph."""
        made.name, made.data_type = old.name, old.data_type
        self.of[old] = made

    def _in_groups(self, node: Node, values: Any) -> None:
        """Adds a matmul whose weights have a scale for each group along the reduced dimension."""
        x_key, w_key, y_key, axis = LAYERS[node.kind]
        group = self.recipe.group or 1
        if node.kind != "MatmulAttributes" or values.shape[-2] % group:
            # Convolutions, and sizes that groups do not divide, stay unquantized.
            self.node(node)
            return
        x, w, y = node.inputs[x_key], node.inputs[w_key], node.outputs[y_key]
        assert x is not None and w is not None
        *batch, k, n = values.shape
        grouped = values.reshape(*batch, k // group, group, n)
        scale = scales(self.numpy, grouped, self.recipe.weights, self.recipe, (grouped.ndim - 2,))
        quantized = rounded(self.numpy, grouped, scale, self.recipe.weights).reshape(values.shape)
        name = w.name or f"{node.name} weights"
        weight = self._weight(quantized, f"{name} quantized", w)
        factor = self._constant(scale.reshape(*batch, k // group, n), f"{name} scales", data_type.FLOAT)
        whole = self.new.block_scale_dequantize(weight, factor, [group, 1], name=f"{name} whole").set_data_type(
            data_type.FLOAT
        )
        again = copy.copy(node)
        again.inputs, again.outputs = {x_key: self.tensor(x), w_key: whole}, {y_key: self.tensor(y)}
        self.new._change()
        self.new._nodes.append(again)
