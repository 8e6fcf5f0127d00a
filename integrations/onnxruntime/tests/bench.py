"""Latency of the networks beside CPUExecutionProvider: sessions in turns, medians, ratios above 1 where the provider is faster."""

import argparse
import csv
import math
import os
import platform
import statistics
import sys
import time

import networks
import onnxruntime as ort
import provider


def measure(session, feeds, seconds):
    """The mean of one run, in milliseconds."""
    count, begun = 0, time.perf_counter()
    while True:
        session.run(None, feeds)
        count += 1
        spent = time.perf_counter() - begun
        if spent >= seconds:
            return 1000 * spent / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--csv", help="a file that gets a line for each case")
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    rows = []
    for name, make in networks.NETWORKS.items():
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        for batch in arguments.batch:
            model, shapes = make(batch)
            feeds = networks.inputs(shapes, batch)
            begun = time.perf_counter()
            own = provider.session(model, threads=arguments.threads)
            middle = time.perf_counter()
            plain = provider.plain(model, arguments.threads)
            creation = (middle - begun) / (time.perf_counter() - middle)
            for session in (own, plain, own, plain):
                session.run(None, feeds)
            times = {"own": [], "plain": []}
            for turn in range(arguments.rounds):
                pair = [("own", own), ("plain", plain)]
                for which, session in pair if turn % 2 == 0 else reversed(pair):
                    times[which].append(measure(session, feeds, arguments.seconds))
            ratio = statistics.median(b / a for a, b in zip(times["own"], times["plain"]))
            row = [
                name,
                batch,
                *(round(statistics.median(times[of]), 2) for of in ("own", "plain")),
                round(ratio, 2),
                round(creation, 2),
            ]
            rows.append(row)
            print(
                "{:16} batch {:2}: {:8} ms, CPUExecutionProvider {:8} ms, ratio {:5}, creation {:5} times as long".format(
                    *row
                ),
                flush=True,
            )
    mean = math.exp(statistics.mean(math.log(row[4]) for row in rows))
    print(f"geometric mean {mean:.2f}, least {min(row[4] for row in rows)}")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            machine = f"{platform.machine()}, {arguments.threads} threads, ONNX Runtime {ort.__version__}, {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.0f}"
            writer.writerow(["network", "batch", "hipdnn_ms", "cpu_ms", "ratio", "creation_ratio", machine])
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
