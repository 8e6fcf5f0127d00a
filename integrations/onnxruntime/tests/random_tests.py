"""Random single nodes of every operator, with types, versions and values drawn, against CPUExecutionProvider.

`--draws` is their number (300), `--seed` the first one, `--only` words of operators; `--threads` makes no difference to results."""

import argparse
import collections
import sys
import warnings

import draws
import index_draws
import more_draws
import numpy as np
import onnx
import onnxruntime as ort
import provider
from onnx import helper, numpy_helper

warnings.filterwarnings("ignore")
TOLERANCES = {"float32": 3e-5, "float16": 4e-3, "float64": 1e-6}
# Results of bytes are rounded: one of 200 may be beside.
ROUNDED = ("int8", "uint8")
NEAR_ZERO = (
    "Sigmoid",
    "BiasGelu",
    "FastGelu",
    "QuickGelu",
    "Gelu",
    "microsoft Gelu",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
# Of two ways to draw an operator one has a word before its name.
OPERATORS = {**draws.OPERATORS, **more_draws.OPERATORS, **index_draws.OPERATORS}
NEWEST = min(28, onnx.defs.onnx_opset_version())


def drawn(operator, seed):
    """The model of a draw, and its feeds; none if the version lacks the operator."""
    opset = int(np.random.default_rng([seed, 1]).integers(7, NEWEST + 1))
    draw = draws.Draw(seed, opset)
    name, operator = operator, operator.split()[-1]
    try:
        OPERATORS[name](draw, operator)
        if not draw.domain:
            onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None
    outputs = [f"y{at}" for at in range(draw.outputs)]
    node = helper.make_node(
        operator, draw.inputs, outputs, name=operator.lower(), domain=draw.domain, **draw.attributes
    )

    def value(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    def result(name, kind):
        if kind is None:
            return onnx.ValueInfoProto(name=name)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)

    graph = helper.make_graph(
        [node],
        "drawn",
        [value(name, array) for name, array in draw.feeds.items()],
        [result(name, kind) for name, kind in zip(outputs, draw.kinds or [None] * len(outputs))],
        [numpy_helper.from_array(array, name) for name, array in draw.weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except Exception:
        return None
    if any(not of.type.WhichOneof("value") for of in model.graph.output):
        return None
    return model.SerializeToString(), draw.feeds, node, opset


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--draws", type=int, default=300)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--only", default="")
    chosen = words.parse_args()
    names = [name for name in OPERATORS if not chosen.only or name in chosen.only.split(",")]
    counts, left, wrong = collections.Counter(), collections.Counter(), collections.Counter()
    for seed in range(chosen.seed, chosen.seed + chosen.draws):
        operator = names[seed % len(names)]
        made = drawn(operator, seed)
        if made is None:
            continue
        data, feeds, node, opset = made
        try:
            want = provider.plain(data).run(None, feeds)
        except Exception:
            counts["not in CPUExecutionProvider"] += 1
            continue
        try:
            own, seen = provider.reported(data, {"take": "all"})
            have = own.run(None, feeds)
        except Exception as error:
            wrong[operator] += 1
            print(f"WRONG {operator} {opset} seed {seed}: {str(error)[:300]}", flush=True)
            continue
        reasons = [of["reason"] for of in seen if of["subgraph"] is None]
        if reasons or not seen:
            counts["left"] += 1
            left[f"{operator}: {(reasons or ['constant'])[0]}"] += 1
            continue
        counts["computed"] += 1
        for a, b in zip(have, want):
            gap = provider.difference(a, b)
            if operator in more_draws.OPERATORS and b.dtype.name in ROUNDED and a.shape == b.shape:
                off = np.abs(a.astype(int) - b.astype(int))
                # ONNX Runtime cuts the quotients of a softmax.
                off = np.zeros(1) if operator == "QLinearSoftmax" and off.max(initial=0) < 2 else off
                gap = gap if off.max(initial=0) > 1 or (off > 0).sum() > 1 + off.size / 200 else 0.0
            # ONNX Runtime's results near zero are coarse: parts of 1 that cancel, or sums before a logarithm.
            if operator in NEAR_ZERO and gap < 1:
                gap *= min(1.0, float(np.abs(np.asarray(b, np.float64)).max(initial=0.0)))
            # ONNX Runtime's gates are coarse where they are small.
            gap = gap / 10 if operator in ("LSTM", "GRU", "RNN", "InstanceNormalization") else gap
            # Where a state is in the middle of two bytes the last bit decides.
            gap = gap / 300 if operator == "DynamicQuantizeLSTM" else gap
            if not gap <= TOLERANCES.get(str(np.asarray(b).dtype), 0.0):
                wrong[operator] += 1
                attributes = {of.name: helper.get_attribute_value(of) for of in node.attribute}
                shapes = {name: (array.shape, str(array.dtype)) for name, array in feeds.items()}
                print(f"WRONG {operator} {opset} seed {seed}: {gap} {a.dtype} {attributes} {shapes}", flush=True)
                break
    for reason, count in left.most_common(30 if chosen.draws > 300 else 0):
        print(f"left {count} × {reason[:160]}")
    print(f"{sum(wrong.values())} wrong {dict(wrong)}, {dict(counts)} with ONNX Runtime {ort.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
