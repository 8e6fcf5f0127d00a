"""Matmul with few bits: int8 and fp8 with scales, and the block-scaled types MXFP8 and NVFP4, compared with single precision.

python examples_python/few_bits.py [--size 512]

Needs ml_dtypes, which has the types that NumPy lacks.
"""

import argparse
import time

import hipdnn
import ml_dtypes
import numpy as np
from hipdnn import data_type


def median_ms(call):
    call()
    times = []
    for _ in range(15):
        started = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - started))
    return sorted(times)[7]


def report(name, right, found, ms):
    error = np.linalg.norm(found - right) / np.linalg.norm(right)
    print(f"{name:28} {100 * error:8.4f} % error   {ms:8.3f} ms")


def in_blocks(x, w, block, kind, scale_kind):
    """x · w, where both are quantized in blocks along the reduced dimension and dequantized, all in one graph."""
    (m, k), n = x.shape, w.shape[1]
    graph = hipdnn.Graph(f"{kind.value} in blocks of {block}")
    a, b = graph.tensor([1, m, k]), graph.tensor([1, k, n])
    small, scale = graph.block_scale_quantize(a, block, axis=2, data_type=kind, scale_data_type=scale_kind)
    whole = graph.block_scale_dequantize(small, scale, [1, block])
    # The product reads numbers that the type can represent; sums are in single precision.
    weights, of_weights = graph.block_scale_quantize(b, block, axis=1, data_type=kind, scale_data_type=scale_kind)
    result = graph.matmul(whole, graph.block_scale_dequantize(weights, of_weights, [block, 1])).set_output(True)
    y = np.empty((1, m, n), np.float32)
    arrays = {a: x[None], b: w[None], result: y}
    ms = median_ms(lambda: graph.execute(arrays))
    return y[0], ms


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    size = parser.parse_args().size
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, size, size)).astype(np.float32)
    # Channels of different sizes, as networks have them.
    w *= np.geomspace(0.1, 1, size, dtype=np.float32)
    right = x.astype(np.float64) @ w

    graph = hipdnn.Graph("product")
    a, b = graph.tensor([size, size], name="x"), graph.tensor([size, size], name="w")
    graph.matmul(a, b, name="product").set_output(True)
    report("float", right, graph(x, w), median_ms(lambda: graph(x, w)))

    # The two kinds of int8, and 4-bit weights. Calibration uses other samples than the one computed.
    samples = [rng.standard_normal((size, size)).astype(np.float32) for _ in range(4)]
    for recipe in ("int8-per-tensor", "int8", "fp8", "int4-weights"):
        quantized = hipdnn.quantize(graph, samples, recipe, weights={b: w})
        report(recipe, right, quantized(x), median_ms(lambda: quantized(x)))

    # Delayed scaling: a step scales by the largest magnitude of the previous step, which is an output of the graph.
    delayed = hipdnn.Graph("fp8, delayed scaling", io_data_type="float")
    a, scale, descale = delayed.tensor([size, size]), delayed.tensor([1, 1]), delayed.tensor([1, 1])
    b = delayed.tensor([size, size], data_type=data_type.FP8_E4M3)
    small = delayed.identity(delayed.mul(a, scale)).set_data_type(data_type.FP8_E4M3)
    y = delayed.mul(delayed.matmul(small, b), descale).set_output(True)
    amax = delayed.reduction(delayed.abs(a), hipdnn.reduction_mode.MAX).set_output(True)
    of_w = np.float32(448) / np.abs(w).max()
    weights = (w * of_w).astype(ml_dtypes.float8_e4m3fn)
    result, largest, last = np.empty((size, size), np.float32), np.empty((1, 1), np.float32), np.float32(1)

    def step(x):
        nonlocal last
        of_x = np.float32(448) / last
        arrays = {
            a: x,
            b: weights,
            scale: np.full((1, 1), of_x),
            descale: np.full((1, 1), 1 / (of_x * of_w)),
            y: result,
            amax: largest,
        }
        delayed.execute(arrays)
        last = np.float32(largest[0, 0])

    for sample in samples:
        step(sample)
    ms = median_ms(lambda: step(samples[0]))
    step(x)
    report("fp8, delayed scaling", right, result, ms)

    report("MXFP8, blocks of 32", right, *in_blocks(x, w, 32, data_type.FP8_E4M3, data_type.FP8_E8M0))
    report("NVFP4, blocks of 16", right, *in_blocks(x, w, 16, data_type.FP4_E2M1, data_type.FP8_E4M3))


if __name__ == "__main__":
    main()
