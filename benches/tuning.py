"""How good the searches of `hipdnn tune` are, and what they cost.

    python benches/tuning.py target/stage benches/results/tuning.csv

For each graph of examples_graphs and ten of the shapes of ResNet-50, BERT and GPT: a search of CPU_ENGINE by halving with no knowledge of other graphs, an
exhaustive one, and then the plans of both and of the default choice, executed in turn by the Python package. A line of the file for each:
median milliseconds of the three, the seconds of both searches, and how many configurations each tried.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hipdnn
import ml_dtypes
import numpy as np

ROUNDS = 41


def shapes():
    """Graphs of other networks' layers, by their names."""
    for name, (n, c, h, k, r, stride) in {
        "resnet50 conv 3x3, 64": (1, 64, 56, 64, 3, 1), "resnet50 conv 1x1, 256": (1, 256, 56, 64, 1, 1),
        "resnet50 conv 3x3, 256": (1, 256, 14, 256, 3, 1), "resnet50 conv 7x7": (1, 3, 224, 64, 7, 2),
        "resnet50 conv 1x1, 2048": (1, 512, 7, 2048, 1, 1),
    }.items():  # fmt: skip
        graph = hipdnn.Graph(name)
        x, w, b = graph.tensor([n, c, h, h]), graph.tensor([k, c, r, r]), graph.tensor([1, k, 1, 1])
        y = graph.conv_fprop(x, w, padding=[r // 2] * 2, stride=[stride] * 2)
        graph.relu(graph.add(y, b)).set_output(True)
        yield graph
    for name, (m, k, n) in {
        "bert matmul 768": (128, 768, 768), "bert matmul 3072": (128, 768, 3072), "gpt matmul 1": (1, 1024, 4096),
    }.items():  # fmt: skip
        graph = hipdnn.Graph(name)
        y = graph.matmul(graph.tensor([1, m, k]), graph.tensor([1, k, n]))
        graph.gelu(graph.add(y, graph.tensor([1, 1, n]))).set_output(True)
        yield graph
    graph = hipdnn.Graph("bert residual")
    graph.relu(graph.add(graph.tensor([8, 128, 768]), graph.tensor([8, 128, 768]))).set_output(True)
    yield graph
    graph = hipdnn.Graph("gpt sum of rows")
    graph.reduction(graph.tensor([64, 256, 1024]), hipdnn.reduction_mode.ADD, axis=-1).set_output(True)
    yield graph


def tool(prefix, cache, *arguments):
    settings = {**os.environ, "HIPDNN_CACHE_DIR": cache}
    done = subprocess.run(
        [f"{prefix}/bin/hipdnn", *arguments], env=settings, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return done.stdout


TYPES = {"float": np.float32, "half": np.float16, "double": np.float64, "int32": np.int32, "bfloat16": ml_dtypes.bfloat16,
         "fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip


def array_of(spec, rng):
    """Random numbers from 0.5 to 1.5, which are right for variances and divisors, too, laid out as a tensor is."""
    dims, strides = spec["dims"], spec["strides"]
    order = sorted(range(len(dims)), key=lambda axis: (-strides[axis], axis))
    back = sorted(range(len(dims)), key=order.__getitem__)
    values = rng.uniform(0.5, 1.5, [dims[axis] for axis in order])
    return values.astype(TYPES[spec["data_type"]]).transpose(back)


def in_turn(plans):
    """Median milliseconds of plans that are executed in turn, each in rows that take a tenth of a millisecond at least."""
    calls = []
    for path in plans:
        graph = hipdnn.load(path)
        rng = np.random.default_rng(1)
        specs = {spec["uid"]: spec for spec in graph._specs_saved}
        arrays = {tensor: array_of(specs[tensor.uid], rng) for tensor in (*graph._inputs, *graph._outputs)}
        calls.append(lambda graph=graph, arrays=arrays: graph.execute(arrays))
    times = [[] for _ in calls]
    counts = []
    for call in calls:
        call()
        started = time.perf_counter()
        call()
        counts.append(max(1, int(1e-4 / (time.perf_counter() - started))))
    for _ in range(ROUNDS):
        for call, count, found in zip(calls, counts, times):
            started = time.perf_counter()
            for _ in range(count):
                call()
            found.append(1000 * (time.perf_counter() - started) / count)
    return [statistics.median(found) for found in times]


def main(prefix, output):
    folder = Path(tempfile.mkdtemp())
    graphs = sorted(Path(__file__).parent.parent.glob("examples_graphs/*.json"))
    for graph in shapes():
        graphs.append(folder / f"{graph.name.replace(' ', '-').replace(',', '')}.json")
        graphs[-1].write_text(graph.to_json())
    lines = []
    for path in graphs:
        plans, row, found = {"": folder / "default.plan"}, [path.stem], {}
        cache = str(folder / "cache")
        # The engine of the default choice; the loops of the reference are no rival, and take most of the time.
        engine = ["--engine", "CPU_ENGINE"]
        tool(prefix, cache, "plan", "save", str(path), str(plans[""]), *engine)
        for strategy, budget in (("halving", "4s"), ("exhaustive", "20s")):
            arguments = ["tune", str(path), *engine, "--strategy", strategy, "--budget", budget, "--json"]
            found[strategy] = json.loads(tool(prefix, cache, *arguments))[0]
            knobs = found[strategy]["knobs"]
            if knobs not in plans:
                plans[knobs] = folder / f"{strategy}.plan"
                chosen = [word for knob in knobs.split() for word in ("--knob", knob)]
                tool(prefix, cache, "plan", "save", str(path), str(plans[knobs]), *engine, *chosen)
        # The same settings are the same plan, which is executed once.
        times = dict(zip(plans, in_turn(plans.values())))
        row += [f"{times[knobs]:.5f}" for knobs in ("", *(of["knobs"] for of in found.values()))]
        for strategy in found.values():
            row += [f"{strategy['seconds']:.2f}", strategy["tried"], strategy["knobs"]]
        lines.append(row)
        print(row, flush=True)
    with open(output, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            "graph default_ms halving_ms exhaustive_ms halving_s halving_tried halving_knobs exhaustive_s exhaustive_tried exhaustive_knobs".split()
        )
        writer.writerows(lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
