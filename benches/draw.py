#!/usr/bin/env python3
"""Draws the pictures of docs/images from the figures of benches/results: bars of ratios, more than 1 if ours is faster.

python3 benches/draw.py            writes them
python3 benches/draw.py --check    fails if one does not match the figures
"""

import argparse
import csv
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT, UNIT, BAR, MOST = 470, 110, 16, 3.6
COLOURS = {True: ("#1a7f64", "#7fb8a6"), False: ("#3455b3", "#94a6da")}


def figures(name):
    """The rows of a file that are ratios to a peer, with the goal if there is one."""
    with (ROOT / "benches/results" / name).open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["unit"] == "ratio" and ">=" in row["goal"]]


def cpu_engine():
    """A bar for each machine beneath the other."""
    groups = {}
    for row in figures("cpu_engine.csv"):
        what = row["what"].split(" against ")[0].split(" (")[0]
        groups.setdefault(what, []).append((row["machine"].split(" (")[0].removesuffix(" virtual machine"), row))
    return "CPU_ENGINE beside the faster of ONNX Runtime and oneDNN, two threads", groups


def nvidia():
    """The faster of our engines on the day of the last run."""
    groups, rows = {}, figures("nvidia_h100.csv")
    last = max(row["date"] for row in rows)
    for row in (row for row in rows if row["date"] == last):
        what, _, against = row["what"].partition(": ")
        # Others compare an engine with itself.
        if " against torch" not in against:
            continue
        bar = (against.split(" against ")[0], row)
        known = groups.setdefault(what, [bar])
        if float(row["value"]) > float(known[0][1]["value"]):
            groups[what] = [bar]
    return "Our engines beside the fastest way through PyTorch 2.11 on an NVIDIA H100", groups


PICTURES = {"cpu-engine.svg": cpu_engine, "nvidia-engines.svg": nvidia}


def draw(title, groups):
    """An SVG with a group of bars for each name."""
    lines, top = [], 76
    for name, bars in groups.items():
        middle = top + (BAR + 3) * len(bars) / 2 + 3
        lines.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
        for place, (who, row) in enumerate(bars):
            value, goal = float(row["value"]), float(row["goal"].removeprefix(">= "))
            width = UNIT * min(value, MOST)
            colour = COLOURS[value >= 1][place % 2]
            lines.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
            lines.append(
                f'<text x="{LEFT + max(width, UNIT) + 8:.1f}" y="{top + 13}">{value:.2f} <tspan fill="#57606a">{escape(who)}</tspan></text>'
            )
            at = LEFT + UNIT * goal
            lines.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top - 2}" y2="{top + BAR + 2}" stroke="#b35900" stroke-width="2" stroke-dasharray="3 2"/>'
            )
            top += BAR + 3
        top += 9
    axis = [
        f'<line x1="{LEFT + UNIT * mark}" x2="{LEFT + UNIT * mark}" y1="66" y2="{top}" stroke="{"#6e7781" if mark == 1 else "#d0d7de"}"/>'
        f'<text x="{LEFT + UNIT * mark}" y="{top + 18}" text-anchor="middle" fill="#57606a">{mark}</text>'
        for mark in range(4)
    ]
    width, height = LEFT + int(UNIT * MOST) + 190, top + 32
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<g font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#1f2328">',
        f'<text x="24" y="32" font-size="18" font-weight="600">{escape(title)}</text>',
        '<text x="24" y="54" fill="#57606a">time of the peer over ours: more than 1 where ours is faster; dashes: the goal</text>',
        *axis, *lines, "</g>", "</svg>", "",
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where a picture is another one")
    check, differ = parser.parse_args().check, []
    for name, read in PICTURES.items():
        path, picture = ROOT / "docs/images" / name, draw(*read())
        if check and (not path.exists() or path.read_text(encoding="utf-8") != picture):
            differ.append(name)
        elif not check:
            path.write_text(picture, encoding="utf-8")
    if differ:
        sys.exit(f"docs/images: {', '.join(differ)} not as benches/results says; python3 benches/draw.py writes them")


if __name__ == "__main__":
    main()
