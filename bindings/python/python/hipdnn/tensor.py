"""Tensors of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ._native import TensorBase
from .errors import GraphError, UnsupportedError
from .infer import integers, strides_in_order
from .types import DataTypeLike, data_type, tensor_reordering, to_data_type


class Owner(Protocol):
    """What a tensor needs of its graph."""

    def _change(self) -> None: ...
    def _give_uid(self, tensor: Tensor, uid: int) -> None: ...


class Tensor(TensorBase):
    """A tensor of a graph: its shape, strides and type; memory comes with each execution.

    The setters return the tensor itself, so that they can be chained, as in cuDNN:
    ``y.set_output(True).set_data_type(hipdnn.data_type.HALF)``.
    """

    def __new__(cls, graph: Owner, uid: int, **_: Any) -> Tensor:
        tensor: Tensor = super().__new__(cls, uid)
        return tensor

    def __init__(
        self,
        graph: Owner,
        uid: int,
        *,
        name: str = "",
        dim: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        data_type: DataTypeLike | None = None,
        is_virtual: bool = False,
        is_pass_by_value: bool = False,
        value: float | int | None = None,
    ) -> None:
        #: The graph that it belongs to.
        self.graph: Any = graph
        self.name = name
        self.dim = None if dim is None else integers(self._label(), "dim", dim)
        self.stride = None if stride is None else integers(self._label(), "stride", stride)
        self.data_type = to_data_type(data_type)
        self.is_virtual = is_virtual
        self.is_pass_by_value = is_pass_by_value
        self.value = value
        #: The type of the value in JSON; None if the tensor's own type tells.
        self.value_type: str | None = None
        #: Where each sequence begins, for a batch of ragged sequences.
        self.ragged_offset: Tensor | None = None
        self.ragged_offset_multiplier = 1
        #: The tensor that it is a view of, and the element that it begins with.
        self.view_of: tuple[Tensor, int] | None = None
        #: For a view of a tensor with packed batches: where each batch begins.
        self.packed_by: Tensor | None = None
        #: Whether the program set its strides.
        self.has_strides = False
        #: The name of the node that writes it; None for inputs.
        self.producer: str | None = None

    def __repr__(self) -> str:
        shape = "?" if self.dim is None else "×".join(map(str, self.dim))
        kind = "" if self.data_type is data_type.NOT_SET else f" {self.data_type.value}"
        return f"<Tensor {self.uid}{f' {self.name!r}' if self.name else ''} {shape}{kind}>"

    def _label(self) -> str:
        return f"tensor {self.name!r}" if self.name else f"tensor {self.uid}"

    def set_output(self, is_output: bool = True) -> Tensor:
        """Whether an execution returns it; results of nodes are not returned by default."""
        return self.set_is_virtual(not is_output)

    def set_is_virtual(self, is_virtual: bool) -> Tensor:
        """Whether it exists only between nodes."""
        self.graph._change()
        self.is_virtual = bool(is_virtual)
        return self

    def set_name(self, name: str) -> Tensor:
        """A name for messages and pictures."""
        self.graph._change()
        self.name = name
        return self

    def set_dim(self, dim: Sequence[int]) -> Tensor:
        """The number of elements along each dimension, outermost first. Packed strides follow, unless they are set later."""
        dims = integers(self._label(), "dim", dim)
        stride = self.stride
        if stride is not None:
            stride = strides_in_order(dims, stride) if len(stride) == len(dims) else None
        self.graph._change()
        # Set in one step, so that an interrupt cannot separate a shape from its strides.
        vars(self).update(dim=dims, stride=stride)
        return self

    def set_stride(self, stride: Sequence[int]) -> Tensor:
        """The stride in elements of each dimension."""
        strides = integers(self._label(), "stride", stride)
        self.graph._change()
        vars(self).update(stride=strides, has_strides=True)
        return self

    def set_data_type(self, data_type: DataTypeLike) -> Tensor:
        """The type of an element."""
        self.graph._change()
        self.data_type = to_data_type(data_type)
        return self

    def set_is_pass_by_value(self, is_pass_by_value: bool) -> Tensor:
        """Whether it is a number in host memory, read at each execution."""
        self.graph._change()
        self.is_pass_by_value = bool(is_pass_by_value)
        return self

    def set_uid(self, uid: int) -> Tensor:
        """A uid that executions may name it by, an integer unique in the graph."""
        self.graph._change()
        self.graph._give_uid(self, uid)
        return self

    def set_ragged_offset(self, offset: Tensor) -> Tensor:
        """Where each sequence of a batch begins: a tensor of int32 or int64, [B + 1, 1, 1, 1], for queries, keys, values, results and
        statistics of attention. Offsets times ``ragged_offset_multiplier`` are elements; sequences end within shape and strides."""
        if not isinstance(offset, Tensor) or offset.graph is not self.graph:
            raise GraphError(self._label(), "ragged_offset", f"is {offset!r}, expected a tensor of this graph")
        self.graph._change()
        self.ragged_offset = offset
        return self

    def set_ragged_offset_multiplier(self, multiplier: int) -> Tensor:
        """The number of elements per unit of the ragged offsets."""
        self.graph._change()
        self.ragged_offset_multiplier = int(multiplier)
        return self

    def set_reordering_type(self, reordering_type: tensor_reordering) -> Tensor:
        """How elements are blocked besides the strides; only ``tensor_reordering.NONE`` is supported."""
        if reordering_type is not tensor_reordering.NONE:
            raise UnsupportedError(
                self._label(), "reordering_type", f"is {reordering_type}, expected tensor_reordering.NONE"
            )
        return self

    def get_uid(self) -> int:
        """The uid that executions may name it by."""
        return self.uid

    def get_name(self) -> str:
        """The name for messages and pictures; empty if none was given."""
        return self.name

    def get_dim(self) -> list[int]:
        """The number of elements along each dimension, outermost first; empty if not known yet."""
        return list(self.dim or ())

    def get_stride(self) -> list[int]:
        """The stride in elements of each dimension; empty if not known yet."""
        return list(self.stride or ())

    def get_data_type(self) -> data_type:
        """The type of an element; ``NOT_SET`` if the graph decides."""
        return self.data_type

    def get_is_virtual(self) -> bool:
        """Whether it exists only between nodes."""
        return self.is_virtual

    def get_is_pass_by_value(self) -> bool:
        """Whether it is a number in host memory, read at each execution."""
        return self.is_pass_by_value

    def get_ragged_offset(self) -> Tensor | None:
        """The tensor with the beginning of each sequence; None if strides determine it."""
        return self.ragged_offset
