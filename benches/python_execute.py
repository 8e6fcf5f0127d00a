"""Measures an execution from Python, including the library call and a small kernel: three PyTorch or NumPy tensors of 4 elements.

python benches/python_execute.py [--rounds 300] [--calls 200]

The goal is at most 1.5 microseconds above the library's call; the printed times include that call.
"""

from __future__ import annotations

import argparse
import statistics
import time

import hipdnn


def microseconds(call, rounds, calls):
    """The median of rounds, and the fastest one."""
    for _ in range(calls):
        call()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(times), min(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--calls", type=int, default=200)
    arguments = parser.parse_args()
    arrays = {}
    try:
        import torch

        arrays["torch tensors"] = [torch.ones(4) for _ in range(3)]
    except ImportError:
        print("left out: PyTorch is not installed")
    import numpy as np

    arrays["NumPy arrays"] = [np.ones(4, np.float32) for _ in range(3)]
    for kind, (a, b, c) in arrays.items():
        graph = hipdnn.Graph()
        x, y = graph.tensor([4]), graph.tensor([4])
        z = graph.add(x, y).set_output(True)
        graph.build(engine="CPU_ENGINE", knobs={"threads": 1})
        of, plan, in_order = {x: a, y: b, z: c}, graph.plan, (a, b, c)
        for what, call in (
            ("Graph.execute({tensor: array})", lambda: graph.execute(of)),
            ("Plan.execute({tensor: array})", lambda: plan.execute(of)),
            ("Plan.run((array, ...))", lambda: plan.run(in_order)),
        ):
            median, least = microseconds(call, arguments.rounds, arguments.calls)
            assert float(c[0]) == 2
            print(f"{what} with three {kind}: {median:.2f} us (fastest round {least:.2f})", flush=True)


if __name__ == "__main__":
    main()
