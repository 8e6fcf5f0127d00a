"""The cost of quantization, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple


class Layer(NamedTuple):
    """A layer of the quantized network compared with the one in floating point."""

    name: str
    kind: str
    #: The scale of its input; None if that is not quantized.
    scale: float | None
    #: The largest magnitude of its input, over all samples.
    amax: float
    #: The ratio of its result to its error, in decibels: 20 for an error of a tenth.
    sqnr: float
    #: The largest error of an element, relative to the largest magnitude of the result.
    worst: float
    #: The same ratio if only this layer is quantized.
    alone: float


def ratio(numpy: Any, right: Any, found: Any) -> tuple[float, float]:
    """The signal-to-error ratio in decibels, and the largest error relative to the largest magnitude."""
    right, found = numpy.asarray(right, numpy.float64), numpy.asarray(found, numpy.float64)
    error = found - right
    power, noise = float((right * right).sum()), float((error * error).sum())
    worst = float(numpy.abs(error).max()) / max(float(numpy.abs(right).max()), 1e-30) if right.size else 0.0
    if noise == 0:
        return math.inf, 0.0
    return 10 * math.log10(max(power, 1e-300) / noise), worst


def text(layers: Sequence[Layer]) -> str:
    """A table with a line per layer."""
    head = ("LAYER", "OPERATION", "AMAX", "SCALE", "DB", "ALONE", "WORST")
    rows = [head]
    for layer in layers:
        scale = "-" if layer.scale is None else f"{layer.scale:.4g}"
        rows.append(
            (
                layer.name,
                layer.kind,
                f"{layer.amax:.4g}",
                scale,
                f"{layer.sqnr:.1f}",
                f"{layer.alone:.1f}",
                f"{100 * layer.worst:.2f} %",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def svg(title: str, layers: Sequence[Layer]) -> str:
    """Bars of decibels: dark with everything quantized, light with only the layer quantized."""
    most = max((min(layer.alone, 90.0) for layer in layers), default=1.0)
    most = max(most, max((min(layer.sqnr, 90.0) for layer in layers), default=1.0), 1.0)
    left, wide, row, top = 200, 480, 30, 64
    height = top + row * len(layers) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 90}" height="{height}" font-family="sans-serif" font-size="12">'
        f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="white"/>',
        f'<text x="20" y="26" font-size="16" font-weight="600">{escape(title)}</text>',
        '<text x="20" y="46" fill="#57606a">result over error in decibels; light: the layer alone</text>',
    ]
    for at, layer in enumerate(layers):
        y = top + row * at
        parts.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{escape(layer.name[:28])}</text>')
        for value, colour, offset in ((layer.alone, "#b6c8ee", 2), (layer.sqnr, "#3455b3", 12)):
            length = wide * max(0.0, min(value, 90.0)) / most
            parts.append(f'<rect x="{left}" y="{y + offset}" width="{length:.1f}" height="9" fill="{colour}"/>')
        words = "exact" if math.isinf(layer.sqnr) else f"{layer.sqnr:.1f} dB"
        parts.append(
            f'<text x="{left + wide * max(0.0, min(layer.sqnr, 90.0)) / most + 6:.1f}" y="{y + 20}">{words}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
