"""Measures the quality and cost of the searches of `hipdnn tune`.

    python benches/tuning.py target/stage benches/results/tuning.csv [cuda]

For each graph of examples_graphs and twenty of networks' layers and of DeepBench's list: a search by halving without knowledge of other
graphs, an exhaustive one, and then the plans of both and of the default choice, executed in turn by the Python package. The searches use
CPU_ENGINE or, with `cuda`, which needs PyTorch, the engines of an NVIDIA GPU. A line of the file for each: median milliseconds of the
three, the seconds of both searches, and the number of configurations that each tried.
"""

import csv
import functools
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


def shapes(dtype):
    """Graphs of other networks' layers, by their names."""
    new = functools.partial(hipdnn.Graph, io_data_type=dtype, intermediate_data_type="float", compute_data_type="float")
    for name, (n, c, h, k, r, stride) in {
        "resnet50 conv 3x3, 64": (1, 64, 56, 64, 3, 1), "resnet50 conv 1x1, 256": (1, 256, 56, 64, 1, 1),
        "resnet50 conv 3x3, 256": (1, 256, 14, 256, 3, 1), "resnet50 conv 7x7": (1, 3, 224, 64, 7, 2),
        "resnet50 conv 1x1, 2048": (1, 512, 7, 2048, 1, 1),
    }.items():  # fmt: skip
        graph = new(name)
        x, w, b = graph.tensor([n, c, h, h]), graph.tensor([k, c, r, r]), graph.tensor([1, k, 1, 1])
        y = graph.conv_fprop(x, w, padding=[r // 2] * 2, stride=[stride] * 2)
        graph.relu(graph.add(y, b)).set_output(True)
        yield graph
    for name, (m, k, n) in {
        "bert matmul 768": (128, 768, 768), "bert matmul 3072": (128, 768, 3072), "gpt matmul 1": (1, 1024, 4096),
    }.items():  # fmt: skip
        graph = new(name)
        y = graph.matmul(graph.tensor([1, m, k]), graph.tensor([1, k, n]))
        graph.gelu(graph.add(y, graph.tensor([1, 1, n]))).set_output(True)
        yield graph
    # DeepBench's lists of convolutions (batch 1) and products.
    for c, h, w, k, r, s, pad, stride in [
        (1, 700, 161, 32, 5, 20, 0, 2), (64, 54, 54, 64, 3, 3, 1, 1), (128, 54, 54, 128, 3, 3, 1, 1), (128, 27, 27, 256, 3, 3, 1, 1),
        (832, 7, 7, 256, 1, 1, 0, 1), (192, 28, 28, 32, 5, 5, 2, 1),
    ]:  # fmt: skip
        graph = new(f"deepbench conv {c}x{h}x{w} to {k} by {r}x{s}")
        y = graph.conv_fprop(
            graph.tensor([1, c, h, w]), graph.tensor([k, c, r, s]), padding=[pad] * 2, stride=[stride] * 2
        )
        y.set_output(True)
        yield graph
    for m, n, k in [(1760, 16, 1760), (512, 24, 2048), (1024, 32, 512), (35, 700, 2048)]:
        graph = new(f"deepbench product {m}x{n}x{k}")
        graph.matmul(graph.tensor([1, m, k]), graph.tensor([1, k, n])).set_output(True)
        yield graph
    graph = new("bert residual")
    graph.relu(graph.add(graph.tensor([8, 128, 768]), graph.tensor([8, 128, 768]))).set_output(True)
    yield graph
    graph = new("gpt sum of rows")
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


TYPES = {"float": np.float32, "half": np.float16, "double": np.float64, "int32": np.int32, "int8": np.int8, "bfloat16": ml_dtypes.bfloat16,
         "fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip


def array_of(spec, rng):
    """Random numbers from 0.5 to 1.5, which are right for variances and divisors, too, laid out as a tensor is."""
    dims, strides = spec["dims"], spec["strides"]
    order = sorted(range(len(dims)), key=lambda axis: (-strides[axis], axis))
    back = sorted(range(len(dims)), key=order.__getitem__)
    values = rng.uniform(0.5, 1.5, [dims[axis] for axis in order])
    return values.astype(TYPES[spec["data_type"]]).transpose(back)


def on_gpu(array):
    """The array's values in the GPU's memory, with its strides."""
    import torch

    strides = [step // array.itemsize for step in array.strides]
    there = torch.empty_strided(array.shape, strides, dtype=getattr(torch, array.dtype.name), device="cuda")
    # PyTorch reads no types of ml_dtypes from NumPy.
    return there.copy_(torch.from_numpy(array.astype(np.float32) if array.dtype.kind == "V" else array))


def in_turn(plans, cuda):
    """Median milliseconds of plans that are executed in turn, each in rows that take a tenth of a millisecond at least."""
    calls = []
    finish = lambda: None  # noqa: E731
    if cuda:
        import torch

        finish = torch.cuda.synchronize
    for path in plans:
        graph = hipdnn.load(path)
        rng = np.random.default_rng(1)
        specs = {spec["uid"]: spec for spec in graph._specs_saved}
        arrays = {tensor: array_of(specs[tensor.uid], rng) for tensor in (*graph._inputs, *graph._outputs)}
        if cuda:
            arrays = {tensor: on_gpu(array) for tensor, array in arrays.items()}
        calls.append(lambda graph=graph, arrays=arrays: graph.execute(arrays))
    times = [[] for _ in calls]
    counts = []
    for call in calls:
        call()
        finish()
        started = time.perf_counter()
        call()
        finish()
        counts.append(max(1, int(1e-4 / (time.perf_counter() - started))))
    for _ in range(ROUNDS):
        for call, count, found in zip(calls, counts, times):
            started = time.perf_counter()
            for _ in range(count):
                call()
            finish()
            found.append(1000 * (time.perf_counter() - started) / count)
    return [statistics.median(found) for found in times]


HEAD = (
    "graph default_ms halving_ms exhaustive_ms halving_s halving_tried halving exhaustive_s exhaustive_tried exhaustive"
)


def measured(prefix, folder, path, device):
    """A line of the file for a graph; nothing if no engine of the device computes it."""
    # Exclude the reference loops, which are slow and would take most of the time.
    engine = ["--engine", "CPU_ENGINE"] if device == "cpu" else []
    plans, found, cache = {}, {}, str(folder / "cache")

    def plan(name, knobs):
        if (name, knobs) not in plans:
            plans[name, knobs] = folder / f"{len(plans)}.plan"
            chosen = [word for knob in knobs.split() for word in ("--knob", knob)]
            tool(prefix, cache, "plan", "save", str(path), str(plans[name, knobs]), "--engine", name, *chosen)
        return name, knobs

    for strategy, budget in (("halving", "4s"), ("exhaustive", "20s")):
        arguments = ["tune", str(path), *engine, "--strategy", strategy, "--budget", budget, "--json"]
        result = json.loads(tool(prefix, cache, *arguments))[0]
        default = result["default_engine"]
        if device == "cuda" and default.startswith("CPU"):
            return None
        found[strategy] = (plan(default, ""), plan(result["engine"], result["knobs"]), result)
    # The same settings are the same plan, which is executed once.
    times = dict(zip(plans, in_turn(plans.values(), device == "cuda")))
    (default, halving, _), (_, exhaustive, _) = found.values()
    row = [path.stem, *(f"{times[key]:.5f}" for key in (default, halving, exhaustive))]
    for _, (name, knobs), result in found.values():
        row += [f"{result['seconds']:.2f}", result["tried"], f"{name} {knobs}".strip()]
    return row


def main(prefix, output, device="cpu"):
    folder = Path(tempfile.mkdtemp())
    graphs = sorted(Path(__file__).parent.parent.glob("examples_graphs/*.json"))
    for graph in shapes("float" if device == "cpu" else "half"):
        graphs.append(folder / f"{graph.name.replace(' ', '-').replace(',', '')}.json")
        graphs[-1].write_text(graph.to_json())
    with open(output, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD.split())
        for path in graphs:
            row = measured(prefix, folder, path, device)
            if row is None:
                print(f"{path.stem}: no engine of the GPU computes it", flush=True)
                continue
            writer.writerow(row)
            file.flush()
            print(row, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
