"""``python -m onnxruntime_ep_hipdnn model.onnx``: which nodes of a model hipDNN computes, why not the others, and how long it takes."""

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
from .picture import draw

TYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
}  # fmt: skip


def _session(model: str, threads: int, settings: dict[str, str] | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if settings is None:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    devices = [device for device in ort.get_ep_devices() if device.ep_name == get_ep_name()]
    options.add_provider_for_devices(devices, settings)
    return ort.InferenceSession(model, options)


def _feeds(session: ort.InferenceSession) -> dict[str, Any]:
    random, feeds = np.random.default_rng(0), {}
    for value in session.get_inputs():
        if value.type not in TYPES:
            raise SystemExit(f"input {value.name!r} is {value.type}: values for it cannot be made up")
        dims = [dim if isinstance(dim, int) else 1 for dim in value.shape]
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m onnxruntime_ep_hipdnn", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--svg", help="a file for a picture of the division")
    parser.add_argument("--threads", type=int, default=0, help="threads of both providers; 0 is one for each processor")
    parser.add_argument("--take", choices=["profitable", "all"], default="profitable")
    parser.add_argument("--no-timing", action="store_true")
    arguments = parser.parse_args()
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
    if not arguments.no_timing:
        plain = _session(arguments.model, arguments.threads, None)
        own, theirs = _time([session, plain], _feeds(session))
        print(f"hipDNN {own:.2f} ms, CPUExecutionProvider {theirs:.2f} ms: {theirs / own:.2f} times as fast")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:
        # An invalid model or file: ONNX Runtime's message says which.
        sys.exit(f"onnxruntime_ep_hipdnn: {error}")
