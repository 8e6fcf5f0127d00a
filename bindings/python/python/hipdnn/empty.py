"""Tensors without elements: engines do not take them, so the library gets graphs without them.

A node that writes no elements is dropped. One that reads none but writes some, such as the sum over an empty dimension, becomes
the value that NumPy, PyTorch and ONNX define.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import GraphError
from .node import Node
from .tensor import Tensor
from .types import data_type

#: A pointwise operation and its argument. JSON cannot express infinities, so operations make them.
ZERO, ONE = ("identity", 0.0), ("identity", 1.0)
INFINITY, LEAST, NOT_A_NUMBER = ("reciprocal", 0.0), ("log", 0.0), ("sqrt", -1.0)

#: The reduction of no elements. Minimum and maximum follow ONNX; NumPy and PyTorch raise an error.
_REDUCED = {
    "add": ZERO, "mul": ONE, "mul_no_zeros": ONE, "norm1": ZERO, "norm2": ZERO, "amax": ZERO,
    "avg": NOT_A_NUMBER, "min": INFINITY, "max": LEAST,
}  # fmt: skip

#: Nodes whose results are sums, which are zero over no elements.
_SUMS = frozenset((
    "MatmulAttributes", "ConvolutionFwdAttributes", "ConvolutionBwdAttributes", "ConvolutionWrwAttributes",
    "BatchnormBackwardAttributes", "LayernormBackwardAttributes", "RMSNormBackwardAttributes",
))  # fmt: skip


def is_empty(tensor: Tensor) -> bool:
    """Whether a tensor has no elements."""
    return tensor.dim is not None and 0 in tensor.dim


def _value(node: Node, key: str) -> tuple[str, float]:
    """The value of an output whose node reads no elements."""
    if node.kind == "ReductionAttributes":
        return _REDUCED[node.rest["mode"]]
    if node.kind in _SUMS:
        return ZERO
    if node.kind == "SdpaAttributes":
        # Attention to no keys; the statistics are the logarithm of an empty sum.
        return ZERO if key == "o" else LEAST
    empty = next(name for name, tensor in node.read() if is_empty(tensor))
    raise GraphError(node.name, empty, f"has no elements, and {key} has some, which are not defined")


def without_empty(nodes: Sequence[Node], wanted: set[int]) -> tuple[list[Node], list[Tensor]]:
    """The same computation on tensors with elements only, and the additional tensors that it needs."""
    found: list[Node] = []
    made: list[Tensor] = []
    tensors = [t for node in nodes for t in (*(of for _, of in node.read()), *node.outputs.values())]
    last = max((t.uid for t in tensors), default=0)
    for node in nodes:
        kept = node.kept(wanted)
        written = {key: tensor for key, tensor in node.outputs.items() if key in kept and not is_empty(tensor)}
        if not written:
            continue
        if not any(is_empty(tensor) for _, tensor in node.read()):
            found.append(node)
            continue
        for key, tensor in written.items():
            mode, number = _value(node, key)
            ones = (1,) * len(tensor.dim or ())
            last += 1
            value = Tensor(tensor.graph, last, dim=ones, stride=ones, data_type=data_type.FLOAT, value=number)
            made.append(value)
            settings: dict[str, Any] = {"operation": mode}
            inputs = {"in_0": value, "in_1": None, "in_2": None}
            name = f"{node.name}::{key} of no elements"
            found.append(Node("PointwiseAttributes", name, inputs, {"out_0": tensor}, in_inputs=settings))
    return found, made
