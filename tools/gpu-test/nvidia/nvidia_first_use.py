#!/usr/bin/env python3
"""Times how long NVRTC_ENGINE plans attention of shapes that it has not seen, compiling kernels and finding them stored.

Writes a CSV file with a row for each of 20 shapes, of which 10 are gradients: the milliseconds of a plan whose kernels were compiled, and
of the same plan in another process that finds them in the cache of compiled kernels. The first plan of each process, which opens NVRTC and
the device, is one more row.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
from hipdnn_plans import Graph, Library, Sets

ENGINE = "NVRTC_ENGINE"


def shapes():
    """Shapes by chance, always the same: batch, heads, heads of keys, queries, keys, elements, and whether gradients are computed."""
    chance = random.Random(52)
    yield "first", (1, 1, 1, 16, 16, 16), False
    for place in range(20):
        heads = chance.choice((1, 2, 3, 4, 6, 8))
        of_keys = heads // chance.choice([n for n in (1, 2, 3, 4) if heads % n == 0])
        queries, keys = chance.randrange(1, 700), chance.randrange(1, 900)
        depth = chance.choice((32, 40, 64, 72, 80, 96, 128, 192, 256))
        shape = (chance.randrange(1, 4), heads, of_keys, queries, keys, depth)
        yield f"{place}", shape, place % 2 == 1


def graph_of(shape, gradients):
    batch, heads, of_keys, queries, keys, depth = shape
    empty = lambda *dims, data_type=torch.bfloat16: torch.empty(*dims, device="cuda", dtype=data_type)
    rows, columns = (batch, heads, queries, depth), (batch, of_keys, keys, depth)
    tensors = {name: empty(*rows) for name in ("q", "o", "do", "dq")}
    tensors.update({name: empty(*columns) for name in ("k", "v", "dk", "dv")})
    sets = Sets(**tensors, stats=empty(batch, heads, queries, 1, data_type=torch.float32))
    sets.all = sets.all[:1]
    options = {"attn_scale_value": depth**-0.5, "right_bound": 0, "diagonal_alignment": "TOP_LEFT"}
    g = Graph(sets)
    if gradients:
        g.node("SdpaBackwardAttributes", g.bind("q k v o do stats"), g.bind("dq dk dv"), parameters=options)
    else:
        outputs = g.bind("q k v"), g.bind("o stats")
        g.node("SdpaAttributes", *outputs, attributes={"generate_stats": True, **options})
    return g


def plan_all(path):
    """Milliseconds of each plan."""
    library = Library(path)
    return {name: library.plan(graph_of(shape, gradients), ENGINE)[1] * 1e3 for name, shape, gradients in shapes()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libhipdnn_backend.so, its plugins beside it")
    parser.add_argument("csv", nargs="?", help="path of the file to write")
    options = parser.parse_args()
    if options.csv is None:
        print(json.dumps(plan_all(options.library)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: text for name, text in os.environ.items() if name != "HIPDNN_DISABLE_CACHE"}
        environment["HIPDNN_CACHE_DIR"] = folder
        command = [sys.executable, __file__, options.library]
        compiled, stored = (
            json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
            for _ in range(2)
        )
    with open(options.csv, "w", encoding="utf-8") as file:
        for out in (file, sys.stdout):
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["attention", "gradients", "compiled ms", "stored ms"])
            for name, shape, gradients in shapes():
                what = "first of the process" if name == "first" else "x".join(map(str, shape))
                writer.writerow([what, int(gradients), f"{compiled[name]:.1f}", f"{stored[name]:.1f}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
