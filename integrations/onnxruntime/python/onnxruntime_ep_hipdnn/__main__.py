"""``python -m onnxruntime_ep_hipdnn model.onnx``: which nodes of a model hipDNN computes, why not the others, how long it takes, and
which lose digits."""

from __future__ import annotations

import argparse
import collections
import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any

import numpy as np
import onnxruntime as ort

from . import get_ep_name, get_library_path
from .numerics import find_tool, measure, print_report
from .picture import draw

TYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
}  # fmt: skip


def _session(
    model: str, threads: int, settings: dict[str, str] | None, profile: str | None = None
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if settings is None:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    devices = [device for device in ort.get_ep_devices() if device.ep_name == get_ep_name()]
    options.add_provider_for_devices(devices, settings)
    return ort.InferenceSession(model, options)


def _shapes(words: list[str]) -> dict[str, list[int]]:
    shapes = {}
    for word in words:
        name, _, text = word.rpartition("=")
        try:
            shapes[name] = [int(dim) for dim in text.split(",") if dim]
        except ValueError:
            name = ""
        if not name:
            raise SystemExit(f"--shape {word}: expected NAME=1,3,320,320")
    return shapes


def _feeds(session: ort.InferenceSession, shapes: dict[str, list[int]], batch: int) -> dict[str, Any]:
    random, feeds = np.random.default_rng(0), {}
    inputs = session.get_inputs()
    unknown = set(shapes) - {value.name for value in inputs}
    if unknown:
        names = ", ".join(value.name for value in inputs)
        raise SystemExit(f"--shape {min(unknown)}: the model has no such input, expected one of {names}")
    for value in inputs:
        if value.type not in TYPES:
            raise SystemExit(f"input {value.name!r} is {value.type}: values for it cannot be made up")
        dims = shapes.get(value.name)
        if dims is None:
            # An open first axis is the batch.
            given = [batch if at == 0 and not isinstance(dim, int) else dim for at, dim in enumerate(value.shape)]
            if not all(isinstance(dim, int) for dim in given):
                raise SystemExit(
                    f"input {value.name!r} has open sizes {value.shape}: give them with --shape {value.name}=..."
                )
            dims = given
        kind = TYPES[value.type]
        made = random.standard_normal(dims) if np.dtype(kind).kind == "f" else np.ones(dims)
        feeds[value.name] = made.astype(kind)
    return feeds


def _time(
    sessions: list[ort.InferenceSession], feeds: dict[str, Any], rounds: int = 7, seconds: float = 0.3
) -> list[float]:
    times: list[list[float]] = [[] for _ in sessions]
    for session in sessions:
        session.run(None, feeds)
    for _ in range(rounds):
        for session, of in zip(sessions, times):
            count, begun = 0, time.perf_counter()
            while count == 0 or time.perf_counter() - begun < seconds:
                session.run(None, feeds)
                count += 1
            of.append(1000 * (time.perf_counter() - begun) / count)
    return [statistics.median(of) for of in times]


def _layers(session: ort.InferenceSession, feeds: dict[str, Any], category: str, runs: int = 15) -> dict[str, float]:
    """The median time of each event of a profile in milliseconds a run."""
    for _ in range(runs):
        session.run(None, feeds)
    path = session.end_profiling()
    times: dict[str, list[float]] = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for event in json.load(file):
            if event.get("cat") == category and "dur" in event:
                times[event["name"].removesuffix("_kernel_time")].append(event["dur"] / 1000)
    return {name: statistics.median(of) * len(of) / runs for name, of in times.items()}


def _print_layers(own: dict[str, float], theirs: dict[str, float], nodes: list[dict[str, Any]]) -> None:
    # Nodes in blocked layouts are called by their result: `y_nchwc`.
    made_by = {name: node["name"] for node in nodes for name in node.get("outputs", [])}
    left: dict[str, float] = collections.defaultdict(float)
    for name, time_of in theirs.items():
        left[made_by.get(name.removesuffix("_nchwc"), name)] += time_of
    print(f"{'hipDNN':>10} {'CPU EP':>10}  ms a run in the profile, for each operation or fused group")
    for name, time_of in sorted(own.items(), key=lambda of: -of[1]):
        group, _, how = name.partition(": ")[2].rpartition(" [")
        found = [left.pop(node) for node in group.split(", ") if node in left]
        theirs_of = f"{sum(found):10.3f}" if found else " " * 10
        print(f"{time_of:10.3f} {theirs_of}  {group or name} [{how or ']'}")
    for name, time_of in sorted(left.items(), key=lambda of: -of[1]):
        if time_of >= 0.001:
            print(f"{'':>10} {time_of:10.3f}  {name}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m onnxruntime_ep_hipdnn", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--svg", help="a file for a picture of the division")
    parser.add_argument("--threads", type=int, default=0, help="threads of both providers; 0 is one for each processor")
    parser.add_argument("--take", choices=["profitable", "all"], default="profitable")
    parser.add_argument("--shape", action="append", default=[], help="the sizes of an input: x=1,3,320,320")
    parser.add_argument("--batch", type=int, default=1, help="the size of open first axes")
    parser.add_argument(
        "--layers", action="store_true", help="the time of each layer with both providers (ONNX Runtime 1.25)"
    )
    parser.add_argument("--no-timing", action="store_true")
    parser.add_argument("--numerics", action="store_true", help="which nodes lose digits, for values that are made up")
    parser.add_argument("--tool", help="hipDNN's command line tool, for --numerics; hipdnn in the PATH by default")
    arguments = parser.parse_args()
    tool = find_tool(arguments.tool) if arguments.numerics else ""
    ort.register_execution_provider_library("hipdnn", get_library_path())
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        settings = {"report": report, "take": arguments.take, "threads": str(arguments.threads)}
        session = _session(arguments.model, arguments.threads, settings)
        graphs = []
        if os.path.exists(report):
            with open(report, encoding="utf-8") as lines:
                graphs = [json.loads(line)["nodes"] for line in lines]
    nodes = max(graphs, key=len, default=[])
    groups: dict[int, list[str]] = collections.defaultdict(list)
    left: collections.Counter[str] = collections.Counter()
    for node in nodes:
        if node["subgraph"] is None:
            left[f"{node['operator']}: {node['reason']}"] += 1
        else:
            groups[node["subgraph"]].append(node["operator"])
    print(f"hipDNN takes {sum(map(len, groups.values()))} of {len(nodes)} nodes in {len(groups)} subgraphs")
    for group, operators in groups.items():
        counts = ", ".join(f"{count} {name}" for name, count in collections.Counter(operators).most_common())
        print(f"  subgraph {group}: {counts}")
    for reason, count in left.most_common():
        print(f"  left {count} {reason}")
    if arguments.svg:
        with open(arguments.svg, "w", encoding="utf-8") as file:
            file.write(draw(nodes))
    if arguments.numerics:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"record": folder, "take": arguments.take, "threads": str(arguments.threads)}
            recorded = _session(arguments.model, arguments.threads, settings)
            recorded.run(None, _feeds(recorded, _shapes(arguments.shape), arguments.batch))
            print_report(measure(folder, tool))
    if not arguments.no_timing:
        plain = _session(arguments.model, arguments.threads, None)
        feeds = _feeds(session, _shapes(arguments.shape), arguments.batch)
        own, theirs = _time([session, plain], feeds)
        if arguments.layers:
            with tempfile.TemporaryDirectory() as folder:
                prefix, given = (
                    os.path.join(folder, "profile"),
                    {"take": arguments.take, "threads": str(arguments.threads)},
                )
                # One at a time: the threads of an idle session wait in a loop, and disturb the other's.
                del session, plain
                found = [
                    _layers(_session(arguments.model, arguments.threads, of, prefix), feeds, category)
                    for of, category in ((given, "Kernel"), (None, "Node"))
                ]
                _print_layers(found[0], found[1], nodes)
        print(f"hipDNN {own:.2f} ms, CPUExecutionProvider {theirs:.2f} ms: {theirs / own:.2f} times as fast")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:
        # An invalid model or file: ONNX Runtime's message says which.
        sys.exit(f"onnxruntime_ep_hipdnn: {error}")
