"""The application's GPU memory: tensors bound there, and tensors passed between sessions without the host. Without a GPU known
to ONNX Runtime: only the CPU is offered."""

import ctypes
import json
import os
import sys
import tempfile

import networks
import numpy as np
import onnxruntime as ort
import provider
from onnx import TensorProto, helper, numpy_helper

GPUS = [device for device in provider.DEVICES if device.device.type == ort.OrtHardwareDeviceType.GPU]
CPUS = [device for device in provider.DEVICES if device.device.type == ort.OrtHardwareDeviceType.CPU]
# Products may be rounded to TF32.
MOST = 5e-3


def network(rows, seed=0):
    """Softmax(relu(x * w + b) * v), with a gather for the host if there are indices."""
    random = np.random.default_rng(seed)
    weights = {"w": (16, 32), "b": (32,), "v": (32, 16)}
    arrays = {name: random.standard_normal(dims).astype(np.float32) for name, dims in weights.items()}
    arrays["table"] = random.standard_normal((2000, 16)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Relu", ["q"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["t"]),
        helper.make_node("Softmax", ["t"], ["y"], axis=-1),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 16]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, [rows]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 16])]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def feeds(rows, seed=1):
    random = np.random.default_rng(seed)
    return {"x": random.standard_normal((rows, 16)).astype(np.float32), "ids": random.integers(0, 2000, rows)}


def close(have, want):
    gap = provider.difference(have, want)
    assert gap < MOST, gap


def on_gpu(array):
    vendor = GPUS[0].device.vendor_id
    value = ort.OrtValue.ortvalue_from_numpy(array, "gpu", 0, vendor_id=vendor)
    assert value.device_name().lower() != "cpu", value.device_name()
    return value


def session(model, devices=None, **settings):
    of = provider.options()
    of.add_provider_for_devices(devices or provider.DEVICES, {"take": "all", **settings})
    return ort.InferenceSession(model, of, enable_fallback=0)


