"""Latency of the networks compared with CPUExecutionProvider, or on a GPU with PyTorch's functions: alternating sessions, medians, ratios above 1
where the provider is faster."""

import argparse
import csv
import math
import os
import platform
import statistics
import sys
import tempfile
import threading
import time

import more_networks
import networks
import numpy as np
import onnx
import onnxruntime as ort
import provider


def measure(session, feeds, seconds, callers=1):
    """The mean time from one run to the next, in milliseconds, where several threads run a session."""
    rates, ready = [0.0] * callers, threading.Barrier(callers)

    def work(caller):
        # PyTorch keeps cuDNN's plans per thread: the first run of a thread may take a second.
        session.run(None, feeds)
        ready.wait()
        count, begun, now = 0, time.perf_counter(), 0.0
        while now < seconds:
            session.run(None, feeds)
            count, now = count + 1, time.perf_counter() - begun
        rates[caller] = count / now

    provider.in_threads(work, callers)
    return 1000 / sum(rates)


def in_bytes(model, form, shapes, batch):
    """A model, quantized."""
    from quantized import quantized

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        with open(quantized(path, form, lambda _, seed: networks.inputs(shapes, batch, seed)), "rb") as file:
            return file.read()


def in_half(model, feeds):
    """A model of half precision, but for the factors of Resize, and its inputs."""
    made = onnx.load_from_string(model)
    graph, half = made.graph, onnx.TensorProto.FLOAT16
    factors = {node.input[2] for node in graph.node if node.op_type == "Resize"}
    for weight in graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT and weight.name not in factors:
            array = onnx.numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = half
    for node in graph.node:
        for of in node.attribute:
            if node.op_type == "Cast" and of.i == onnx.TensorProto.FLOAT:
                of.i = half
    feeds = {of: np.float16(array) if array.dtype == np.float32 else array for of, array in feeds.items()}
    return made.SerializeToString(), feeds


def creation(make, feeds, clock=time.perf_counter):
    """A new session, and the seconds to create it and to finish its first run."""
    begun = clock()
    session = make()
    made = clock()
    session.run(None, feeds)
    return session, made - begun, clock() - begun


def creations(arguments):
    """The processor's time to create sessions of all networks, and of the models in a folder, on one thread, and until the first run ends:
    medians of turns, beside CPUExecutionProvider's."""
    import packages

    cases = []
    for name, make in {**networks.NETWORKS, **more_networks.NETWORKS}.items():
        cases.append((name, lambda make=make: make(1)[0], lambda _, make=make: networks.inputs(make(1)[1], 1)))
    for path in packages.installed(arguments.models) if arguments.models else []:
        name = os.path.relpath(path, arguments.models)
        cases.append((name, lambda path=path: path, lambda of, path=path: packages.feeds_of(path, of.get_inputs())))
    rows = []
    for name, make, feeds_of in cases:
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        model, times = make(), []
        makers = [lambda: provider.session(model, {}, 1), lambda: provider.plain(model, 1)]
        feeds = feeds_of(makers[1]())
        for turn in range(arguments.creations):
            spent = [None, None]
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                session, *spent[which] = creation(makers[which], feeds, time.process_time)
                del session
            times.append(spent)
        of = [ratios([(own[at], plain[at]) for own, plain in times]) for at in (0, 1)]
        rows.append(
            [name, *(round(value, 2) for own, plain, ratio in of for value in (1e3 * own, 1e3 * plain, 1 / ratio))]
        )
        print(
            "{}: created in {} ms, CPUExecutionProvider {} ms, {} times as long; with a run {}, {}, {}".format(
                *rows[-1]
            ),
            flush=True,
        )
    of = [row[3] for row in rows]
    print(f"median {statistics.median(of):.2f}, most {max(of)}")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            where = f"{platform.machine()}, processor's time on one thread, ONNX Runtime {ort.__version__}, {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.0f}"
            names = ["created_ms", "peer_ms", "ratio", "with_run_ms", "peer_with_run_ms", "ratio_with_run"]
            writer.writerow(["model", *names, where])
            writer.writerows(rows)
    return 0


