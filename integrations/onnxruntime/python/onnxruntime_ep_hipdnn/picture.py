"""A picture of a model's partition: a box for each subgraph and for each run of other nodes."""

from __future__ import annotations

import collections
from html import escape
from typing import Any

WIDTH, LINE, GAP = 420, 18, 26


def _blocks(nodes: list[dict[str, Any]]) -> list[tuple[Any, list[dict[str, Any]]]]:
    """Groups the nodes of a subgraph at its first one, and neighbouring other nodes."""
    blocks: list[tuple[Any, list[dict[str, Any]]]] = []
    places: dict[int, int] = {}
    for node in nodes:
        group = node["subgraph"]
        if group is not None and group in places:
            blocks[places[group]][1].append(node)
        elif group is None and blocks and blocks[-1][0] is None:
            blocks[-1][1].append(node)
        else:
            if group is not None:
                places[group] = len(blocks)
            blocks.append((group, [node]))
    return blocks


def draw(nodes: list[dict[str, Any]]) -> str:
    """The picture as SVG."""
    blocks = _blocks(nodes)
    writer = {name: at for at, (_, members) in enumerate(blocks) for node in members for name in node["outputs"]}
    top, parts, boxes = GAP, [], []
    for group, members in blocks:
        if group is None:
            title, counts = (
                "left to others",
                collections.Counter(f"{node['operator']}: {node['reason']}" for node in members),
            )
        else:
            title, counts = f"hipDNN, subgraph {group}", collections.Counter(node["operator"] for node in members)
        lines = [f"{title}: {len(members)} nodes"] + [f"{count} {text}" for text, count in counts.most_common(8)]
        height = LINE * len(lines) + 12
        fill = "#f3f3f3" if group is None else "#d7ecd9"
        parts.append(f'<rect x="60" y="{top}" width="{WIDTH}" height="{height}" rx="6" fill="{fill}" stroke="#555"/>')
        for at, line in enumerate(lines):
            weight = ' font-weight="bold"' if at == 0 else ""
            short = line if len(line) <= 62 else line[:61] + "…"
            parts.append(f'<text x="72" y="{top + LINE * (at + 1)}"{weight}>{escape(short)}</text>')
        boxes.append((top, height))
        top += height + GAP
    edges = {
        (writer[name], at)
        for at, (_, members) in enumerate(blocks)
        for node in members
        for name in node["inputs"]
        if name in writer
    }
    for a, b in sorted(edge for edge in edges if edge[0] != edge[1]):
        (begin, high), (end, _) = boxes[a], boxes[b]
        y, to = begin + high / 2, end + 10
        bend = 60 - min(50, 12 * abs(b - a))
        parts.append(
            f'<path d="M60 {y} C {bend} {y} {bend} {to} 58 {to}" fill="none" stroke="#777" marker-end="url(#a)"/>'
        )
    head = '<marker id="a" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto"><path d="M0 0 L6 3 L0 6 z" fill="#777"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 80}" height="{top}" font-family="sans-serif" font-size="12">'
        f"<defs>{head}</defs>{''.join(parts)}</svg>\n"
    )
