"""The time of attention as exporters write it, on a GPU: eight after another, inputs and outputs there."""

import argparse
import sys
import time

import bench
import networks
import numpy as np
import provider

COUNT = 8
# Batch, tokens, size, heads, and whether a mask of keys is added.
CASES = (
    (1, 128, 768, 12, True),
    (8, 128, 768, 12, True),
    (32, 128, 768, 12, True),
    (1, 512, 768, 12, True),
    (8, 512, 768, 12, False),
    (8, 196, 384, 6, False),
    (4, 1024, 768, 12, False),
    (1, 2048, 1024, 8, False),
    (2, 197, 1024, 16, False),
    (16, 64, 512, 8, True),
)


def network(batch, tokens, size, heads, masked):
    m = networks.Maker(4)
    mask = m.node("Sub", m.node("Unsqueeze", "m", m.integers(1, 2)), m.weight(1.0)) if masked else None

    def divided(of, perm):
        return m.node("Transpose", m.node("Reshape", of, m.integers(0, tokens, heads, size // heads)), perm=perm)

    y, k, v = (m.linear("x", size, size) for _ in range(3))
    for _ in range(COUNT):
        q, keys, values = divided(y, [0, 2, 1, 3]), divided(k, [0, 2, 3, 1]), divided(v, [0, 2, 1, 3])
        scores = m.node("Div", m.node("MatMul", q, keys), m.weight(np.sqrt(size // heads)))
        scores = m.node("Add", scores, mask) if masked else scores
        y = m.node("MatMul", m.node("Softmax", scores, axis=-1), values)
        y = m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.integers(0, tokens, size))
    inputs = [("x", 1, [batch, tokens, size])] + ([("m", 1, [batch, tokens])] if masked else [])
    random = np.random.default_rng(0)
    feeds = {name: random.standard_normal(dims).astype(np.float32) for name, _, dims in inputs}
    if masked:
        feeds["m"] = np.ones((batch, tokens), np.float32)
    return m.model(inputs, [y]), feeds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", action="store_true")
    arguments = parser.parse_args()
    for batch, tokens, size, heads, masked in CASES:
        model, feeds = network(batch, tokens, size, heads, masked)
        want = provider.plain(model).run(None, feeds)[0]
        if arguments.half:
            model, feeds = bench.in_half(model, feeds)
        own = provider.session(model, {"device": "gpu"}, 2)
        apart = provider.difference(np.float32(own.run(None, feeds)[0]), want)
        bound = provider.Bound(own, feeds)
        for _ in range(5):
            bound.run()
        best = np.inf
        for _ in range(5):
            begun = time.perf_counter()
            for _ in range(20):
                bound.run()
            best = min(best, (time.perf_counter() - begun) / 20)
        kind, count = "half" if arguments.half else "float", f"{batch},{tokens},{heads},{size // heads}"
        print(f"{count},{kind},{best / COUNT * 1e6:.1f} us each, {apart:.0e} apart", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
