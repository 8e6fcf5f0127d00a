"""What an application may do around a run: end it, bind an input as output, unregister the library, record its graphs; and what it is told when it asks for the impossible."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
import onnxruntime as ort
import provider
from onnx import TensorProto, helper
from session_tests import RANDOM, agree, compiled, convolution, images, model, refused


def layers(count, channels=48):
    """Convolutions, each on the transposed result of the one before, so that each is a graph of its own."""
    nodes, weights, x = [], [], "x"
    for at in range(count):
        nodes.append(helper.make_node("Conv", [x, f"w{at}"], [f"c{at}"], pads=[1, 1, 1, 1], name=f"conv{at}"))
        nodes.append(helper.make_node("Transpose", [f"c{at}"], [f"t{at}"], perm=[0, 1, 3, 2], name=f"turn{at}"))
        nodes.append(helper.make_node("Reshape", [f"t{at}", "s"], [f"r{at}"], name=f"shape{at}"))
        weights.append((f"w{at}", RANDOM.standard_normal((channels, channels, 3, 3)).astype(np.float32) * 0.05))
        x = f"r{at}"
    weights.append(("s", np.array([1, channels, 128, 96], np.int64)))
    nodes.append(helper.make_node("Relu", [x], ["y"], name="relu"))
    values = [("x", TensorProto.FLOAT, [1, channels, 128, 96])]
    return model(nodes, values, [("y", TensorProto.FLOAT)], weights), images(1, channels, 128, 96)


def test_a_run_ends_when_it_is_told_to():
    data, feeds = layers(60)
    for settings in ({}, {"pool": "session"}):
        own = provider.session(data, {"take": "all", **settings}, 2)
        own.run(None, feeds)
        begun = time.monotonic()
        own.run(None, feeds)
        whole = time.monotonic() - begun
        options = ort.RunOptions()

        def end(options=options, whole=whole):
            time.sleep(whole / 4)
            options.terminate = True

        other = threading.Thread(target=end)
        begun = time.monotonic()
        other.start()
        refused(lambda: own.run(None, feeds, options), "terminate")
        spent = time.monotonic() - begun
        other.join()
        assert spent < 0.75 * whole, f"it ended after {spent} of {whole} s"
        # The session stays usable.
        options.terminate = False
        own.run(None, feeds, options)


def test_a_run_ends_inside_of_a_graph_on_the_threads_of_the_session():
    nodes, weights, x = [], [], "x"
    for at in range(40):
        weights.append((f"w{at}", RANDOM.standard_normal((64, 64, 3, 3)).astype(np.float32) * 0.05))
        nodes.append(helper.make_node("Conv", [x, f"w{at}"], [f"c{at}"], pads=[1, 1, 1, 1], name=f"conv{at}"))
        x = f"c{at}"
    data = model(nodes, [("x", TensorProto.FLOAT, [1, 64, 128, 128])], [(x, TensorProto.FLOAT)], weights)
    own, feeds = provider.session(data, {"pool": "session"}, 2), images(1, 64, 128, 128)
    own.run(None, feeds)
    begun = time.monotonic()
    own.run(None, feeds)
    whole = time.monotonic() - begun
    options = ort.RunOptions()
    timer = threading.Timer(whole / 4, lambda: setattr(options, "terminate", True))
    begun = time.monotonic()
    timer.start()
    refused(lambda: own.run(None, feeds, options), "terminate")
    spent = time.monotonic() - begun
    timer.join()
    assert spent < 0.75 * whole, f"it ended after {spent} of {whole} s"


def in_place(session, feeds, pairs, others=()):
    """The outputs of a run that are bound to the memory of inputs."""
    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for source, target in pairs:
        binding.bind_ortvalue_output(target, values[source])
    for name in others:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    return [np.array(value.numpy()) for value in binding.get_outputs()]


def test_an_input_may_be_bound_as_output():
    nodes = [
        helper.make_node("MatMul", ["x", "m"], ["p"], name="product"),
        helper.make_node("Add", ["p", "x"], ["y"], name="sum"),
        helper.make_node("Transpose", ["x"], ["z"], perm=[1, 0], name="turn"),
    ]
    weights = [("m", RANDOM.standard_normal((96, 96)).astype(np.float32))]
    outputs = [("y", TensorProto.FLOAT), ("z", TensorProto.FLOAT)]
    data = model(nodes, [("x", TensorProto.FLOAT, ["N", 96])], outputs, weights)
    own, plain = provider.session(data, {"take": "all"}), provider.plain(data)
    feeds = {"x": RANDOM.standard_normal((96, 96)).astype(np.float32)}
    wanted = plain.run(None, feeds)
    for pairs, others, order in (([("x", "y")], ["z"], (0, 1)), ([("x", "z")], ["y"], (1, 0))):
        for have, at in zip(in_place(own, feeds, pairs, others), order):
            assert provider.difference(have, wanted[at]) < 1e-5, (pairs, at)


LEFT = """
import gc, numpy, onnxruntime as ort, provider, session_tests as tests
own = provider.session(tests.convolution(), {'take': 'all'}, 2)
want = own.run(None, {'x': numpy.ones((1, 8, 9, 9), numpy.float32)})[0]
provider.DEVICES.clear()
gc.collect()
ort.unregister_execution_provider_library('hipdnn')
have = own.run(None, {'x': numpy.ones((1, 8, 9, 9), numpy.float32)})[0]
assert numpy.array_equal(have, want)
del own
gc.collect()
print('ended')
"""


def test_a_session_may_outlive_the_registration():
    folder = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", LEFT], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "ended"), (done.returncode, done.stderr[-500:])


def test_impossible_options_fail_when_the_session_is_made():
    data = convolution()
    refused(lambda: provider.session(data, {"knobs": "thread=1"}), "knobs", '"thread"', "threads")
    refused(lambda: provider.session(data, {"knobs": "convolution=99"}), "knobs", "convolution", "99")
    with tempfile.TemporaryDirectory() as folder:
        missing = os.path.join(folder, "missing", "report.json")
        refused(lambda: provider.session(data, {"report": missing}), "report", missing, "cannot be written")


def test_a_compiled_form_that_is_no_text():
    with tempfile.TemporaryDirectory() as folder:
        loaded = onnx.load(compiled(convolution(1), folder, True))
        (node,) = [node for node in loaded.graph.node if node.op_type == "EPContext"]
        (content,) = [of for of in node.attribute if of.name == "ep_cache_context"]
        content.s = b"\xff\xfe" + content.s
        refused(lambda: provider.session(loaded.SerializeToString()), "EPContext", "not UTF-8")


def test_weights_in_another_folder():
    """The model has its weights in a file beside it, and the compiled model is in another folder."""
    weights = RANDOM.standard_normal((64, 8, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Det", ["d"], ["e"], name="det"),
        helper.make_node("Mul", ["c", "e"], ["y"], name="mul"),
    ]
    values = [("x", TensorProto.FLOAT, [1, 8, 6, 6]), ("d", TensorProto.FLOAT, [3, 3])]
    data = model(nodes, values, [("y", TensorProto.FLOAT)], [("w", weights)])
    feeds = {**images(1, 8, 6, 6), "d": np.eye(3, dtype=np.float32)}
    for is_embedded in ("1", "0"):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            source, target = os.path.join(first, "model.onnx"), os.path.join(second, "compiled.onnx")
            loaded = onnx.load_model_from_string(data)
            onnx.save(loaded, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
            of = provider.options()
            of.add_session_config_entry("ep.context_enable", "1")
            of.add_session_config_entry("ep.context_file_path", target)
            of.add_session_config_entry("ep.context_embed_mode", is_embedded)
            of.add_provider_for_devices(provider.DEVICES, {"take": "all"})
            ort.InferenceSession(source, of, enable_fallback=0)
            agree(provider.session(target), provider.plain(source), feeds)


def test_damaged_models_are_refused():
    """Truncated models and models with changed bytes fail or compute something, and the process goes on."""
    data, random = convolution(1), np.random.default_rng(3)
    for at in range(120):
        own = bytearray(data)
        if at % 3 == 0:
            own = own[: int(random.integers(1, len(own)))]
        for _ in range(int(random.integers(1, 5))):
            own[int(random.integers(len(own) if at % 2 else 400) % len(own))] = int(random.integers(256))
        try:
            made = provider.session(bytes(own), {"take": "all"})
            # Not one that asks for the memory of the whole machine.
            if [of.shape for of in made.get_inputs()] == [[1, 8, "H", "W"]]:
                made.run(None, images(1, 8, 6, 6))
        except Exception:
            continue
    agree(provider.session(data, {"take": "all"}), provider.plain(data), images(1, 8, 6, 6))


def early_cast():
    """A product that is stored as float16 before a sum."""
    nodes = [
        helper.make_node("MatMul", ["x", "m"], ["p"], name="product"),
        helper.make_node("Cast", ["p"], ["h"], to=TensorProto.FLOAT16, name="narrow"),
        helper.make_node("Cast", ["h"], ["f"], to=TensorProto.FLOAT, name="wide"),
        helper.make_node("Add", ["f", "b"], ["y"], name="sum"),
    ]
    weights = [
        (name, RANDOM.standard_normal(dims).astype(np.float32)) for name, dims in (("m", (16, 24)), ("b", (24,)))
    ]
    return model(nodes, [("x", TensorProto.FLOAT, [8, 16])], [("y", TensorProto.FLOAT)], weights)


def test_the_tool_finds_the_node_of_a_model_that_loses_digits():
    """By the graph that the provider makes of the model, which the library records."""
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.join(os.environ["HIPDNN_BACKEND_LIBRARY_PATH"], "..")
    with tempfile.TemporaryDirectory() as folder:
        code = "import life_tests as t; t.provider.session(t.early_cast(), {'take': 'all'}).run(None, t.images(8, 16))"
        own = {**os.environ, "HIPDNN_RECORD_GRAPHS": folder, "HIPDNN_PLAN_CACHE_DIR": ""}
        subprocess.run([sys.executable, "-c", code], cwd=here, env=own, capture_output=True, timeout=120, check=True)
        (graph,) = os.listdir(folder)
        words = [os.path.join(tree, "bin", "hipdnn"), "numerics", os.path.join(folder, graph), "--json"]
        found = json.loads(subprocess.run(words, capture_output=True, timeout=120, check=True).stdout)
    row = found["rows"][found["culprit"]]
    # The provider's nodes are named by what they compute.
    assert (row["operation"], row["data_type"]) == ("Pointwise identity", "half"), found
    assert row["reasons"][0].startswith("cast too early"), found


def test_items_do_not_depend_on_their_batch():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("ReduceMean", ["c", "axes"], ["r"], keepdims=0, name="mean"),
        helper.make_node("Softmax", ["r"], ["y"], name="softmax"),
    ]
    weights = [
        ("w", RANDOM.standard_normal((32, 32, 3, 3)).astype(np.float32)),
        ("axes", np.array([2, 3], np.int64)),
    ]
    data = model(nodes, [("x", TensorProto.FLOAT, ["N", 32, 14, 14])], [("c", 1), ("y", 1)], weights)
    refused(
        lambda: provider.session(data, {"batch_invariant": "1", "engine": "CPU_REFERENCE_ENGINE"}),
        "batch_invariant",
        "CPU_REFERENCE_ENGINE",
    )
    own = provider.session(data, {"take": "all", "batch_invariant": "1"})
    x = images(7, 32, 14, 14)["x"]
    together = own.run(None, {"x": x})
    for at in range(len(x)):
        for one, of in zip(own.run(None, {"x": x[at : at + 1]}), together):
            assert one.tobytes() == of[at : at + 1].tobytes(), f"item {at} differs"


def test_subnormal_numbers_are_zeros_if_the_session_says_so():
    nodes = [helper.make_node("MatMul", ["x", "m"], ["y"], name="product")]
    weights = [("m", np.full((16, 16), 1e-20, np.float32))]
    data = model(nodes, [("x", TensorProto.FLOAT, ["N", 16])], [("y", TensorProto.FLOAT)], weights)
    for is_zero in (False, True):
        of = provider.options()
        of.add_session_config_entry("session.set_denormal_as_zero", "1" if is_zero else "0")
        of.add_provider_for_devices(provider.DEVICES, {"take": "all"})
        y = ort.InferenceSession(data, of, enable_fallback=0).run(None, {"x": np.full((3, 16), 1e-20, np.float32)})[0]
        assert (y == 0).all() == is_zero, y


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
