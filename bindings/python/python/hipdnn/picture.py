"""A graph as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from .node import Node
from .tensor import Tensor
from .types import data_type

#: Height of a box, gap between boxes and width of a letter, in pixels.
HEIGHT, GAP, LETTER = 44, 26, 7.3


class Box(NamedTuple):
    """An input tensor, or a node with its outputs."""

    lines: tuple[str, str]
    is_node: bool
    before: tuple[int, ...]

    @property
    def width(self) -> float:
        return 18 + LETTER * max(map(len, self.lines))


def _shape(tensor: Tensor) -> str:
    kind = "" if tensor.data_type is data_type.NOT_SET else f" {tensor.data_type.value}"
    return "?" if tensor.dim is None else " x ".join(map(str, tensor.dim)) + kind


def _boxes(nodes: Sequence[Node]) -> list[Box]:
    boxes: list[Box] = []
    made: dict[int, int] = {}
    for node in nodes:
        for tensor in node.inputs.values():
            if tensor is not None and tensor.uid not in made and tensor.producer is None and tensor.value is None:
                made[tensor.uid] = len(boxes)
                boxes.append(Box((tensor.name or f"tensor {tensor.uid}", _shape(tensor)), False, ()))
        before = tuple(made[t.uid] for t in node.inputs.values() if t is not None and t.uid in made)
        first = next(iter(node.outputs.values()))
        made.update((tensor.uid, len(boxes)) for tensor in node.outputs.values())
        boxes.append(Box((node.name, _shape(first)), True, before))
    return boxes


def svg(nodes: Sequence[Node]) -> str:
    """Operations from top to bottom, each with the shape of its first result; inputs are grey."""
    boxes = _boxes(nodes)
    rows: list[int] = []
    for box in boxes:
        rows.append(max((rows[at] + 1 for at in box.before), default=0))
    # Inputs are placed above their first reader.
    for at, box in enumerate(boxes):
        readers = [rows[reader] for reader, other in enumerate(boxes) if at in other.before]
        if not box.is_node and readers:
            rows[at] = min(readers) - 1
    width, places = 0.0, [(0.0, 0.0)] * len(boxes)
    for row in range(max(rows, default=-1) + 1):
        x = float(GAP)
        for at, box in enumerate(boxes):
            if rows[at] == row:
                places[at] = (x, GAP + row * (HEIGHT + GAP))
                x += box.width + GAP
        width = max(width, x)
    height = GAP + (max(rows, default=-1) + 1) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" font-family="monospace" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for at, box in enumerate(boxes):
        x, y = places[at]
        for before in box.before:
            from_x, from_y = places[before]
            parts.append(
                f'<line x1="{from_x + boxes[before].width / 2:.0f}" y1="{from_y + HEIGHT:.0f}" '
                f'x2="{x + box.width / 2:.0f}" y2="{y:.0f}" stroke="#888"/>'
            )
    for (x, y), box in zip(places, boxes):
        fill = "#dbe9fb" if box.is_node else "#eee"
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{HEIGHT}" rx="6" fill="{fill}"/>')
        for line, text in enumerate(box.lines):
            colour = "#555" if line else "black"
            parts.append(f'<text x="{x + 9:.0f}" y="{y + 18 + 16 * line:.0f}" fill="{colour}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"])
