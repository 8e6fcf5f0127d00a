"""``python -m onnxruntime_ep_hipdnn model.onnx --numerics`` names the node of a model that loses digits.

The package is run from the source tree, with the library and the tool that the environment names."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIBRARY = os.environ["HIPDNN_ORT_LIBRARY"]
PACKAGE = os.path.join(os.path.dirname(__file__), os.pardir, "python", "onnxruntime_ep_hipdnn")
TOOL = os.path.join(os.path.dirname(os.environ["HIPDNN_BACKEND_LIBRARY_PATH"]), "bin", "hipdnn")


def write(path, nodes, weights, dims):
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "tests", values, results, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def variance(path):
    """The mean of squares minus the square of the mean, of values near 300."""
    node, axes = helper.make_node, np.array([1], np.int64)
    nodes = [
        node("Add", ["x", "c"], ["near"], name="near"),
        node("Mul", ["near", "near"], ["squares"], name="squares"),
        node("ReduceMean", ["squares", "axes"], ["ms"], name="mean_of_squares", keepdims=1),
        node("ReduceMean", ["near", "axes"], ["mean"], name="mean", keepdims=1),
        node("Mul", ["mean", "mean"], ["sm"], name="square_of_mean"),
        node("Sub", ["ms", "sm"], ["y"], name="variance"),
    ]
    write(path, nodes, [("c", np.full(1, 300, np.float32)), ("axes", axes)], [8, 1024])


def product(path):
    """A product of weights that the session packs, and a node that ONNX Runtime computes."""
    node, random = helper.make_node, np.random.default_rng(3)
    nodes = [
        node("MatMul", ["x", "w"], ["p"], name="product"),
        node("Cast", ["p"], ["narrow"], name="narrow", to=TensorProto.FLOAT16),
        node("Cast", ["narrow"], ["wide"], name="wide", to=TensorProto.FLOAT),
        node("Relu", ["wide"], ["y"], name="relu"),
    ]
    write(path, nodes, [("w", random.standard_normal((64, 48)).astype(np.float32))], [16, 64])


def said(path, *words):
    code = (
        "import importlib.util, runpy, sys\n"
        f"spec = importlib.util.spec_from_file_location('onnxruntime_ep_hipdnn', {os.path.join(PACKAGE, '__init__.py')!r},"
        f" submodule_search_locations=[{PACKAGE!r}])\n"
        "package = importlib.util.module_from_spec(spec)\n"
        "sys.modules['onnxruntime_ep_hipdnn'] = package\n"
        "spec.loader.exec_module(package)\n"
        f"package.get_library_path = lambda: {LIBRARY!r}\n"
        "runpy.run_module('onnxruntime_ep_hipdnn', run_name='__main__', alter_sys=True)\n"
    )
    words = [path, "--no-timing", "--numerics", "--take", "all", *words]
    return subprocess.run([sys.executable, "-c", code, *words], check=False, capture_output=True, text=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        for make, beginning, reason in [
            (variance, "variance (Pointwise sub) loses ", "cancellation: the terms are "),
            (product, "narrow (Pointwise identity) loses ", "cast too early"),
        ]:
            make(path)
            done = said(path, "--tool", TOOL)
            assert done.returncode == 0, done.stderr
            last = done.stdout.splitlines()[-1]
            assert last.startswith(beginning) and reason in last, done.stdout
            print(last)
        done = said(path, "--tool", os.path.join(folder, "none"))
        assert done.returncode == 1 and "--tool names it" in done.stderr, done
    print("the nodes that lose digits of 2 models were named")


main()
