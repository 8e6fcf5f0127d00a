"""ONNX's own tests of operators and small networks, with the provider compared with CPUExecutionProvider.

Everything that passes with CPUExecutionProvider must pass with the provider loaded, which claims all that it can. Arguments select
tests by name; --short skips the networks.
"""

import argparse
import collections
import glob
import json
import os
import sys
import warnings

import numpy as np
import onnx
import provider
from onnx import numpy_helper

#: The least share of tests of supported operators in which the provider computes every such node.
LEAST_SHARE = 0.95 if provider.VERSION >= 24 else 0.93

#: The reason for unsupported operators.
UNKNOWN = "this operator is not computed here"


def node_cases():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if case.model is not None:
            yield case.name, case.model, case.data_sets, case.rtol, case.atol


def read(path):
    """The tensor in a file, or nothing for a sequence or an optional value."""
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return numpy_helper.to_array(tensor)


def numbered(folder, kind):
    return sorted(glob.glob(os.path.join(folder, f"{kind}_*.pb")), key=lambda path: int(path[:-3].rsplit("_", 1)[1]))


def data_cases(folders):
    root = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(root, folder, "*", "model.onnx"))):
            sets = []
            for part in sorted(glob.glob(os.path.join(os.path.dirname(path), "test_data_set_*"))):
                try:
                    sets.append(
                        ([read(of) for of in numbered(part, "input")], [read(of) for of in numbered(part, "output")])
                    )
                except Exception:
                    sets = None
                    break
            if sets:
                yield os.path.basename(os.path.dirname(path)), onnx.load(path), sets, 1e-3, 1e-6


def light_cases():
    """Networks whose weights are made by nodes, to keep files small: the inputs are made here."""
    root = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    for path in sorted(glob.glob(os.path.join(root, "*.onnx"))):
        model = onnx.load(path)
        made = {tensor.name for tensor in model.graph.initializer}
        inputs = []
        for value in model.graph.input:
            if value.name not in made:
                dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
                inputs.append(np.random.default_rng(1).random(dims, np.float32))
        yield os.path.basename(path), model, [(inputs, None)], 1e-3, 1e-5


def close(have, want, rtol, atol):
    if isinstance(want, (list, tuple)):
        return (
            isinstance(have, (list, tuple))
            and len(have) == len(want)
            and all(map(lambda h, w: close(h, w, rtol, atol), have, want))
        )
    if want is None or have is None:
        return want is None and have is None
    have, want = np.asarray(have), np.asarray(want)
    if have.shape != want.shape or have.dtype.kind != want.dtype.kind:
        return False
    if want.dtype.kind not in "fc":
        return np.array_equal(have, want)
    if want.dtype == np.float16:
        # The expected results were themselves computed in halves: each of both may be a step off.
        rtol = max(rtol, 2 * float(np.finfo(np.float16).eps))
    return np.allclose(have, want, rtol, atol, equal_nan=True)


def run(session, arrays):
    feeds = {value.name: array for value, array in zip(session.get_inputs(), arrays)}
    return session.run(None, feeds)


def part(word):
    """K/N as a part, from 0, and how many there are."""
    of, count = map(int, word.split("/"))
    if not 1 <= of <= count:
        raise ValueError(word)
    return of - 1, count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--part", type=part, default=(0, 1), help="K/N: every Nth test, from the Kth")
    parser.add_argument("--json", help="a file that gets what became of each test")
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    cases = list(node_cases()) + list(data_cases(["simple", "pytorch-converted", "pytorch-operator"]))
    if not arguments.short:
        cases += list(light_cases())
    of, parts = arguments.part
    cases = cases[of::parts]
    counts = collections.Counter()
    failures, reasons, record = [], collections.Counter(), {}
    for name, model, sets, rtol, atol in cases:
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        if provider.VERSION < 24 and "sequence_map" in name:
            # ONNX Runtime 1.23 fuses nothing in a function's body, and does not tell that a graph is one.
            counts["left out"] += 1
            continue
        if os.environ.get("HIPDNN_ORT_TRACE"):
            print(name, file=sys.stderr, flush=True)
        data = model.SerializeToString()
        try:
            plain = provider.plain(data)
            expected = [run(plain, inputs) for inputs, _ in sets]
        except Exception:
            counts["not run by CPUExecutionProvider"] += 1
            continue
        passes = all(
            outputs is None or all(map(lambda h, w: close(h, w, max(rtol, 1e-3), max(atol, 1e-6)), have, outputs))
            for have, (_, outputs) in zip(expected, sets)
        )
        if not passes:
            counts["wrong with CPUExecutionProvider"] += 1
            continue
        try:
            session, nodes = provider.reported(data, {"take": "all"})
            for (inputs, outputs), reference in zip(sets, expected):
                have = run(session, inputs)
                if outputs is None:
                    # Rounding errors of a network are relative to its largest value.
                    wrong = any(provider.difference(h, w) > 1e-4 for h, w in zip(have, reference))
                else:
                    wrong = not all(map(lambda h, w: close(h, w, max(rtol, 1e-3), max(atol, 1e-6)), have, outputs))
                if wrong:
                    gaps = [provider.difference(h, w) for h, w in zip(have, reference) if hasattr(h, "dtype")]
                    raise AssertionError(f"wrong, by {gaps}")
        except Exception as error:
            failures.append(f"{name}: {str(error).splitlines()[0][:300]}")
            continue
        counts["passed"] += 1
        own = [node for node in nodes if node["reason"] != UNKNOWN]
        taken = [node for node in own if node["subgraph"] is not None]
        if own:
            counts["of the operators on the list"] += 1
            if len(taken) == len(own):
                counts["computed here"] += 1
            for node in own:
                if node["subgraph"] is None:
                    reasons[f"{node['operator']}: {node['reason']}"] += 1
        record[name] = {"nodes": len(nodes), "listed": len(own), "taken": len(taken)}
    for what, count in counts.items():
        print(f"{count:5} {what}")
    share = counts["computed here"] / max(1, counts["of the operators on the list"])
    print(f"{100 * share:.1f} % of the tests of operators on the list are computed here")
    if share < LEAST_SHARE and not arguments.words and parts == 1:
        failures.append(f"expected at least {100 * LEAST_SHARE:.1f} % of them")
    if arguments.words:
        for reason, count in reasons.most_common():
            print(f"{count:5} {reason}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(
                {"counts": counts, "share": share, "failures": failures, "reasons": reasons, "tests": record},
                file,
                indent=1,
            )
    for failure in failures:
        print("FAILED", failure)
    if counts["passed"] == 0:
        print("FAILED no test ran")
    return 1 if failures or counts["passed"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
