"""Measures what plans compiled ahead of time save a new process on a GPU, for layers of training steps of ResNet-50 and a GPT.

    python benches/plans_ahead.py TOOL benches/results/plans_ahead.csv

TOOL is the program `hipdnn`. Needs PyTorch on an NVIDIA GPU. One process makes every plan itself and records the graphs; `hipdnn compile`,
without access to the GPU, compiles plans for the records; another process uses these. Each process first executes a small graph on each
engine, so that libraries and device are initialized. A row for each graph: the engine, and the milliseconds from the graph to the end of its
first execution, with plans made in the process, with those compiled ahead, and in a process that has planned it before.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMAGES = 64
# ResNet-50: images in, channels in and out, filter, stride.
CONVOLUTIONS = [
    (224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1),
    (56, 256, 128, 1, 1), (56, 128, 128, 3, 2), (28, 128, 512, 1, 1), (56, 256, 512, 1, 2), (28, 512, 128, 1, 1),
    (28, 128, 128, 3, 1), (28, 512, 256, 1, 1), (28, 256, 256, 3, 2), (14, 256, 1024, 1, 1), (28, 512, 1024, 1, 2),
    (14, 1024, 256, 1, 1), (14, 256, 256, 3, 1), (14, 1024, 512, 1, 1), (14, 512, 512, 3, 2), (7, 512, 2048, 1, 1),
    (14, 1024, 2048, 1, 2), (7, 2048, 512, 1, 1), (7, 512, 512, 3, 1),
]  # fmt: skip
# A GPT of width 768 on 8 x 1024 tokens: rows, columns, inner.
PRODUCTS = [(8192, 2304, 768), (8192, 768, 768), (8192, 3072, 768), (8192, 768, 3072), (768, 3072, 8192)]


def graphs():
    """Rebuilds each graph."""
    import hipdnn

    def new(name):
        types = {"intermediate_data_type": "float", "compute_data_type": "float"}
        return hipdnn.Graph(name, io_data_type="bfloat16", **types)

    def image(graph, n, c, h):
        return graph.tensor([n, c, h, h], stride=[c * h * h, 1, c * h, c])

    for h, c, k, r, step in CONVOLUTIONS:
        options = {"padding": [r // 2] * 2, "stride": [step] * 2}
        out, text = -(-h // step), f"{c} to {k}, {h} x {h} by {r} x {r}/{step}"
        graph = new(f"convolution {text}")
        y = graph.conv_fprop(image(graph, IMAGES, c, h), image(graph, k, c, r), **options)
        y.set_output(True).set_stride([k * out * out, 1, k * out, k])
        yield graph
        graph = new(f"its gradient by the filter {text}")
        dw = graph.conv_wgrad(image(graph, IMAGES, c, h), image(graph, IMAGES, k, out), **options)
        dw.set_output(True).set_dim([k, c, r, r]).set_stride([c * r * r, 1, c * r, c])
        yield graph
        if c > 3:
            graph = new(f"its gradient by the image {text}")
            dx = graph.conv_dgrad(image(graph, IMAGES, k, out), image(graph, k, c, r), **options)
            dx.set_output(True).set_dim([IMAGES, c, h, h]).set_stride([c * h * h, 1, c * h, c])
            yield graph
    for m, n, k in PRODUCTS:
        graph = new(f"product {m} x {n} x {k}")
        graph.matmul(graph.tensor([1, m, k]), graph.tensor([1, k, n])).set_output(True)
        yield graph
    graph = new("layernorm 8192 x 768")
    x = graph.tensor([8192, 768, 1, 1])
    scale, bias = (graph.tensor([1, 768, 1, 1], data_type="float") for _ in "sb")
    for result in graph.layernorm(hipdnn.norm_forward_phase.TRAINING, x, scale, bias):
        result.set_output(True)
    yield graph
    head = lambda graph: graph.tensor([8, 12, 1024, 64])  # noqa: E731
    graph = new("attention 8 x 12 x 1024 x 64")
    options = {"attn_scale": 0.125, "use_causal_mask": True}
    o, stats = graph.sdpa(head(graph), head(graph), head(graph), is_inference=False, **options)
    o.set_output(True), stats.set_output(True).set_data_type("float")
    yield graph
    graph = new("its gradients")
    stats = graph.tensor([8, 12, 1024, 1], data_type="float")
    for result in graph.sdpa_backward(*(head(graph) for _ in "qkvod"), stats, **options):
        result.set_output(True)
    yield graph


def child() -> None:
    """Prints the milliseconds of each graph in this process."""
    import hipdnn
    import torch

    def ready(graph):
        arrays = {}
        for tensor in graph.tensors:
            if not tensor.is_virtual and tensor.value is None:
                dtype = torch.float32 if str(tensor.data_type).endswith(("FLOAT", "float")) else torch.bfloat16
                made = torch.empty_strided(tensor.dim, tensor.stride, dtype=dtype, device="cuda")
                arrays[tensor] = made.fill_(0.01)
        torch.cuda.synchronize()
        return arrays

    def once(graph, arrays, engine=None):
        begun = time.perf_counter()
        graph.build(engine=engine, device="cuda:0")
        graph.execute(arrays)
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begun)

    for engine in ("CUDNN_ENGINE", "CUBLASLT_ENGINE", "NVRTC_ENGINE"):
        graph = hipdnn.Graph(io_data_type="bfloat16", compute_data_type="float")
        if engine == "NVRTC_ENGINE":
            graph.relu(graph.tensor([7, 3])).set_output(True)
        else:
            graph.matmul(graph.tensor([1, 32, 32]), graph.tensor([1, 32, 32])).set_output(True)
        once(graph, ready(graph), engine)
    rows = []
    for graph, again in zip(graphs(), graphs()):
        try:
            first = once(graph, ready(graph))
        except hipdnn.NoEngineError as error:
            rows.append([graph.name, "", str(error)[:200], ""])
            continue
        warm = statistics.median([once(again, ready(again)) for _ in range(3)])
        rows.append([graph.name, graph.engine, first, warm])
    print(json.dumps(rows))


def run(**settings: str):
    environment = {**os.environ, "HIPDNN_DISABLE_CACHE": "1", **settings}
    done = subprocess.run(
        [sys.executable, __file__, "--child"], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    tool, target = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        recorded, package = Path(folder, "graphs"), Path(folder, "plans.hdpk")
        here = run(HIPDNN_RECORD_GRAPHS=str(recorded))
        files = sorted(str(file) for file in recorded.glob("*.json"))
        import torch

        major, minor = torch.cuda.get_device_capability()
        begun = time.perf_counter()
        made = subprocess.run(
            [tool, "compile", *files, "--device", f"sm_{major}{minor}", "--output", str(package)],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIPDNN_DISABLE_CACHE": "1"},
            text=True,
            capture_output=True,
            check=False,
        )
        seconds = time.perf_counter() - begun
        print(made.stdout[-2000:], made.stderr[-2000:], f"{len(files)} graphs, {seconds:.1f} s", sep="\n")
        ahead = run(HIPDNN_PLAN_PACKAGE=str(package), HIPDNN_LOG_LEVEL="warn")
    rows = []
    for (name, engine, first, warm), (_, other, taken, _) in zip(here, ahead):
        if not engine or not other:
            print(f"{name}: {first}, {taken}")
            continue
        assert engine == other, (name, engine, other)
        rows.append([name, engine, f"{first:.1f}", f"{taken:.1f}", f"{warm:.2f}", f"{taken - warm:.1f}"])
    with open(target, "w", newline="") as file:
        print(f"# {torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}", file=file)
        writer = csv.writer(file)
        writer.writerow(["graph", "engine", "made_there_ms", "made_ahead_ms", "planned_before_ms", "above_ms"])
        writer.writerows(rows)
    for engine in sorted({row[1] for row in rows}):
        of = [row for row in rows if row[1] == engine]
        above, there = ([float(row[at]) for row in of] for at in (5, 2))
        print(
            f"{engine}: {len(of)} graphs, made there {sum(there):.0f} ms in all; ahead above a process that has planned: "
            f"{sum(above):.0f} ms in all, median {statistics.median(above):.1f}, at most {max(above):.1f}"
        )


if __name__ == "__main__":
    child() if sys.argv[1:] == ["--child"] else main()