def ratios(pairs):
    """The medians of times, and of the ratios of each turn."""
    own, plain = zip(*pairs)
    return statistics.median(own), statistics.median(plain), statistics.median(b / a for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--creations", type=int, default=3)
    parser.add_argument("--pool", choices=["auto", "session", "engine"], default="auto")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--bytes", choices=["QDQ", "QOperator"], help="quantize the networks first")
    parser.add_argument("--csv", help="a file that gets a line for each case")
    parser.add_argument("--gpu", action="store_true", help="on a GPU, beside PyTorch")
    parser.add_argument("--captured", action="store_true", help="beside PyTorch's functions, captured as a CUDA graph")
    parser.add_argument("--half", action="store_true", help="networks of half precision")
    parser.add_argument(
        "--uncaptured", action="store_true", help="on a GPU, beside sessions that do not capture their runs"
    )
    parser.add_argument("--vulkan", action="store_true", help="through Vulkan, beside device=gpu")
    parser.add_argument("--callers", type=int, default=1, help="how many threads run each session")
    parser.add_argument("--bound", action="store_true", help="inputs and outputs stay on the GPU")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--create", action="store_true", help="only create sessions, of all networks")
    parser.add_argument("--models", help="a folder of packages, whose models' sessions are created, too")
    arguments = parser.parse_args()
    if arguments.create:
        return creations(arguments)
    peer, rows = "CPUExecutionProvider", []
    on_gpu = arguments.gpu or arguments.captured or arguments.uncaptured
    if arguments.gpu or arguments.captured:
        import peer as pytorch

        peer = "PyTorch, captured" if arguments.captured else "PyTorch"
    elif arguments.uncaptured:
        peer = "uncaptured"
    elif arguments.vulkan:
        peer = "device=gpu"
    # Only those that are named are taken of the second list.
    more = more_networks.NETWORKS if arguments.words else {}
    for name, make in {**networks.NETWORKS, **more}.items():
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        for batch in arguments.batch:
            model, shapes = make(batch)
            feeds = networks.inputs(shapes, batch)
            if arguments.half:
                model, feeds = in_half(model, feeds)
            if arguments.bytes:
                model = in_bytes(model, arguments.bytes, shapes, batch)
            device = "vulkan" if arguments.vulkan else "gpu" if on_gpu else "cpu"
            settings = {"pool": arguments.pool, "device": device}

            def other(model=model, settings=settings, feeds=feeds):
                if arguments.captured:
                    return pytorch.Captured(pytorch.Session(model), feeds)
                if arguments.gpu:
                    return pytorch.Session(model)
                if arguments.uncaptured:
                    return provider.session(model, {**settings, "capture": "0"}, arguments.threads)
                if arguments.vulkan:
                    return provider.session(model, {**settings, "device": "gpu"}, arguments.threads)
                return provider.plain(model, arguments.threads)

            makers = (
                lambda model=model, settings=settings: provider.session(model, settings, arguments.threads),
                other,
            )
            made, first, sessions = [], [], [None, None]
            for turn in range(arguments.creations):
                spent = [None, None]
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    sessions[which] = None
                    sessions[which], *spent[which] = creation(makers[which], feeds)
                made.append((spent[0][0], spent[1][0]))
                first.append((spent[0][1], spent[1][1]))
            if arguments.bound:
                of_peer = pytorch.Bound if arguments.gpu else provider.Bound
                # What is captured has its own.
                bound = sessions[1] if arguments.captured else of_peer(sessions[1], feeds)
                sessions = [provider.Bound(sessions[0], feeds), bound]
                for session in sessions:
                    session.run()
                apart = provider.difference(*(session.results()[0] for session in sessions))
            else:
                apart = provider.difference(*(session.run(None, feeds)[0] for session in sessions))
            times = []
            for turn in range(arguments.rounds):
                spent = [None, None]
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    given = None if arguments.bound else feeds
                    spent[which] = measure(sessions[which], given, arguments.seconds, arguments.callers)
                times.append(spent)
            own, plain, ratio = ratios(times)
            row = [
                f"{name}, bound" if arguments.bound else name,
                batch,
                round(own, 2),
                round(plain, 2),
                round(ratio, 2),
            ]
            row += [round(1 / ratios(of)[2], 2) for of in (made, first)] + [f"{apart:.0e}", peer]
            rows.append(row)
            print(
                "{:22} batch {:2}: {:8} ms, {peer} {:8} ms, ratio {:5}, creation {:5} times as long, with the first run {:5} times, {} apart".format(
                    *row[:-1], peer=peer
                ),
                flush=True,
            )
    mean = math.exp(statistics.mean(math.log(row[4]) for row in rows))
    print(f"geometric mean {mean:.2f}, least {min(row[4] for row in rows)}")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            machine = f"{platform.machine()}, {arguments.threads} threads, {arguments.callers} callers, ONNX Runtime {ort.__version__}, {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.0f}"
            writer.writerow(
                [
                    "network",
                    "batch",
                    "hipdnn_ms",
                    "peer_ms",
                    "ratio",
                    "creation_ratio",
                    "first_run_ratio",
                    "apart",
                    "peer",
                    machine,
                ]
            )
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
