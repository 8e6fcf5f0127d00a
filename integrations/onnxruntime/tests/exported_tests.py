"""Networks exported by PyTorch (export.py), in single precision and quantized: results match CPUExecutionProvider's, and hipDNN computes enough.

The first argument is the folder of the models; further ones select models by name. --bytes also quantizes image networks.
"""

import argparse
import os
import sys

import numpy as np
import provider
from quantized import quantized

#: The most subgraphs of image networks.
MOST_SUBGRAPHS = 3

#: A network's rounding error, relative to the largest value.
TOLERANCE = 1e-3

#: Operators with nearly all operations of a network.
HEAVY = {
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "Einsum",
    "Attention",
    "QLinearConv",
    "QLinearMatMul",
    "QGemm",
    "ConvInteger",
    "MatMulInteger",
}

#: The quantized models: a convolutional network with plain activations, one with gates, a transformer, and an encoder with a decoder.
QUANTIZED = ("resnet50", "mobilenet_v3", "vit_b_16", "unet")


def feeds_of(session, batch, seed=0):
    random = np.random.default_rng(seed)
    feeds = {}
    for value in session.get_inputs():
        dims = [dim if isinstance(dim, int) else batch for dim in value.shape]
        if value.name == "mask":
            feeds[value.name] = (np.arange(dims[1]) < dims[1] - 3).astype(np.int64)[None].repeat(dims[0], 0)
        elif "int64" in value.type:
            feeds[value.name] = random.integers(0, 30000, dims)
        else:
            feeds[value.name] = random.standard_normal(dims).astype(np.float32)
    return feeds


def compare(name, path, failures, tolerance, batches=(1, 2)):
    own, nodes = provider.reported(path)
    plain = provider.plain(path)
    parts = len({node["subgraph"] for node in nodes} - {None})
    heavy = [node for node in nodes if node["operator"] in HEAVY]
    left = [node for node in heavy if node["subgraph"] is None]
    worst = 0.0
    for batch in batches:
        feeds = feeds_of(plain, batch)
        for have, want in zip(own.run(None, feeds), plain.run(None, feeds)):
            worst = max(worst, provider.difference(have, want))
    taken = sum(node["subgraph"] is not None for node in nodes)
    print(
        f"{name}: {parts} subgraphs, {taken} of {len(nodes)} nodes, {len(heavy) - len(left)} of {len(heavy)} products and convolutions, difference {worst:.1e}",
        flush=True,
    )
    for reason in sorted({f"{node['operator']}: {node['reason']}" for node in nodes if node["subgraph"] is None}):
        print(f"    left {reason}")
    if not worst <= tolerance:
        failures.append(f"{name}: results differ by {worst}, expected at most {tolerance}")
    if len(left) * 20 > len(heavy):
        failures.append(f"{name}: {len(left)} of {len(heavy)} products and convolutions are left")
    is_image = "x" in [value.name for value in plain.get_inputs()] and "whisper" not in name
    if is_image and not 0 < parts <= MOST_SUBGRAPHS:
        failures.append(f"{name}: {parts} subgraphs")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--bytes", action="store_true")
    arguments = parser.parse_args()
    failures, count = [], 0
    for file in sorted(os.listdir(arguments.folder)):
        name = file.removesuffix(".onnx")
        if (
            not file.endswith(".onnx")
            or "." in name
            or (arguments.words and not any(word in name for word in arguments.words))
        ):
            continue
        count += 1
        path = os.path.join(arguments.folder, file)
        try:
            compare(name, path, failures, TOLERANCE)
            for form in ("QDQ", "QOperator") if arguments.bytes and name in QUANTIZED else ():
                target = quantized(path, form, lambda plain, seed: feeds_of(plain, 1, seed))
                feeds = feeds_of(provider.plain(path), 1)
                exact, rounded = (provider.plain(of).run(None, feeds)[0] for of in (path, target))
                own_error = provider.difference(rounded, exact)
                compare(f"{name} {form}", target, failures, own_error, batches=(1,))
                print(f"    quantization's own error {own_error:.1e}")
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:400]}")
    for failure in failures:
        print("FAILED", failure)
    print(f"{count} networks")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
