"""Tensors of a graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from hipdnn.infer import packed

from .error import Error, ErrorCode, bad
from .types import DataType

__all__ = ["VALUES", "Tensor", "TensorAttributes"]

#: Types of numbers that are part of a graph, by their names in hipDNN's JSON form.
VALUES: dict[DataType, str] = {
    DataType.FLOAT: "Float32Value", DataType.DOUBLE: "Float64Value", DataType.HALF: "Float16Value",
    DataType.BFLOAT16: "BFloat16Value", DataType.UINT8: "Float8Value", DataType.INT32: "Int32Value",
    DataType.INT64: "Int64Value", DataType.BOOLEAN: "BoolValue",
}  # fmt: skip
#: The least and greatest values of those that are integers.
_RANGES = {
    DataType.UINT8: (0, 255),
    DataType.INT32: (-(1 << 31), (1 << 31) - 1),
    DataType.INT64: (-(1 << 63), (1 << 63) - 1),
}
#: The largest numbers of those that are not as wide as Python's.
_LARGEST = {DataType.HALF: 65504.0, DataType.FLOAT: 3.4028234663852886e38, DataType.BFLOAT16: 3.3895313892515355e38}


def _index(value: Any) -> int | None:
    """An integer of Python or another library; None for others."""
    try:
        return operator.index(value)
    except TypeError:
        return None


def _is_bool(value: Any) -> bool:
    """Whether it is a bool of Python or NumPy, which need not be here."""
    of = type(value)
    return of is bool or (of.__module__ == "numpy" and of.__name__ in ("bool", "bool_"))


def _inferred(value: Any) -> DataType:
    if _is_bool(value):
        return DataType.BOOLEAN
    return DataType.FLOAT if _index(value) is None else DataType.INT64


def _number(value: Any, kind: DataType) -> bool | int | float:
    """A value as a type has it."""
    if kind is DataType.BOOLEAN:
        if _is_bool(value) or _index(value) in (0, 1):
            return bool(value)
        raise ValueError(f"set_value(): value is {value!r}, expected a bool, 0 or 1")
    if kind in _RANGES:
        number = int(value) if _is_bool(value) else _index(value)
        least, most = _RANGES[kind]
        if number is None or not least <= number <= most:
            raise ValueError(f"set_value(): value is {value!r}, expected an integer from {least} to {most}")
        return number
    if isinstance(value, (str, bytes)):
        raise ValueError(f"set_value(): value is {value!r}, expected a number")
    real, most = float(value), _LARGEST.get(kind, math.inf)
    if math.isfinite(real) and abs(real) > most:
        raise ValueError(f"set_value(): value is {value!r}, expected a magnitude of at most {most}")
    return real


class Tensor:
    """A tensor: its number, name, shape, strides and type. Setters return the tensor itself.

    >>> Tensor.create([2, 3], DataType.FLOAT).set_name("x").get_stride()
    [3, 1]
    """

    def __init__(self) -> None:
        self._uid: int | None = None
        self._name = ""
        self._dim: list[int] = []
        self._stride: list[int] = []
        self._data_type = DataType.NOT_SET
        self._is_virtual = False
        self._is_pass_by_value = False
        self._value: bool | int | float | None = None
        self._ragged_offset: Tensor | None = None

    @staticmethod
    def create(dims: Sequence[int], data_type: DataType) -> Tensor:
        """A tensor of a shape and type, the last dimension innermost."""
        return Tensor().set_dim(dims).set_stride(packed(dims)).set_data_type(data_type)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self._dim)) or "?"
        return f"<hipdnn_frontend.Tensor {self._name!r} {shape} {self._data_type.name}>"

    def _copy(self) -> Tensor:
        copy = Tensor()
        vars(copy).update(vars(self), _dim=list(self._dim), _stride=list(self._stride))
        return copy

    def get_uid(self) -> int:
        """The number; 0 if it has none yet."""
        return self._uid or 0

    def set_uid(self, uid: int) -> Tensor:
        """A number, unique in the graph, by which executions name it."""
        self._uid = int(uid)
        return self

    def has_uid(self) -> bool:
        """Whether it has a number."""
        return self._uid is not None

    def clear_uid(self) -> Tensor:
        """Takes its number away."""
        self._uid = None
        return self

    def get_name(self) -> str:
        """The name for messages."""
        return self._name

    def set_name(self, name: str) -> Tensor:
        """A name for messages."""
        self._name = str(name)
        return self

    def get_data_type(self) -> DataType:
        """The type of an element; ``NOT_SET`` if the graph decides."""
        return self._data_type

    def set_data_type(self, data_type: DataType) -> Tensor:
        """The type of an element."""
        self._data_type = DataType(data_type)
        return self

    def get_dim(self) -> list[int]:
        """The sizes, outermost first; empty if not known yet."""
        return list(self._dim)

    def set_dim(self, dim: Sequence[int]) -> Tensor:
        """The sizes, outermost first."""
        self._dim = [int(size) for size in dim]
        return self

    def get_stride(self) -> list[int]:
        """The strides in elements; empty if not known yet."""
        return list(self._stride)

    def set_stride(self, stride: Sequence[int]) -> Tensor:
        """The stride in elements of each dimension."""
        self._stride = [int(step) for step in stride]
        return self

    def get_volume(self) -> int:
        """The number of elements."""
        return math.prod(self._dim)

    def get_is_virtual(self) -> bool:
        """Whether it exists only between nodes."""
        return self._is_virtual

    def set_is_virtual(self, is_virtual: bool) -> Tensor:
        """Whether it exists only between nodes."""
        self._is_virtual = bool(is_virtual)
        return self

    def set_output(self, is_output: bool) -> Tensor:
        """Whether executions return it."""
        return self.set_is_virtual(not is_output)

    def get_is_pass_by_value(self) -> bool:
        """Whether it is a number: of the graph, or of host memory at each execution."""
        return self._is_pass_by_value

    def set_is_pass_by_value(self, is_pass_by_value: bool) -> Tensor:
        """Whether it is in host memory at each execution."""
        self._is_pass_by_value = bool(is_pass_by_value)
        return self

    def set_value(self, value: bool | int | float, data_type: DataType | None = None) -> Tensor:
        """Makes it a number that is part of the graph: of a type, else of the tensor's, else of the one that fits the value."""
        kind = self._data_type if data_type is None else DataType(data_type)
        if kind is DataType.NOT_SET:
            kind = _inferred(value)
        if kind not in VALUES:
            names = ", ".join(of.name for of in VALUES)
            raise ValueError(f"set_value(): the type is {kind.name}, expected one of {names}")
        if self.get_volume() != 1:
            raise ValueError(f"set_value(): the tensor has {self.get_volume()} elements, expected one")
        vars(self).update(
            _value=_number(value, kind), _dim=[1], _stride=[1], _data_type=kind, _is_pass_by_value=True,
            _is_virtual=False,
        )  # fmt: skip
        return self

    def get_ragged_offset(self) -> Tensor | None:
        """The tensor with the beginning of each sequence; None if strides determine it."""
        return self._ragged_offset

    def set_ragged_offset(self, offset: Tensor | None) -> Tensor:
        """Where each sequence of a batch begins."""
        self._ragged_offset = offset
        return self

    def validate(self) -> Error:
        """Whether shape, strides and type are known and agree."""
        label = f"tensor {self._name!r}"
        if not self._dim and self._value is None and not self._is_pass_by_value:
            return bad(f"{label} has no sizes, call set_dim", ErrorCode.ATTRIBUTE_NOT_SET)
        if len(self._stride) != len(self._dim):
            return bad(f"{label} has the strides {self._stride}, expected {len(self._dim)} numbers as in {self._dim}")
        if self._data_type is DataType.NOT_SET:
            return bad(f"{label} has no type, call set_data_type", ErrorCode.ATTRIBUTE_NOT_SET)
        return Error()


#: hipDNN's name for it in C++.
TensorAttributes = Tensor
