"""Ranges of tensors, estimated from samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types import data_type
from .recipe import LARGEST, Recipe

#: The number of ranges that the observer "mse" tries, from the largest magnitude down to a fifth of it.
_TRIES = 40


def scales(numpy: Any, values: Any, kind: data_type, recipe: Recipe, axes: Sequence[int]) -> Any:
    """The scales of an array, reduced over these axes, which keep size one."""
    largest = LARGEST[kind]
    magnitudes = numpy.abs(values)
    whole = magnitudes.max(axis=tuple(axes), keepdims=True)
    # If all elements are zero, any scale will do.
    whole = numpy.where(whole > 0, whole, largest).astype(numpy.float32)
    if recipe.observer == "percentile":
        part = numpy.quantile(magnitudes, recipe.percentile, axis=tuple(axes), keepdims=True).astype(numpy.float32)
        return numpy.where(part > 0, part, whole) / numpy.float32(largest)
    if recipe.observer == "min-max":
        return whole / numpy.float32(largest)
    best = whole / numpy.float32(largest)
    least = _error(numpy, values, best, kind, axes)
    for step in range(1, _TRIES):
        tried = whole * numpy.float32((1 - 0.8 * step / _TRIES) / largest)
        error = _error(numpy, values, tried, kind, axes)
        best = numpy.where(error < least, tried, best)
        least = numpy.minimum(error, least)
    return best.astype(numpy.float32)


def _error(numpy: Any, values: Any, scale: Any, kind: data_type, axes: Sequence[int]) -> Any:
    """The mean squared error of values rounded with a scale."""
    difference = rounded(numpy, values, scale, kind) * scale - values
    return (difference * difference).mean(axis=tuple(axes), keepdims=True)


def rounded(numpy: Any, values: Any, scale: Any, kind: data_type) -> Any:
    """values / scale rounded to the type, in single precision."""
    largest = LARGEST[kind]
    part = (values / scale).astype(numpy.float32)
    if kind in (data_type.INT8, data_type.INT4):
        # Graphs round halves up.
        return numpy.clip(numpy.floor(part + numpy.float32(0.5)), -largest, largest)
    digits, least = (3, -6) if kind is data_type.FP8_E4M3 else (2, -14)
    exponent = numpy.floor(numpy.log2(numpy.maximum(numpy.abs(part), numpy.float32(2.0**least))))
    step = numpy.exp2(exponent - digits).astype(numpy.float32)
    return numpy.clip(numpy.rint(part / step) * step, -largest, largest)


class Range:
    """The values of a tensor in all samples, or a subset that represents their range."""

    #: The most values kept of a tensor; each sample is subsampled evenly.
    MOST = 1 << 20

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.amax = 0.0

    def add(self, numpy: Any, values: Any, samples: int) -> None:
        """Adds the values of one sample of several."""
        flat = numpy.asarray(values, numpy.float32).reshape(-1)
        if not flat.size:
            return
        largest = numpy.abs(flat)
        self.amax = max(self.amax, float(largest.max()))
        step = max(1, flat.size * samples // self.MOST)
        self.parts.append(flat[::step].copy())
        # The largest value is always kept.
        self.parts.append(flat[[int(largest.argmax())]])

    def scale(self, numpy: Any, kind: data_type, recipe: Recipe) -> float:
        """The scale of the tensor."""
        values = numpy.concatenate(self.parts) if self.parts else numpy.zeros(1, numpy.float32)
        return float(scales(numpy, values, kind, recipe, (0,))[0])
