"""Knobs: numbers and texts that tune an engine's plan."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

from .error import Error, bad
from .types import KnobValueType

__all__ = ["FloatConstraint", "IntConstraint", "Knob", "KnobSetting", "StringConstraint"]

KnobValue = Union[int, float, str]


class KnobSetting:
    """A knob and its value."""

    def __init__(self, knob_id: str, value: KnobValue) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise TypeError(f"value: is {value!r}, expected an integer, a float or a text")
        self._knob_id, self._value = str(knob_id), value

    @property
    def knob_id(self) -> str:
        """The knob's name."""
        return self._knob_id

    @property
    def value(self) -> KnobValue:
        """Its value."""
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnobSetting):
            return NotImplemented
        mine, its = self._value, other._value
        return self._knob_id == other._knob_id and type(mine) is type(its) and mine == its

    def __hash__(self) -> int:
        return hash((self._knob_id, self._value))

    def __repr__(self) -> str:
        return f"KnobSetting{{{self._knob_id}={self._value!r}}}"


class IntConstraint(NamedTuple):
    """Listed integers, or those of a range in steps."""

    min_value: int
    max_value: int
    step: int
    valid_values: frozenset[int]

    def allows(self, value: Any) -> bool:
        """Whether a knob takes a value."""
        if not isinstance(value, int):
            return False
        if self.valid_values:
            return value in self.valid_values
        is_bounded = self.min_value < self.max_value
        return not is_bounded or (
            self.min_value <= value <= self.max_value and (value - self.min_value) % self.step == 0
        )

    def __repr__(self) -> str:
        if self.valid_values:
            return f"IntConstraint{{{', '.join(map(str, sorted(self.valid_values)))}}}"
        return f"IntConstraint{{min={self.min_value}, max={self.max_value}, step={self.step}}}"


class FloatConstraint(NamedTuple):
    """Numbers of a range."""

    min_value: float
    max_value: float

    def allows(self, value: Any) -> bool:
        """Whether a knob takes a value."""
        is_bounded = self.min_value < self.max_value
        return isinstance(value, float) and (not is_bounded or self.min_value <= value <= self.max_value)

    def __repr__(self) -> str:
        return f"FloatConstraint{{min={self.min_value}, max={self.max_value}}}"


class StringConstraint(NamedTuple):
    """Listed texts, or texts up to a length."""

    max_length: int
    valid_values: frozenset[str]

    def allows(self, value: Any) -> bool:
        """Whether a knob takes a value."""
        if not isinstance(value, str):
            return False
        return value in self.valid_values if self.valid_values else not 0 < self.max_length < len(value)

    def __repr__(self) -> str:
        listed = "".join(f", {value}" for value in sorted(self.valid_values))
        return f"StringConstraint{{maxLength={self.max_length}{listed}}}"


class Knob:
    """A knob of an engine; `Graph.get_knobs_for_engine` returns them."""

    knob_id: str
    description: str
    is_deprecated: bool
    value_type: KnobValueType
    default_value: KnobValue
    constraint: IntConstraint | FloatConstraint | StringConstraint

    def __init__(self) -> None:
        raise TypeError("Knob: expected Graph.get_knobs_for_engine, which returns the knobs of an engine")

    @classmethod
    def _read(cls, told: tuple[Any, ...]) -> Knob:
        knob = object.__new__(cls)
        knob.knob_id, knob.description, knob.is_deprecated, knob.default_value, (least, most, step, listed) = told
        if isinstance(knob.default_value, str):
            knob.value_type, knob.constraint = KnobValueType.STRING, StringConstraint(most, frozenset(listed))
        elif isinstance(knob.default_value, float):
            knob.value_type, knob.constraint = KnobValueType.FLOAT64, FloatConstraint(least, most)
        else:
            knob.value_type, knob.constraint = KnobValueType.INT64, IntConstraint(least, most, step, frozenset(listed))
        return knob

    def validate(self, setting: KnobSetting) -> Error:
        """Whether the knob takes a setting's value."""
        if self.constraint.allows(setting.value):
            return Error()
        listed = sorted(getattr(self.constraint, "valid_values", ()))
        expected = f"one of the valid values {', '.join(map(repr, listed))}" if listed else repr(self.constraint)
        return bad(f"knob {self.knob_id}: the value is {setting.value!r}, expected {expected}")

    def __repr__(self) -> str:
        return f"Knob{{{self.knob_id}, {self.description!r}, default={self.default_value!r}, {self.constraint!r}}}"
