"""Latency of whole networks, or of layers, on CPUs beside CPUExecutionProvider, by number of threads: each provider alone in its process, or both in one.

Prints for each case both medians, the worst run of ours over its median, and the ratio: above 1 the provider is faster."""

import argparse
import csv
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time


def networks(of_layers):
    import layers
    import more_networks
    import networks as first

    return layers.CASES if of_layers else {**first.NETWORKS, **more_networks.NETWORKS}


def session_of(which, model, threads, settings):
    import provider

    return provider.session(model, dict(settings), threads) if which == "hipdnn" else provider.plain(model, threads)


def times(session, feeds, seconds, clock):
    """Milliseconds of each run."""
    for _ in range(3):
        session.run(None, feeds)
    spent, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends or len(spent) < 5:
        begun = clock()
        session.run(None, feeds)
        spent.append((clock() - begun) * 1000)
    return spent


def child(arguments):
    """One process: makes the sessions once and measures them when told, one line each."""
    import networks as first

    which, path, shapes, batch, threads, settings, seconds, of_processor = json.loads(arguments)
    feeds = first.inputs(shapes, batch)
    of = ("hipdnn", "peer") if which == "both" else (which,)
    made = {name: session_of(name, path, threads, settings) for name in of}
    clock = time.process_time if of_processor else time.perf_counter
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({name: times(made[name], feeds, seconds, clock) for name in of}), flush=True)


class Process:
    def __init__(self, words, libraries=None):
        command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(words)]
        set_ = {"LD_LIBRARY_PATH": libraries} if libraries else {}
        self.of = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **set_}
        )

    def read(self, wanted=None):
        for line in self.of.stdout:
            if wanted is None and line.startswith("{"):
                return json.loads(line)
            if wanted and line.strip() == wanted:
                return None
        raise SystemExit("a process of the benchmark ended early")

    def measure(self):
        self.of.stdin.write("\n")
        self.of.stdin.flush()
        return self.read()

    def end(self):
        self.of.stdin.close()
        self.of.wait()


def case(model, shapes, batch, threads, arguments):
    """The runs of each way, a list of rounds, and of the peer."""
    ways = [
        (pool, options, libraries)
        for libraries in (None, *arguments.against)
        for pool in arguments.pool
        for options in arguments.options
    ]
    words, end = [model, shapes, batch, threads], [arguments.seconds, arguments.processor_time]
    which = "both" if arguments.together else "hipdnn"
    processes = []
    for way in ways:
        pairs = [pair.split("=", 1) for pair in way[1].split(",") if pair]
        processes.append((way, Process([which, *words, [["pool", way[0]], *pairs], *end], way[2])))
    if not arguments.together:
        processes.append((None, Process(["peer", *words, [], *end])))
    # All load ONNX Runtime at the same time.
    for _, process in processes:
        process.read("ready")
    runs, peer = {way: [] for way in ways}, []
    for turn in range(arguments.rounds):
        for way, process in processes if turn % 2 == 0 else processes[::-1]:
            found = process.measure()
            if "hipdnn" in found:
                runs[way].append(found["hipdnn"])
            if "peer" in found:
                peer.append(found["peer"])
    for _, process in processes:
        process.end()
    return runs, peer


def row_of(name, batch, threads, way, own, peer):
    """The figures of a way beside the peer's runs of the same rounds."""
    of_own, of_peer = ([statistics.median(runs) for runs in of] for of in (own, peer[: len(own)]))
    ours, theirs = statistics.median(of_own), statistics.median(of_peer)
    ratio = statistics.median(b / a for a, b in zip(of_own, of_peer))
    worst = max(max(runs) for runs in own) / ours
    return [name, batch, threads, way, round(ours, 3), round(theirs, 3), round(ratio, 3), round(worst, 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--batch", type=int, nargs="*", default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--pool", nargs="*", default=["auto"], help="the provider's option of this name")
    parser.add_argument("--options", nargs="*", default=[""], help="a way each: KEY=VALUE,... for the provider")
    parser.add_argument("--processor-time", action="store_true", help="of all threads, instead of the time that passes")
    parser.add_argument("--against", nargs="*", default=[], help="folders with other builds of the library")
    parser.add_argument("--bytes", choices=["QDQ", "QOperator"], help="quantize the networks first")
    parser.add_argument("--together", action="store_true", help="both sessions in one process, in turn")
    parser.add_argument("--layers", action="store_true", help="single operators and groups of them instead of networks")
    parser.add_argument("--csv", help="a file that gets a line for each case")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help="parts of names of networks")
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in networks(arguments.layers).items():
            if arguments.words and not any(word in name for word in arguments.words):
                continue
            for batch in arguments.batch:
                # Layers say how many rows or images they have.
                model, shapes, *items = make(batch)
                if arguments.bytes:
                    from bench import in_bytes

                    model = in_bytes(model, arguments.bytes, shapes, batch)
                path = os.path.join(folder, "model.onnx")
                with open(path, "wb") as file:
                    file.write(model)
                for threads in arguments.threads:
                    runs, peer = case(path, shapes, *(items or [batch]), threads, arguments)
                    for way, own in runs.items():
                        label = ", ".join(word for word in way if word)
                        rows.append(row_of(name, batch, threads, label, own, peer))
                        print(
                            "{:24} batch {:2} threads {:2} {:24}: {:9.3f} ms, peer {:9.3f} ms, ratio {:6.3f}, worst {:5.1f} x".format(
                                *rows[-1]
                            ),
                            flush=True,
                        )
    summary(rows)
    if arguments.csv:
        write(arguments, rows)
    return 0


def summary(rows):
    """Means by way and threads, and how much faster 16 threads are than 4."""
    ways = sorted({(row[3], row[2]) for row in rows})
    for way, threads in ways:
        of = [row[6] for row in rows if (row[3], row[2]) == (way, threads)]
        mean = math.exp(statistics.mean(math.log(ratio) for ratio in of))
        print(f"{way}, {threads} threads: geometric mean {mean:.3f}, least {min(of)}, of {len(of)} cases")


def write(arguments, rows):
    import onnxruntime as ort

    how = "both in one process" if arguments.together else "a process each"
    where = f"{platform.machine()}, {os.cpu_count()} processors, ONNX Runtime {ort.__version__}"
    with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["network", "batch", "threads", "way", "hipdnn_ms", "peer_ms", "ratio", "worst_over_median"]
        writer.writerow([*names, f"{where}, {how}, {time.strftime('%Y-%m-%d')}"])
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
