"""Nodes, and what all operations share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .errors import GraphError
from .infer import strides_in_order
from .tensor import Tensor
from .types import DataTypeLike, data_type, to_data_type


class Node:
    """One operation of a graph."""

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: Mapping[str, Tensor | None],
        outputs: Mapping[str, Tensor],
        *,
        optional: Sequence[str] = (),
        together: Sequence[Sequence[str]] = (),
        compute_data_type: data_type = data_type.NOT_SET,
        tensors_in_groups: bool = True,
        sparse: bool = False,
        **rest: Any,
    ) -> None:
        self.kind = kind
        self.name = name
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)
        #: Outputs that need not be computed.
        self.optional = frozenset(optional)
        #: Groups of outputs of which all or none are computed.
        self.together = together
        self.compute_data_type = compute_data_type
        self.tensors_in_groups = tensors_in_groups
        #: Whether absent entries are left out of the JSON, as the library does for this operation.
        self.sparse = sparse
        self.rest = rest

    def read(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that it reads, with the names of its arguments."""
        for key, tensor in self.inputs.items():
            if tensor is not None:
                yield key, tensor
        for key, beside in self.rest.get("in_inputs", {}).items():
            for tensor in beside if isinstance(beside, list) else [beside]:
                if isinstance(tensor, Tensor):
                    yield key, tensor
        for key, tensor in (*self.inputs.items(), *self.outputs.items()):
            if tensor is not None and tensor.ragged_offset is not None:
                yield f"ragged_offset of {key}", tensor.ragged_offset

    def kept(self, wanted: set[int]) -> set[str]:
        """The outputs to compute if these tensors are wanted."""
        kept = {key for key, tensor in self.outputs.items() if key not in self.optional or tensor.uid in wanted}
        for group in self.together:
            if kept.intersection(group):
                kept.update(group)
        return kept

    def json(self, wanted: set[int]) -> dict[str, Any]:
        """The node in the library's JSON, with the wanted outputs."""

        def uids(tensors: Mapping[str, Tensor | None]) -> dict[str, Any]:
            found = {f"{key}_tensor_uid": tensor and tensor.uid for key, tensor in tensors.items()}
            return {key: uid for key, uid in found.items() if uid is not None or not self.sparse}

        kept = self.kept(wanted)
        outputs = {key: tensor if key in kept else None for key, tensor in self.outputs.items()}
        node: dict[str, Any] = {"type": self.kind, "name": self.name}
        if self.compute_data_type is not data_type.NOT_SET:
            node["compute_data_type"] = self.compute_data_type.value
        if self.tensors_in_groups:
            node["inputs"], node["outputs"] = uids(self.inputs), uids(outputs)
        else:
            node.update(uids(self.inputs))
            node.update(uids(outputs))
        for key, value in self.rest.items():
            if key == "in_inputs":
                node["inputs"].update({key: _uid(of) for key, of in value.items()})
            elif key == "in_outputs":
                node["outputs"].update(value)
            elif value is not None or not self.sparse:
                node[key] = value
        return node


#: Documents the results of all operations that do not say their type.
_RESULTS = """Results whose type is not said above have the one that ``set_data_type`` says, else the graph's:
        ``io_data_type`` if an execution returns them, ``intermediate_data_type`` between nodes."""


def describe_results(operations: type, also: str = "") -> None:
    """Appends what all operations of a class share to their docstrings."""
    for name, method in vars(operations).items():
        if not name.startswith("_"):
            # The operation's own text.
            method.__own_doc__ = method.__doc__
            method.__doc__ = "\n\n        ".join(text for text in (method.__doc__, also, _RESULTS) if text)


def _uid(of: Any) -> Any:
    """The uid of a tensor, or a list of uids; other values unchanged."""
    if isinstance(of, list):
        return [_uid(each) for each in of]
    return of.uid if isinstance(of, Tensor) else of


class Operations:
    """The base of a graph's methods."""

    _nodes: list[Node]
    #: Whether the graph follows cuDNN's conventions: arrays are plain memory, and what cuDNN refuses is refused.
    _as_cudnn = False

    def tensor(self, *args: Any, **options: Any) -> Tensor:
        raise NotImplementedError

    def _new_tensor(self, **options: Any) -> Tensor:
        raise NotImplementedError

    def _change(self) -> None:
        raise NotImplementedError

    def _name(self, kind: str, name: str) -> str:
        """The name of a node; generated if none is given."""
        return name or f"{kind}_{len(self._nodes)}"

    def _operand(self, node: str, argument: str, value: Any, rank: int | None = None) -> Tensor:
        """A tensor of this graph; a number becomes a constant tensor."""
        if isinstance(value, Tensor):
            if value.graph is not self:
                adopted = self._adopt(value)
                if adopted is not None:
                    return adopted
                raise GraphError(node, argument, f"{value._label()} is of another graph")
            return value
        if isinstance(value, (int, float)) and rank is not None:
            return self._new_tensor(dim=(1,) * rank, stride=(1,) * rank, value=float(value))
        raise GraphError(node, argument, f"expected a tensor of this graph, not {type(value).__name__}")

    def _adopt(self, tensor: Tensor) -> Tensor | None:
        """This graph's counterpart of another graph's tensor, if executions can use either."""
        return None

    def _dims(self, node: str, argument: str, tensor: Tensor, rank: int | None = None) -> tuple[int, ...]:
        if tensor.dim is None:
            raise GraphError(node, argument, f"{tensor._label()} has no shape yet, call set_dim")
        if rank is not None and len(tensor.dim) != rank:
            raise GraphError(node, argument, f"the shape is {list(tensor.dim)}, expected one of {rank} dimensions")
        return tensor.dim

    def _output(
        self,
        node: str,
        name: str,
        dim: Sequence[int] | None,
        like: Tensor | None = None,
        data_type: DataTypeLike | None = None,
    ) -> Tensor:
        """A virtual tensor that a node writes, with dimensions in the order of another."""
        stride = None if dim is None else strides_in_order(dim, like.stride if like else None)
        tensor = self._new_tensor(name=f"{node}::{name}", dim=dim, stride=stride, data_type=data_type, is_virtual=True)
        tensor.producer = node
        return tensor

    def _add(self, kind: str, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **options: Any) -> None:
        """Adds a node, without optional outputs that are None."""
        self._change()
        options["compute_data_type"] = to_data_type(options.pop("compute_data_type", None))
        self._nodes.append(Node(kind, name, inputs, outputs, **options))
