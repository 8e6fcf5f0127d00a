#!/usr/bin/env python3
"""Shows the results of nvidia_bench.py as a picture and as lines of benches/results."""

import argparse
import csv
import os
import sys

# In the repository; what is packed for a machine with a GPU has it beside this file.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benches"))
from draw import draw

# The goals of cases by the first word of their names: the least ratio to PyTorch's faster way.
GOALS = {"matmul": 0.98, "matmul+bias+gelu": 0.98, "sdpa": 1.0, "conv": 1.0}
# For the other, memory-bound cases: the least ratio, and the least share of a copy's rate for generated kernels.
RATIO, SHARE = 1.0, 0.85
# The subject that computes rows one by one, for comparison.
APART = "NVRTC_ENGINE rows apart"


def figures(rows):
    """Cases in their order: the milliseconds of each who has some, and the rates of memory."""
    cases = {}
    for what, who, ms, _, rate, *_ in rows:
        try:
            cases.setdefault(what, {})[who] = float(ms), float(rate)
        except ValueError:
            pass  # The head, or a row without figures.
    return cases


def comparisons(rows):
    """Each engine's row beside the fastest way of PyTorch: case, engine, that way, ratio (above 1: the engine is faster),
    the share of a copy's rate (0 where arithmetic is the bound)."""
    cases = figures(rows)
    for what, times in cases.items():
        peers = {who: ms for who, (ms, _) in times.items() if who.startswith("torch")}
        if not peers:
            continue
        peer = min(peers, key=peers.get)
        word = next((word for word in ("float", "bfloat16") if word in what.split()), "")
        copy = next((times["torch"][1] for case, times in cases.items() if case.startswith(f"copy {word} ")), 0)
        for who, (ms, rate) in times.items():
            if not who.startswith("torch"):
                yield what, who, peer, peers[peer] / ms, rate / copy if rate and copy else 0


def gains(rows):
    """The speedup of workgroups that share rows: case, ratio (above 1: faster than a workgroup for each row)."""
    for what, times in figures(rows).items():
        if APART in times and "NVRTC_ENGINE" in times:
            yield what, times[APART][0] / times["NVRTC_ENGINE"][0]


def goals(what, who):
    """The goals of an engine: the least ratio and the least share of a copy's rate; none for an engine that is only compared."""
    ratio = "" if who == APART else f">= {GOALS.get(what.split()[0], RATIO)}"
    return ratio, f">= {SHARE}" if who == "NVRTC_ENGINE" else ""


def write_results(file, rows, date, machine, command):
    """Appends the lines of a CSV file in benches/results."""
    lines = csv.writer(file, lineterminator="\n")
    write = lambda what, value, unit, goal="": lines.writerow([date, machine, command, what, value, unit, goal])
    for what, times in figures(rows).items():
        for who, (ms, _) in times.items():
            write(f"{what}: {who}", f"{ms:.4f}", "ms")
    for what, who, peer, ratio, share in comparisons(rows):
        goal, least = goals(what, who)
        write(f"{what}: {who} against {peer}", f"{ratio:.3f}", "ratio", goal)
        if share:
            write(f"{what}: {who} of the rate of a copy", f"{share:.3f}", "ratio", least)
    for what, gain in gains(rows):
        write(f"{what}: rows shared against rows apart", f"{gain:.2f}", "ratio", ">= 1.0")


def write_picture(path, rows, machine):
    """Draws a bar for each comparison: the time of PyTorch's fastest way over the engine's."""
    groups = {}
    for what, who, _, ratio, share in comparisons(rows):
        if who == APART:
            continue
        name = who.replace("_ENGINE", "") + (f" · {100 * share:.0f} % of a copy" if share else "")
        row = {"value": ratio, "goal": goals(what, who)[0]}
        groups.setdefault(what, []).append((name, row))
    with open(path, "w", encoding="utf-8") as file:
        file.write(draw(f"Engines beside the fastest way of PyTorch: {machine}", groups))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", help="the CSV file of nvidia_bench.py")
    parser.add_argument("--picture", help="the picture to write, SVG")
    parser.add_argument("--results", help="the file of benches/results to append to")
    parser.add_argument("--date", default="", help="the day of the run")
    parser.add_argument("--machine", default="", help="the machine of the run")
    options = parser.parse_args()
    with open(options.figures, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    if options.picture:
        write_picture(options.picture, rows, options.machine)
    if options.results:
        with open(options.results, "a", encoding="utf-8") as file:
            write_results(file, rows, options.date, options.machine, "cargo xtask nvidia-test; sh run.sh")
    for what, gain in gains(rows):
        print(f"{gain:6.2f}        {what}: rows shared against rows apart")
    for what, who, peer, ratio, share in comparisons(rows):
        print(f"{ratio:6.3f} {share or '':<6.5} {what}: {who} against {peer}")


if __name__ == "__main__":
    main()
