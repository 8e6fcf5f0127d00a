#!/usr/bin/env python3
"""What nvidia_bench.py measured, as a picture and as lines of benches/results."""

import argparse
import csv
import html

# What is wanted of cases by the first word of their names: the least ratio to the faster way of PyTorch.
GOALS = {"matmul": 0.98, "matmul+bias+gelu": 0.98, "sdpa": 1.0, "conv": 1.0}
# Of the rest, what memory bounds: the least ratio, and the least share of the rate of a copy, of kernels that are generated.
RATIO, SHARE = 1.0, 0.85


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


def write_results(file, rows, date, machine, command):
    """Appends the lines of a CSV file in benches/results."""
    lines = csv.writer(file, lineterminator="\n")
    write = lambda what, value, unit, goal="": lines.writerow([date, machine, command, what, value, unit, goal])
    for what, times in figures(rows).items():
        for who, (ms, _) in times.items():
            write(f"{what}: {who}", f"{ms:.4f}", "ms")
    for what, who, peer, ratio, share in comparisons(rows):
        goal = GOALS.get(what.split()[0], RATIO)
        write(f"{what}: {who} against {peer}", f"{ratio:.3f}", "ratio", f">= {goal}")
        if share:
            write(f"{what}: {who} of the rate of a copy", f"{share:.3f}", "ratio", f">= {SHARE}" if "NVRTC" in who else "")


def write_picture(path, rows, machine):
    """Draws a bar for each comparison: the time of PyTorch's fastest way over the engine's."""
    left, unit, most, step, head = 470, 190, 3.0, 22, 84
    bars = list(comparisons(rows))
    width, bottom = left + most * unit + 150, head + step * len(bars)
    title = "Engines for NVIDIA GPUs beside the fastest way of PyTorch: its time over ours"
    x = lambda value: left + unit * min(value, most)
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom + 44}" '
            f'viewBox="0 0 {width:.0f} {bottom + 44}" role="img">\n<title>{title}</title>\n'
            f'<rect width="{width:.0f}" height="{bottom + 44}" rx="8" fill="#ffffff"/>\n'
            '<g font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="13" fill="#1f2328">\n'
            f'<text x="24" y="32" font-size="18" font-weight="600">{title}</text>\n'
            f'<text x="24" y="54" fill="#57606a">{html.escape(machine)} · more than 1: ours is faster</text>\n'
        )
        for mark in range(int(most) + 1):
            colour = "#6e7781" if mark == 1 else "#d0d7de"
            file.write(
                f'<line x1="{x(mark):.0f}" x2="{x(mark):.0f}" y1="{head - 8}" y2="{bottom}" stroke="{colour}"/>'
                f'<text x="{x(mark):.0f}" y="{bottom + 20}" text-anchor="middle" fill="#57606a">{mark}</text>\n'
            )
        for place, (what, who, peer, ratio, share) in enumerate(bars):
            top = head + step * place
            colour = "#1a7f64" if ratio >= 1 else "#3455b3"
            name = html.escape(f"{what}, {who.removesuffix('_ENGINE')}")
            note = f"{ratio:.2f}" + (f" · {100 * share:.0f} % of a copy" if share else "")
            file.write(
                f'<text x="{left - 10}" y="{top + 13}" text-anchor="end">{name}</text>'
                f'<rect x="{left}" y="{top}" width="{x(ratio) - left:.1f}" height="16" rx="2" fill="{colour}">'
                f"<title>beside {html.escape(peer)}: {ratio:.3f}</title></rect>"
                f'<text x="{x(ratio) + 6:.1f}" y="{top + 13}">{note}</text>\n'
            )
        file.write("</g>\n</svg>\n")


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
    for what, who, peer, ratio, share in comparisons(rows):
        print(f"{ratio:6.3f} {share or '':<6.5} {what}: {who} against {peer}")


if __name__ == "__main__":
    main()
