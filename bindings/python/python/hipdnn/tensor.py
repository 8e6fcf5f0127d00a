"""Tensors of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ._native import TensorBase
from .errors import GraphError, UnsupportedError
from .infer import integers, strides_in_order
from .types import DataTypeLike, data_type, tensor_reordering, to_data_type


class Owner(Protocol):
    """What a tensor asks of its graph."""

    def _change(self) -> None: ...
    def _give_uid(self, tensor: Tensor, uid: int) -> None: ...


class Tensor(TensorBase):
    """A tensor of a graph: its shape, strides and type; memory comes with an execution.

    The setters answer the tensor itself, so that they can be chained, as in cuDNN:
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
        #: The graph that it is of.
        self.graph: Any = graph
        self.name = name
        self.dim = None if dim is None else integers(self._label(), "dim", dim)
        self.stride = None if stride is None else integers(self._label(), "stride", stride)
        self.data_type = to_data_type(data_type)
        self.is_virtual = is_virtual
        self.is_pass_by_value = is_pass_by_value
        self.value = value
        #: Where each sequence begins, for a batch of sequences that lie one after the other.
        self.ragged_offset: Tensor | None = None
        self.ragged_offset_multiplier = 1
        #: The tensor whose memory it is a part of, and the element that it begins with.
        self.view_of: tuple[Tensor, int] | None = None
        #: For a view of a tensor whose batches lie one after the other: where each begins.
        self.packed_by: Tensor | None = None
        #: Whether the program said its strides.
        self.has_strides = False
        #: The node that writes it; none of what the caller gives.
        self.producer: str | None = None

    def __repr__(self) -> str:
        shape = "?" if self.dim is None else "×".join(map(str, self.dim))
        kind = "" if self.data_type is data_type.NOT_SET else f" {self.data_type.value}"
        return f"<Tensor {self.uid}{f' {self.name!r}' if self.name else ''} {shape}{kind}>"

    def _label(self) -> str:
        return f"tensor {self.name!r}" if self.name else f"tensor {self.uid}"

    def set_output(self, is_output: bool = True) -> Tensor:
        """Whether an execution hands it out; what a node writes is not unless it is said."""
        return self.set_is_virtual(not is_output)

    def set_is_virtual(self, is_virtual: bool) -> Tensor:
        """Whether it exists only between nodes."""
        self.graph._change()
        self.is_virtual = bool(is_virtual)
        return self

    def set_name(self, name: str) -> Tensor:
        """A name for people."""
        self.graph._change()
        self.name = name
        return self

    def set_dim(self, dim: Sequence[int]) -> Tensor:
        """The number of elements along each dimension, outermost first. Strides follow, unless they are set after."""
        dims = integers(self._label(), "dim", dim)
        stride = self.stride
        if stride is not None:
            stride = strides_in_order(dims, stride) if len(stride) == len(dims) else None
        self.graph._change()
        # Both in one step: an interrupt leaves a shape with its strides.
        vars(self).update(dim=dims, stride=stride)
        return self

    def set_stride(self, stride: Sequence[int]) -> Tensor:
        """The distance in elements of neighbours along each dimension."""
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
        """Whether it is a number that lies in host memory at an execution."""
        self.graph._change()
        self.is_pass_by_value = bool(is_pass_by_value)
        return self

    def set_uid(self, uid: int) -> Tensor:
        """The number that an execution may name it by, an integer that no other tensor was given."""
        self.graph._change()
        self.graph._give_uid(self, uid)
        return self

    def set_ragged_offset(self, offset: Tensor) -> Tensor:
        """Where each sequence of a batch begins: a tensor of int32 or int64, [B + 1, 1, 1, 1], for queries, keys, values, results and
        statistics of attention. Offsets times ``ragged_offset_multiplier`` are elements; each sequence ends within shape and strides."""
        if not isinstance(offset, Tensor) or offset.graph is not self.graph:
            raise GraphError(self._label(), "ragged_offset", f"is {offset!r}, expected a tensor of this graph")
        self.graph._change()
        self.ragged_offset = offset
        return self

    def set_ragged_offset_multiplier(self, multiplier: int) -> Tensor:
        """How many elements one step of the ragged offsets is."""
        self.graph._change()
        self.ragged_offset_multiplier = int(multiplier)
        return self

    def set_reordering_type(self, reordering_type: tensor_reordering) -> Tensor:
        """How elements lie in blocks beside the strides; only ``tensor_reordering.NONE`` is known."""
        if reordering_type is not tensor_reordering.NONE:
            raise UnsupportedError(
                self._label(), "reordering_type", f"is {reordering_type}, expected tensor_reordering.NONE"
            )
        return self

    def get_uid(self) -> int:
        """The number that an execution may name it by."""
        return self.uid

    def get_name(self) -> str:
        """The name for people; empty where none was given."""
        return self.name

    def get_dim(self) -> list[int]:
        """The number of elements along each dimension, outermost first; empty where it is not known yet."""
        return list(self.dim or ())

    def get_stride(self) -> list[int]:
        """The distance in elements of neighbours along each dimension; empty where it is not known yet."""
        return list(self.stride or ())

    def get_data_type(self) -> data_type:
        """The type of an element; ``NOT_SET`` where the graph decides."""
        return self.data_type

    def get_is_virtual(self) -> bool:
        """Whether it exists only between nodes."""
        return self.is_virtual

    def get_is_pass_by_value(self) -> bool:
        """Whether it is a number that lies in host memory at an execution."""
        return self.is_pass_by_value

    def get_ragged_offset(self) -> Tensor | None:
        """The tensor that says where each sequence begins; None where sequences lie as the strides say."""
        return self.ragged_offset
