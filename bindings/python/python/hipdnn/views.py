"""Views of a caller's memory: cuDNN's reshape, transpose, slice and concatenation of input tensors."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .address import Address, address_of
from .device import to_device
from .errors import ArrayError, GraphError, UnsupportedError
from .infer import integers, packed
from .memory import memory_of
from .node import Operations
from .operands import plain
from .tensor import Tensor
from .types import DataTypeLike, reshape_mode

_BETWEEN = "is written by a node, expected a tensor that is given: other shapes of results between nodes are a graph of their own"


class Views(Operations):
    """Tensors that are views of others. Executions take arrays only for the others."""

    _has_views: bool

    def _view(self, node: str, base: Tensor, dim: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
        base = self._operand(node, "input", base)
        if base.is_virtual or base.producer is not None or base.value is not None:
            raise UnsupportedError(node, "input", f"{base._label()} {_BETWEEN}")
        self._dims(node, "input", base)
        root, start = base.view_of or (base, 0)
        view = self._new_tensor(name=f"{node}::OUT_0", dim=dim, stride=stride, data_type=base.data_type)
        view.view_of = root, start + offset
        self._has_views = True
        return view

    def _unpacked(self, node: str, table: Tensor) -> Tensor:
        """A page table with packed batches as engines take it: with the same number of pages for each batch entry."""
        first = table.ragged_offset
        if first is None:
            return table
        view = self._view(node, table, table.dim or (), packed(table.dim or ()), 0)
        view.packed_by = first
        return view

    def reshape(self, input: Tensor, name: str = "", reshape_mode: reshape_mode = reshape_mode.VIEW_ONLY) -> Tensor:
        """A view of an input tensor, of any shape and type, with the shape that ``set_dim`` of the result gives (and
        ``set_stride``, unless it is packed)."""
        node = self._name("reshape", name)
        base = self._operand(node, "input", input)
        dims = self._dims(node, "input", base)
        if tuple(base.stride or ()) != packed(dims):
            words = f"has the strides {list(base.stride or ())}, expected {list(packed(dims))}: the new shape is one of memory without gaps"
            raise UnsupportedError(node, "input", words)
        return self._view(node, base, dims, packed(dims), 0)

    def transpose(
        self, input: Tensor, permutation: Sequence[int], compute_data_type: DataTypeLike | None = None, name: str = ""
    ) -> Tensor:
        """An input tensor, of any shape and type, with its dimensions permuted: the first one is the old ``permutation[0]``."""
        node = self._name("transpose", name)
        base = self._operand(node, "input", input)
        dims, order = self._dims(node, "input", base), integers(node, "permutation", permutation)
        if sorted(order) != list(range(len(dims))):
            raise GraphError(node, "permutation", f"is {list(order)}, expected each of 0 to {len(dims) - 1} once")
        strides = base.stride or ()
        return self._view(node, base, [dims[at] for at in order], [strides[at] for at in order], 0)

    def slice(
        self, input: Tensor, slices: Sequence[slice] = (), compute_data_type: DataTypeLike | None = None, name: str = ""
    ) -> Tensor:
        """A part of an input tensor, of any shape and type: a Python slice for each dimension, with steps of at least 1."""
        node = self._name("slice", name)
        base = self._operand(node, "input", input)
        dims, strides = self._dims(node, "input", base), base.stride or ()
        if len(slices) != len(dims):
            raise GraphError(node, "slices", f"has {len(slices)} slices, expected {len(dims)}")
        found = [of.indices(size) for of, size in zip(slices, dims)]
        if any(step < 1 for _, _, step in found):
            raise UnsupportedError(node, "slices", f"is {list(slices)}, expected steps of at least 1")
        sizes = [len(range(*of)) for of in found]
        if not all(sizes):
            raise GraphError(node, "slices", f"is {list(slices)}, expected at least one element of {list(dims)}")
        offset = sum(start * stride for (start, _, _), stride in zip(found, strides))
        return self._view(node, base, sizes, [step * stride for (_, _, step), stride in zip(found, strides)], offset)

    def concatenate(
        self, inputs: Sequence[Tensor], axis: int, in_place_index: int | None = None, name: str = ""
    ) -> Tensor:
        """Raises cudnnGraphNotSupportedError for any shape and type: one node writes each result."""
        words = "are several, expected one: engines lack concatenation; bind each result to its part of one array"
        raise UnsupportedError(self._name("concatenate", name), "inputs", words)


def expect_within(view: Tensor) -> None:
    """Raises GraphError for a view that reaches beyond the tensor that it views."""
    root, offset = view.view_of or (view, 0)
    last = [(size - 1) * stride for size, stride in zip(root.dim or (), root.stride or ())]
    reach = [(size - 1) * stride for size, stride in zip(view.dim or (), view.stride or ())]
    if min(reach, default=0) < 0 or offset + sum(reach) > sum(last) or view.data_type is not root.data_type:
        words = f"is {list(view.dim or ())} with strides {list(view.stride or ())} from element {offset}, expected elements of {root!r}"
        raise GraphError(view._label(), "dim", words)


def with_views(
    tensors: Mapping[Any, Any], views: Sequence[Tensor], asked: Mapping[int, Tensor], are_memory: bool
) -> dict[Any, Any]:
    """Adds the arrays of views to those of an execution, and removes those that no node reads. Plain memory may have other shapes."""
    of_uid = {key.uid if isinstance(key, Tensor) else key: array for key, array in tensors.items()}
    found = {key: array for key, array in tensors.items() if (key.uid if isinstance(key, Tensor) else key) in asked}
    for view in views:
        expect_within(view)
        root, offset = view.view_of or (view, 0)
        if root.uid not in of_uid:
            raise ArrayError(f"{root._label()}: no array is given, which {view._label()} is a part of")
        if view.packed_by is not None:
            first = of_uid.get(view.packed_by.uid)
            if first is None:
                raise ArrayError(
                    f"{view.packed_by._label()}: no array is given, which says where the batches of {root._label()} begin"
                )
            found[view] = _spread(plain(of_uid[root.uid]), plain(first), view)
            continue
        found[view] = _part(of_uid[root.uid], root, view, offset, are_memory)
    return found


def _spread(array: Any, first: Any, view: Tensor) -> Any:
    """A copy of a packed table with one row per batch entry, on its own device; engines do not read beyond a row's end."""
    batch, pages = (view.dim or (0,))[0], (view.dim or (0, 0, 0))[2]
    name = type(array).__module__.partition(".")[0]
    library = importlib.import_module(name)
    steps = library.arange(pages, **({"device": array.device} if name == "torch" else {}))
    places = first.reshape(-1)[:batch].reshape(-1, 1) + steps.reshape(1, -1)
    last = math.prod(array.shape) - 1
    places = places.clamp(0, last) if name == "torch" else library.clip(places, 0, last)
    flat = array.as_strided((last + 1,), (1,)) if name == "torch" else array.reshape(-1)
    return flat[places.reshape(-1)].reshape(tuple(view.dim or ()))


def _part(array: Any, root: Tensor, view: Tensor, offset: int, is_memory: bool) -> Address:
    array = plain(array)
    dim, stride, kind, device, _ = _native.describe(array)
    if is_memory:
        memory_of(root, kind, array, None, False)
    elif list(dim) != list(root.dim or ()) or any(
        a != b for a, b, size in zip(stride, root.stride or (), dim) if size > 1
    ):
        words = f"the array has the shape {list(dim)} and strides {list(stride)}, expected {list(root.dim or ())} and {list(root.stride or ())}"
        raise ArrayError(f"{root._label()}: {words}")
    size = {"double": 8, "int64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2}.get(kind, 1)
    return Address(
        address_of(array, root._label()) + offset * size,
        view.dim or (),
        view.stride or (),
        kind,
        to_device(device),
        array,
    )
