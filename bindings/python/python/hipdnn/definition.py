"""The definition of a graph: its tensors and nodes, and the JSON passed to the library."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .attention import Attention
from .attention_fp8 import Fp8Attention
from .compositions import Compositions
from .device import HOST, Device, first_gpu, to_device
from .empty import is_empty, without_empty
from .errors import GraphError
from .infer import apart, integers, packed
from .node import Node
from .norm import Norms
from .operands import Operands, plain, reference, take_arrays
from .operations import Products, Windows
from .pointwise import Pointwise
from .tensor import Tensor
from .types import DataTypeLike, data_type, scalar_type, tensor_reordering, to_data_type
from .views import Views, expect_within

__all__ = ["ALIGNMENT", "Definition"]

#: The alignment in bytes that plans assume; less aligned arrays get a plan of their own.
ALIGNMENT = 16

_SIZES = {"double": 8, "int64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2}


class Definition(Operands, Views, Compositions, Fp8Attention):
    """Tensors and nodes of a graph."""

    #: The device that plans are made for, set by `build` or by the device of an array.
    _device: Device = HOST
    #: Results that are returned because no output was marked.
    _handed_out: frozenset[Tensor]
    _outputs: list[Tensor]
    _inputs: list[Tensor]

    def __init__(
        self,
        name: str = "",
        io_data_type: DataTypeLike | None = None,
        intermediate_data_type: DataTypeLike | None = None,
        compute_data_type: DataTypeLike | None = None,
    ) -> None:
        """``io_data_type`` applies to tensors without a type (by default the first type given, or single precision).

        Between and within nodes the default is single precision, or double if any tensor is double.
        """
        self.name = name
        if self._as_cudnn:
            # cuDNN computes on a GPU if there is one.
            self._device = first_gpu() or HOST
        self.io_data_type = to_data_type(io_data_type)
        self.intermediate_data_type = to_data_type(intermediate_data_type)
        self.compute_data_type = to_data_type(compute_data_type)
        self.tensors: list[Tensor] = []
        #: The last uid assigned here, and those that the program gave.
        self._last_uid = 0
        self._given_uids: set[int] = set()
        self._nodes: list[Node] = []
        self._start()
        #: Whether some tensors are views of others.
        self._has_views = False
        self._change()

    def _change(self) -> None:
        """Discards everything derived from tensors and nodes."""
        vars(self).update(_handed_out=frozenset(), _outputs=[], _inputs=[])

    def _new_tensor(self, **options: Any) -> Tensor:
        self._change()
        tensor = Tensor(self, self._free_uid(), **options)
        self.tensors.append(tensor)
        return tensor

    def _free_uid(self) -> int:
        self._last_uid += 1
        while self._last_uid in self._given_uids:
            self._last_uid += 1
        return self._last_uid

    def _give_uid(self, tensor: Tensor, uid: int) -> None:
        """Gives a tensor the program's uid; a tensor that got it automatically is renumbered."""
        if not isinstance(uid, int) or not 0 <= uid < 1 << 63:
            raise GraphError(tensor._label(), "uid", f"is {uid!r}, expected an integer from 0 to 2⁶³ - 1")
        other = next((t for t in self.tensors if t.uid == uid and t is not tensor), None)
        if other is not None and uid in self._given_uids:
            raise GraphError(tensor._label(), "uid", f"is {uid}, the number of {other._label()}, expected another")
        if other is not None:
            # First, so that an interrupt never leaves two tensors with one uid.
            other._renumber(self._free_uid())
        self._given_uids.discard(tensor.uid)
        self._given_uids.add(uid)
        tensor._renumber(uid)

    def tensor(
        self,
        dim: Sequence[int],
        stride: Sequence[int] | None = None,
        data_type: DataTypeLike | None = None,
        is_virtual: bool = False,
        is_pass_by_value: bool = False,
        ragged_offset: Tensor | None = None,
        reordering_type: tensor_reordering = tensor_reordering.NONE,
        name: str = "",
        uid: int = -1,
        ragged_offset_multiplier: int = 1,
    ) -> Tensor:
        """A tensor in the caller's memory of shape ``dim`` and type ``data_type``, packed unless strides (in elements) are given.

        Executions may name it by ``uid``, if one is given. With ``ragged_offset``, int32 or int64 of [B + 1, 1, 1, 1], sequence b
        of a batch begins at element offset[b] · ``ragged_offset_multiplier`` (`Tensor.set_ragged_offset`).
        """
        label = f"tensor {name!r}" if name else f"tensor {len(self.tensors) + 1}"
        dims = integers(label, "dim", dim)
        if any(d < 0 for d in dims):
            raise GraphError(label, "dim", f"is {list(dims)}, expected no negative sizes")
        strides = packed(dims) if stride is None else integers(label, "stride", stride)
        if len(strides) != len(dims):
            raise GraphError(label, "stride", f"is {list(strides)}, expected {len(dims)} numbers")
        tensor = self._new_tensor(
            name=name, dim=dims, stride=strides, data_type=data_type,
            is_virtual=is_virtual, is_pass_by_value=is_pass_by_value,
        )  # fmt: skip
        tensor.set_reordering_type(reordering_type).set_ragged_offset_multiplier(ragged_offset_multiplier)
        if ragged_offset is not None:
            tensor.set_ragged_offset(ragged_offset)
        return tensor if uid == -1 else tensor.set_uid(uid)

    def tensor_like(self, input: Any, name: str = "") -> Tensor:
        """A tensor with the shape, strides and type of another, or of an array of any library."""
        if isinstance(input, Tensor):
            return self._new_tensor(name=name, dim=input.dim, stride=input.stride, data_type=input.data_type)
        dim, stride, kind, device, _ = _native.describe(plain(input))
        on = to_device(device)
        # If other arrays are on a GPU, a number on the host is passed by value.
        by_value = on == HOST and self._device != HOST and math.prod(dim) == 1
        if not self.tensors and not by_value:
            self._device = on
        tensor = self._new_tensor(
            name=name, dim=dim or [1], stride=stride or [1], data_type=kind, is_pass_by_value=by_value
        )
        self._of_array[id(input)] = reference(input), tensor
        return tensor

    @property
    def _views(self) -> list[Tensor]:
        """The tensors that are views of others."""
        return [tensor for tensor in self.tensors if tensor.view_of is not None] if self._has_views else []

    def _adopt(self, tensor: Tensor) -> Tensor | None:
        """A tensor with the uid of another graph's tensor that was made from an array: executions may name it by either."""
        if not any(tensor is of for _, of in tensor.graph._of_array.values()) or tensor.producer is not None:
            return None
        known = next((of for of in self.tensors if of.uid == tensor.uid and of.name == tensor.name), None)
        if known is None:
            known = self._new_tensor(
                name=tensor.name, dim=tensor.dim, stride=tensor.stride, data_type=tensor.data_type,
                is_pass_by_value=tensor.is_pass_by_value,
            )  # fmt: skip
            self._give_uid(known, tensor.uid)
        return known

    def _callers(self) -> tuple[list[Tensor], list[Tensor]]:
        """The tensors that an execution needs arrays for."""
        roots = {tensor.view_of[0] if tensor.view_of else tensor for tensor in self._inputs}
        roots.update(tensor.packed_by for tensor in self._inputs if tensor.packed_by is not None)
        return [tensor for tensor in self.tensors if tensor in roots], self._outputs

    def query_tensor_attributes_of_uid(self, uid: int) -> Tensor:
        """The tensor with a uid."""
        for tensor in self.tensors:
            if tensor.uid == uid:
                return tensor
        raise GraphError(
            self.name or "graph", "uid", f"is {uid!r}, expected one of {[tensor.uid for tensor in self.tensors]}"
        )

    def tensor_scalar(self, value: float, scalar_type: scalar_type) -> Tensor:
        """A number, [1, 1, 1, 1] of type float: part of the graph, or given with each execution if ``RUNTIME_PARAM``."""
        one = (1, 1, 1, 1)
        if scalar_type is scalar_type.RUNTIME_PARAM:
            return self.tensor(one, data_type="float", is_pass_by_value=True)
        return self._new_tensor(dim=one, stride=one, data_type="float", value=float(value))

    def key(self) -> int:
        """A number that is the same for equal graphs."""
        return hash(self.to_json())

    # What is passed to the library.

    def _types(self) -> dict[str, data_type]:
        io = self.io_data_type
        if io is data_type.NOT_SET:
            said = (t.data_type for t in self.tensors if not t.producer and not t.is_virtual and t.value is None)
            io = next((kind for kind in said if kind is not data_type.NOT_SET), data_type.FLOAT)
        kinds = [t.data_type for t in self.tensors if not self._is_virtual(t)] + [io]
        wide = data_type.DOUBLE if data_type.DOUBLE in kinds else data_type.FLOAT
        pick = lambda kind: wide if kind is data_type.NOT_SET else kind  # noqa: E731
        return {
            "io": io, "intermediate": pick(self.intermediate_data_type), "compute": pick(self.compute_data_type)
        }  # fmt: skip

    def _is_virtual(self, tensor: Tensor) -> bool:
        """Whether a tensor exists only between nodes."""
        return tensor.is_virtual and tensor not in self._handed_out

    def _finish(self) -> None:
        """Finds inputs and outputs: if no output is marked, the results that no node reads are outputs."""
        written = {t.uid for node in self._nodes for t in node.outputs.values()}
        read = {t.uid for node in self._nodes for _, t in node.read()}
        handed_out: frozenset[Tensor] = frozenset()
        if not any(t.uid in written and not t.is_virtual for t in self.tensors):
            handed_out = frozenset(
                tensor
                for node in self._nodes
                for key, tensor in node.outputs.items()
                if tensor.uid not in read and key not in node.optional
            )
        bound = [t for t in self.tensors if not t.is_virtual or t in handed_out]
        vars(self).update(
            _handed_out=handed_out,
            _outputs=[t for t in bound if t.uid in written],
            _inputs=[t for t in bound if t.uid in read and t.uid not in written and t.value is None],
        )

    @property
    def _label(self) -> str:
        return f"graph {self.name!r}" if self.name else "the graph"

    def validate(self) -> None:
        """Raises GraphError for an invalid graph, naming node and argument. Does not ask engines."""
        if not self._nodes:
            raise GraphError(self._label, "nodes", "has none, expected at least one operation")
        self._finish()
        written = {tensor.uid for node in self._nodes for tensor in node.outputs.values()}
        known: set[int] = {t.uid for t in self.tensors if t.producer is None and not self._is_virtual(t)}
        for node in self._nodes:
            for key, tensor in node.read():
                if tensor.uid not in known:
                    raise GraphError(node.name, key, f"{tensor._label()} is virtual, and no node before this writes it")
            known.update(tensor.uid for tensor in node.outputs.values())
        for tensor in self.tensors:
            if tensor.producer is not None and tensor.uid not in written:
                # Left over from an operation that was refused or interrupted.
                continue
            place = tensor.producer or tensor._label()
            if tensor.dim is None:
                raise GraphError(place, tensor.name or "dim", "has no shape, call set_dim")
            if tensor.stride is None:
                tensor.stride = packed(tensor.dim)
            if tensor.ragged_offset is not None:
                # Offsets say where sequences begin: the batch stride bounds how far all of them reach.
                tensor.stride = apart(tensor.dim, tensor.stride)
            if len(tensor.stride) != len(tensor.dim):
                expected = f"has the strides {list(tensor.stride)}, expected {len(tensor.dim)} numbers"
                raise GraphError(place, tensor.name or "stride", expected)
        for view in self._views:
            expect_within(view)

    def _data_type(self, tensor: Tensor, types: Mapping[str, data_type]) -> str:
        if tensor.data_type is not data_type.NOT_SET:
            return tensor.data_type.value
        if tensor.value is not None:
            # A number is as exact as what the graph computes in.
            kinds = [types["compute"], *(node.compute_data_type for node in self._nodes)]
            return (data_type.DOUBLE if data_type.DOUBLE in kinds else data_type.FLOAT).value
        return types["intermediate" if self._is_virtual(tensor) else "io"].value

    def to_json(self, *, indent: int | None = None, aligned: bool = True) -> str:
        """The graph in hipDNN's JSON form."""
        self.validate()
        types = self._types()
        nodes, made, wanted = self._handed_over()
        used = self._used(nodes, wanted)
        tensors = []
        for tensor in (*self.tensors, *made):
            if tensor.uid not in used:
                continue
            kind = self._data_type(tensor, types)
            entry: dict[str, Any] = {
                "uid": tensor.uid, "name": tensor.name, "dims": tensor.dim, "strides": tensor.stride,
                "data_type": kind, "virtual": self._is_virtual(tensor),
            }  # fmt: skip
            if tensor.value is not None:
                value_type = tensor.value_type or ("Float64Value" if kind == "double" else "Float32Value")
                entry.update(value_type=value_type, value=tensor.value)
            if tensor.is_pass_by_value:
                entry["is_runtime_pass_by_value"] = True
            if not aligned and not self._is_virtual(tensor):
                entry["alignment"] = _SIZES.get(kind, 1)
            if tensor.ragged_offset is not None:
                entry["ragged_offset_tensor_uid"] = tensor.ragged_offset.uid
                entry["ragged_offset_multiplier"] = tensor.ragged_offset_multiplier
            tensors.append(entry)
        graph = {
            "name": self.name,
            "io_data_type": types["io"].value,
            "intermediate_data_type": types["intermediate"].value,
            "compute_data_type": types["compute"].value,
            "nodes": [node.json(wanted) for node in nodes],
            "tensors": tensors,
        }
        return json.dumps(graph, indent=indent)

    def _handed_over(self) -> tuple[Sequence[Node], Sequence[Tensor], set[int]]:
        """The nodes passed to the library, the tensors that they need besides the graph's, and the uids of the wanted tensors."""
        read = {t.uid for node in self._nodes for _, t in node.read()}
        wanted = read | {t.uid for t in self._outputs}
        if not any(is_empty(tensor) for tensor in self.tensors):
            return self._nodes, (), wanted
        return *without_empty(self._nodes, wanted), wanted

    @staticmethod
    def _used(nodes: Sequence[Node], wanted: set[int]) -> set[int]:
        """The uids of the tensors of nodes."""
        read = {t.uid for node in nodes for _, t in node.read()}
        return read | {node.outputs[key].uid for node in nodes for key in node.kept(wanted)}

    def _untold(self, aligned: bool) -> str:
        """Distinguishes graphs whose JSON is equal because their tensors without elements were left out."""
        return repr(self._specs(aligned)) if any(is_empty(tensor) for tensor in self.tensors) else ""

    def _has_work(self) -> bool:
        """Whether there is anything to compute: False if all results are without elements."""
        return bool(self._handed_over()[0])

    def _specs(self, aligned: bool = True) -> list[dict[str, Any]]:
        types = self._types()
        nodes, _, wanted = self._handed_over()
        used = self._used(nodes, wanted)
        outputs = {t.uid for t in self._outputs}
        specs = []
        for tensor in (*self._inputs, *self._outputs):
            kind = self._data_type(tensor, types)
            alignment = _SIZES.get(kind, 1) if not aligned or tensor.is_pass_by_value else ALIGNMENT
            specs.append({
                "uid": tensor.uid, "name": tensor.name, "data_type": kind, "dims": list(tensor.dim or ()),
                "strides": list(tensor.stride or ()), "alignment": alignment, "is_output": tensor.uid in outputs,
                "is_pass_by_value": tensor.is_pass_by_value, "is_used": tensor.uid in used,
            })  # fmt: skip
        return specs


take_arrays(Definition, Products, Windows, Pointwise, Norms, Attention, Fp8Attention, Compositions, Views)
