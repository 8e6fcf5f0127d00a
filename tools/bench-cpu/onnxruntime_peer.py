"""Measures ONNX models with ONNX Runtime.

Every line of standard input is one request in JSON, answered with one line of JSON:
  {"case": {"inputs": [...], "outputs": [...], "models": [...]}, "threads": N}
      makes a session for each model, keeps the fastest and writes its results
  {"run": SECONDS}
      executes it for that time, and returns the mean milliseconds of an execution
"""

import json
import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

OPSET = 23


def layouts(model):
    return {layout["name"]: layout for layout in model["layouts"]}


def to_model(array, layout):
    if layout is None:
        return array
    return np.ascontiguousarray(array.transpose(layout["permutation"])).reshape(layout["shape"])


def from_model(array, layout, dims):
    """Undoes `to_model`."""
    if layout is None:
        return array.reshape(dims)
    order = layout["permutation"]
    return array.reshape([dims[axis] for axis in order]).transpose(np.argsort(order))


class Session:
    """A model with bound arrays, so that executions copy nothing."""

    def __init__(self, case, model, threads):
        moved = layouts(model)
        self.outputs = [(output, moved.get(output["name"])) for output in case["outputs"]]
        initializers = [
            numpy_helper.from_array(
                np.asarray(number["value"], number.get("type", "float32")).reshape(()), number["name"]
            )
            for number in model["numbers"]
        ]
        initializers += [
            numpy_helper.from_array(np.asarray(row["values"], np.int64), row["name"]) for row in model["integers"]
        ]
        inputs, arrays = [], {}
        for entry in case["inputs"]:
            kind, dims = entry.get("stored") or ("float32", entry["dims"])
            array = np.fromfile(entry["path"], kind)[: np.prod(dims, dtype=int)].reshape(dims)
            array = to_model(array, moved.get(entry["name"]))
            if entry["is_weight"]:
                initializers.append(numpy_helper.from_array(array, entry["name"]))
            else:
                element = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(entry["name"], element, array.shape))
                arrays[entry["name"]] = array
        nodes = [helper.make_node(node["op"], node["in"], node["out"], **node["attributes"]) for node in model["nodes"]]
        names = [output["name"] for output, _ in self.outputs]
        kinds = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
        results = [
            helper.make_tensor_value_info(output["name"], kinds.get(output.get("stored"), TensorProto.FLOAT), None)
            for output in case["outputs"]
        ]
        graph = helper.make_graph(nodes, "case", inputs, results, initializers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        whole = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 4
        self.session = ort.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
        for name, value in self.values.items():
            self.binding.bind_ortvalue_input(name, value)
        for name in names:
            self.binding.bind_output(name)
        self.session.run_with_iobinding(self.binding)
        # The same memory for every execution, like our plans.
        self.results = self.binding.get_outputs()
        self.binding.clear_binding_outputs()
        for name, value in zip(names, self.results):
            self.binding.bind_ortvalue_output(name, value)

    def burst(self, seconds):
        run, binding = self.session.run_with_iobinding, self.binding
        run(binding)
        start = time.perf_counter()
        count = 0
        while True:
            run(binding)
            count += 1
            now = time.perf_counter()
            if now - start >= seconds:
                return 1000 * (now - start) / count

    def write(self):
        for (output, layout), value in zip(self.outputs, self.results):
            array = value.numpy()
            if output.get("stored"):
                np.ascontiguousarray(array).tofile(output["path"])
                continue
            array = from_model(array, layout, output["dims"])
            np.ascontiguousarray(array, np.float32).tofile(output["path"])


def choose(case, threads):
    sessions = [Session(case, model, threads) for model in case["models"]]
    best = sessions[0]
    if len(sessions) > 1:
        best = min(sessions, key=lambda session: min(session.burst(0.02) for _ in range(3)))
    best.session.run_with_iobinding(best.binding)
    best.write()
    return best


def main():
    session = None
    print(json.dumps({"ready": f"ONNX Runtime {ort.__version__}"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "case" in request:
                session = None
                session = choose(request["case"], request["threads"])
                answer = {"made": True}
            else:
                answer = {"ms": session.burst(request["run"])}
        except Exception as error:  # whatever it is, the asking side says it and goes on
            answer = {"failure": " ".join(str(error).split())}
        print(json.dumps(answer), flush=True)


main()
