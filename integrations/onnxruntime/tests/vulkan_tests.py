"""The provider on a Vulkan device, Mesa's software one or a GPU: a network, open sizes, threads, tensors that stay there between
sessions, and what has no driver. Without a Vulkan device the reason is checked."""

import os
import subprocess
import sys

# Tensors can stay on the device that the user has chosen.
os.environ.setdefault("HIPDNN_VULKAN_DEVICE", "cpu")

import numpy as np
import onnxruntime as ort
import provider
from onnx import TensorProto, helper, numpy_helper

GPUS = [device for device in provider.DEVICES if device.device.type == ort.OrtHardwareDeviceType.GPU]
CPUS = [device for device in provider.DEVICES if device.device.type == ort.OrtHardwareDeviceType.CPU]
MOST = 1e-4


def network(rows="n", seed=0):
    """A small classifier of images: convolution, pooling, a product, softmax."""
    random = np.random.default_rng(seed)
    weights = {
        "w": random.standard_normal((8, 3, 3, 3)) * 0.2,
        "b": random.standard_normal(8) * 0.1,
        "v": random.standard_normal((8 * 64, 10)) * 0.05,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 10])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def chain(seed):
    """tanh(x * w), of 4 × 16 numbers."""
    w = np.random.default_rng(seed).standard_normal((16, 16)).astype(np.float32) * 0.3
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def resizing(dims, factors, mode):
    """Linear resizing by whole factors, which a GPU computes itself."""
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode=mode)]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, dims),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    factors = numpy_helper.from_array(np.array(factors, np.float32), "s")
    graph = helper.make_graph(nodes, "resizing", values[:1], values[1:], [factors])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def close(have, want):
    gap = provider.difference(have, want)
    assert gap < MOST, gap


def refusal(**settings):
    try:
        provider.session(network(), {"take": "all", **settings})
    except Exception as error:
        return str(error)
    raise AssertionError(f"a session takes {settings}")


def test_a_network_computes_there():
    model, random = network(), np.random.default_rng(1)
    own, nodes = provider.reported(model, {"device": "vulkan", "take": "all"})
    assert all(node["subgraph"] == 0 for node in nodes), nodes
    # Each size has a plan; constants are there from the first run on.
    for rows in (1, 3, 8, 3, 1):
        given = {"x": random.standard_normal((rows, 3, 16, 16)).astype(np.float32)}
        close(own.run(None, given)[0], provider.plain(model).run(None, given)[0])


def test_images_are_resized_there():
    cases = [
        ([2, 3, 5, 4], [1, 1, 2, 3]),
        ([1, 2, 2, 7], [1, 1, 4, 1]),
        ([2, 3, 1, 1], [1, 1, 4, 5]),
        ([1, 2, 3, 4, 5], [1, 1, 2, 2, 2]),
        ([1, 1, 4, 6], [1, 1, 1.5, 2]),
        # Not quite whole.
        ([1, 1, 3, 100], [1, 1, 1, 2.00001]),
    ]
    for seed, (dims, factors) in enumerate(cases):
        for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
            x = np.random.default_rng(seed).standard_normal(dims).astype(np.float32)
            # Along an axis that keeps its size CPUExecutionProvider multiplies neighbours by 0, which makes NaN of these.
            if min(factors[2:]) > 1:
                x.flat[x.size // 2], x.flat[0], x.flat[-1] = np.nan, np.inf, -np.inf
            model = resizing(dims, factors, mode)
            own = provider.session(model, {"device": "vulkan", "take": "all"})
            close(own.run(None, {"x": x})[0], provider.plain(model).run(None, {"x": x})[0])


def test_threads_run_one_session():
    model = network()
    own = provider.session(model, {"device": "vulkan:0", "take": "all"})
    given = {"x": np.random.default_rng(2).standard_normal((2, 3, 16, 16)).astype(np.float32)}
    want, wrong = provider.plain(model).run(None, given)[0], []

    def run(_):
        for _ in range(10):
            gap = provider.difference(own.run(None, given)[0], want)
            if not gap < MOST:
                wrong.append(gap)

    provider.in_threads(run, 4)
    assert not wrong, wrong


def test_tensors_stay_between_sessions():
    if provider.VERSION < 27:
        return
    assert [device.device.vendor for device in GPUS] == ["Vulkan"], GPUS
    vendor = GPUS[0].device.vendor_id
    x = np.random.default_rng(3).standard_normal((4, 16)).astype(np.float32)
    want = x
    value = ort.OrtValue.ortvalue_from_numpy(x, "gpu", 0, vendor_id=vendor)
    assert value.device_name().lower() != "cpu" and np.array_equal(value.numpy(), x)
    # A session of the host copies them.
    for seed, device in ((4, "vulkan"), (5, "cpu"), (6, "vulkan")):
        model = chain(seed)
        want = provider.plain(model).run(None, {"x": want})[0]
        own = provider.session(model, {"device": device, "take": "all"})
        binding = own.io_binding()
        binding.bind_ortvalue_input("x", value)
        room = ort.OrtValue.ortvalue_from_numpy(np.zeros((4, 16), np.float32), "gpu", 0, vendor_id=vendor)
        binding.bind_ortvalue_output("y", room)
        own.run_with_iobinding(binding)
        (value,) = binding.get_outputs()
        assert value.device_name().lower() != "cpu", value.device_name()
        close(value.numpy(), want)
    # A session that has only this device computes there.
    of = provider.options()
    of.add_provider_for_devices(GPUS, {"take": "all"})
    alone = ort.InferenceSession(chain(7), of, enable_fallback=0)
    close(alone.run(None, {"x": x})[0], provider.plain(chain(7)).run(None, {"x": x})[0])


def test_what_cannot_be_is_named():
    assert 'is "vulkan:1", expected "vulkan:0"' in refusal(device="vulkan:1")
    assert "expected cpu, gpu, vulkan or vulkan:1" in refusal(device="vulkan:x")
    assert "CPU_ENGINE" in refusal(device="vulkan", engine="CPU_ENGINE")
    # The processor computes as before.
    given = {"x": np.ones((1, 3, 16, 16), np.float32)}
    close(
        provider.session(network(), {"device": "cpu"}).run(None, given)[0],
        provider.plain(network()).run(None, given)[0],
    )


WITHOUT = """
import sys
sys.path.insert(0, sys.argv[1])
import provider, vulkan_tests
assert not vulkan_tests.GPUS, vulkan_tests.GPUS
print(vulkan_tests.refusal(device="vulkan"))
"""


def test_without_a_driver_the_reason_is_an_error():
    env = {**os.environ, "VK_DRIVER_FILES": "/nowhere/icd.json", "VK_ICD_FILENAMES": "/nowhere/icd.json"}
    command = [sys.executable, "-c", WITHOUT, os.path.dirname(os.path.abspath(__file__))]
    made = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    words = ("vkCreateInstance failed", "expected less than the 0", "no library for Vulkan")
    assert 'option device: is "vulkan:0", and ' in made.stdout and "opening Vulkan device 0: " in made.stdout, (
        made.stdout
    )
    assert any(word in made.stdout for word in words), made.stdout


def main():
    try:
        provider.session(network(), {"device": "vulkan", "take": "all"})
    except Exception as error:
        text = str(error)
        assert 'option device: is "vulkan:0", and ' in text or "has no engine of this name" in text, text
        print(f"left out: no Vulkan device: {text.splitlines()[0][-200:]}")
        return 0
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    for test in tests:
        test()
        print(test.__name__, flush=True)
    print(f"{len(tests)} tests passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
