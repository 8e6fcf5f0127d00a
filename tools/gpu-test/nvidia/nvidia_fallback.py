#!/usr/bin/env python3
"""Runs CPU_ENGINE on tensors in the memory of an NVIDIA GPU, with HIPDNN_CPU_FALLBACK=1 and without it.

    nvidia_fallback.py libhipdnn_backend.so

The exit status is 1 if a result is wrong, or the engine computes without the variable.
"""

import os
import subprocess
import sys

import torch
from hipdnn_plans import Graph, Library, Sets


def computed(path):
    """Whether y = max(x, 0) is correct after an execution on a stream that still writes x."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.randn(1024, 8192, device="cuda")
        sets = Sets(x=x, y=torch.empty_like(x))
        graph = Graph(sets)
        graph.pointwise("relu_fwd", [graph.tensor("x")], graph.tensor("y"))
        library = Library(path)
        library.set_stream(stream.cuda_stream)
        execute, *_ = library.plan(graph, "CPU_ENGINE")
        for turn in range(len(sets)):
            torch.cuda._sleep(10_000_000)
            sets[turn].x.mul_(-1)
            execute(turn)
        torch.cuda.synchronize()
        return all(torch.equal(of.y, of.x.relu()) for of in sets.all)


def main():
    path = sys.argv[1]
    if os.environ.get("HIPDNN_CPU_FALLBACK") == "1":
        assert computed(path), "the result is wrong"
        return
    try:
        computed(path)
    except RuntimeError as error:
        print(f"unasked: {error}"[:200])
    else:
        sys.exit("CPU_ENGINE computed with device memory unasked")
    subprocess.run([sys.executable, *sys.argv], env={**os.environ, "HIPDNN_CPU_FALLBACK": "1"}, check=True)
    print("HIPDNN_CPU_FALLBACK=1: the result is right")


if __name__ == "__main__":
    main()