def test_memory_has_names():
    kinds = (ort.OrtDeviceMemoryType.DEFAULT, ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    infos = [GPUS[0].memory_info(kind) for kind in kinds]
    assert [info.device_mem_type for info in infos] == list(kinds)
    assert not any(device.memory_info(kind) for device in CPUS for kind in kinds)


def test_bytes_come_back():
    for dims in ((3, 5), (1,), (1000, 77), (0, 4)):
        array = np.random.default_rng(2).standard_normal(dims).astype(np.float32)
        assert np.array_equal(on_gpu(array).numpy(), array)


def test_devices_say_what_computes():
    model, given = network(6), feeds(6)
    want = provider.plain(model).run(None, given)[0]
    cases = [(GPUS, {}), (GPUS, {"device": "gpu"}), (provider.DEVICES, {"device": "gpu"}), (CPUS, {"device": "gpu"})]
    for devices, settings in [*cases, (provider.DEVICES, {"device": "cpu"}), (CPUS, {}), (provider.DEVICES, {})]:
        close(session(model, devices, **settings).run(None, given)[0], want)
    try:
        session(model, GPUS, device="cpu")
    except Exception as error:
        assert "no other device" in str(error), error
    else:
        raise AssertionError("a session of a GPU alone takes device=cpu")


def bound_runs(own, given, want):
    """Runs a session whose input and output are bound on the GPU."""
    binding = own.io_binding()
    for name, array in given.items():
        binding.bind_ortvalue_input(name, on_gpu(array))
    out = on_gpu(np.zeros((5, 16), np.float32))
    binding.bind_ortvalue_output("y", out)
    for _ in range(3):
        own.run_with_iobinding(binding)
        close(out.numpy(), want)


def test_tensors_are_bound_on_the_gpu():
    for rows in (5, "rows"):
        model, given = network(rows), feeds(5)
        bound_runs(session(model, device="gpu"), given, provider.plain(model).run(None, given)[0])


def test_tensors_on_the_gpu_reach_sessions_of_the_host():
    model, given = network(5), feeds(5)
    bound_runs(session(model, device="cpu"), given, provider.plain(model).run(None, given)[0])


def test_outputs_stay_and_go_on():
    """A tensor passes from session to session on the GPU, in memory that the first one allocated."""
    first, second, given = network("rows", 3), network("rows", 4), feeds(7)
    middle = provider.plain(first).run(None, given)[0]
    want = provider.plain(second).run(None, {"x": middle, "ids": given["ids"]})[0]
    sessions = [session(model, device="gpu") for model in (first, second)]
    value = on_gpu(given["x"])
    for own in sessions:
        binding = own.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_cpu_input("ids", given["ids"])
        if provider.VERSION < 30:
            # Python finds no vendor by a device's name.
            binding.bind_ortvalue_output("y", on_gpu(np.zeros((7, 16), np.float32)))
        else:
            vendor = GPUS[0].device.vendor_id
            binding.bind_output("y", "gpu" if vendor != 0x10DE else "cuda", 0)
        own.run_with_iobinding(binding)
        value = binding.get_outputs()[0]
        assert value.device_name().lower() != "cpu", value.device_name()
    close(value.numpy(), want)


def test_threads_run_beside_each_other():
    """Each thread has its own tensors on the GPU, and its runs their own stream."""
    model = network("rows", 6)
    own, plain = session(model, device="gpu"), provider.plain(model)
    wrong = []

    def work(seed):
        rows = 3 + seed % 3
        given = feeds(rows, seed)
        want, out = plain.run(None, given)[0], on_gpu(np.zeros((rows, 16), np.float32))
        binding = own.io_binding()
        for name, array in given.items():
            binding.bind_ortvalue_input(name, on_gpu(array))
        binding.bind_ortvalue_output("y", out)
        for _ in range(10):
            own.run_with_iobinding(binding)
            gap = provider.difference(out.numpy(), want)
            if not gap < MOST:
                wrong.append((seed, gap))

    provider.in_threads(work, 6)
    assert not wrong, wrong


def test_subgraphs_with_nodes_of_others_between():
    """A node on the CPU between two subgraphs: ONNX Runtime copies there and back, and nowhere else."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("CDist", ["b", "b"], ["c"], domain="com.microsoft"),
        helper.make_node("Exp", ["c"], ["y"]),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 16])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    distances = [helper.make_tensor_value_info("c", TensorProto.FLOAT, ["rows", "rows"])]
    graph = helper.make_graph(nodes, "between", values, outputs, value_info=distances)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    given = {"x": np.random.default_rng(5).standard_normal((9, 16)).astype(np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        of = provider.options()
        of.enable_profiling, of.profile_file_prefix = True, os.path.join(folder, "profile")
        of.add_provider_for_devices(provider.DEVICES, {"take": "all", "device": "gpu"})
        own = ort.InferenceSession(model, of, enable_fallback=0)
        close(own.run(None, given)[0], provider.plain(model).run(None, given)[0])
        with open(own.end_profiling(), encoding="utf-8") as file:
            events = [event.get("args", {}).get("op_name", "") for event in json.load(file)]
    copies = sorted(name for name in events if name.startswith("Memcpy"))
    assert copies == ["MemcpyFromHost", "MemcpyToHost"], copies


def test_knobs_reach_engines():
    model, given = network(6), feeds(6)
    want = provider.plain(model).run(None, given)[0]
    # Each engine takes its own of them.
    close(session(model, device="gpu", knobs="rtc.share_rows=0,cudnn.tf32=0").run(None, given)[0], want)
    try:
        session(model, device="gpu", knobs="rtc.share_rows=7")
    except Exception as error:
        assert "share_rows" in str(error), error
    else:
        raise AssertionError("a knob out of its range is taken")


def test_runs_are_captured():
    """A second run with the same memory is captured, and replayed as a whole from then on, before and after host operations."""
    model = network("rows", 7)
    plain = provider.plain(model)
    # The stand-in for the driver counts them.
    launches = getattr(ctypes.CDLL("libcuda.so.1"), "standin_cuda_graph_launches", None)
    for _ in range(4):
        # Consecutive runs; concurrent runs are not captured.
        session(model, device="gpu").run(None, feeds(3))
    counts = []
    for capture in ("1", "0"):
        own = session(model, device="gpu", capture=capture)
        before = launches() if launches else 0
        # Three shapes alternate, the largest first, with new numbers in every run.
        for turn in range(12):
            given = feeds(6 - turn % 3, turn)
            close(own.run(None, given)[0], plain.run(None, given)[0])
        counts.append(launches() - before if launches else 0)
    assert not launches or counts == [9, 0], counts


def test_heads_are_multiplied():
    """Products of heads, which are parts of rows: side by side first, where that takes less time than a call for each sequence."""
    for batch, tokens, heads, size in ((8, 5, 4, 4), (8, 3, 7, 8), (1, 5, 4, 4)):
        m = networks.Maker(batch)
        q, k, v = (m.node("Reshape", m.linear("x", 32, heads * size), m.integers(0, 0, heads, size)) for _ in range(3))
        q, k, v = (
            m.node("Transpose", of, perm=[0, 2, *order]) for of, order in ((q, (1, 3)), (k, (3, 1)), (v, (1, 3)))
        )
        y = m.node("MatMul", m.node("Tanh", m.node("MatMul", q, k)), v)
        y = m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.integers(0, 0, heads * size))
        model = m.model([("x", TensorProto.FLOAT, [batch, tokens, 32])], [y])
        given = {"x": np.random.default_rng(6).standard_normal((batch, tokens, 32)).astype(np.float32)}
        close(session(model, device="gpu").run(None, given)[0], provider.plain(model).run(None, given)[0])


def test_sessions_come_and_go():
    for turn in range(12):
        rows = 4 + turn % 3
        model, given = network("rows", turn), feeds(rows, turn)
        close(session(model, device="gpu").run(None, given)[0], provider.plain(model).run(None, given)[0])


def main():
    if not GPUS:
        assert len(CPUS) == 1
        print("left out: no GPU that ONNX Runtime is told of")
        return 0
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
