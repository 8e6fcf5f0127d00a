"""Life cycle and failures: options, changing shapes, threads, sessions opened and closed, the library registered again."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
import provider
from onnx import TensorProto, helper, numpy_helper

#: Whether to run tests that may take minutes.
LONG = bool(os.environ.get("HIPDNN_TEST_LONG"))

RANDOM = np.random.default_rng(0)

#: Two algorithms for convolutions that round differently.
WINOGRAD, OTHER = "convolution=5", "convolution=2"


def model(nodes, inputs, outputs, weights=(), opset=20):
    values = [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "tests", values, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def convolution(batch="N"):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1], name="turn"),
        helper.make_node("MatMul", ["t", "m"], ["y"], name="product"),
    ]
    weights = [
        ("w", RANDOM.standard_normal((16, 8, 3, 3)).astype(np.float32)),
        ("b", RANDOM.standard_normal(16).astype(np.float32)),
        ("m", RANDOM.standard_normal((16, 24)).astype(np.float32)),
    ]
    return model(nodes, [("x", TensorProto.FLOAT, [batch, 8, "H", "W"])], [("y", TensorProto.FLOAT)], weights)


def images(*dims):
    return {"x": RANDOM.standard_normal(dims).astype(np.float32)}


def agree(own, plain, feeds):
    for have, want in zip(own.run(None, feeds), plain.run(None, feeds)):
        gap = provider.difference(have, want)
        assert gap < 1e-5, f"results differ by {gap}"


def refused(run, *words):
    try:
        run()
    except Exception as error:
        text = str(error)
        for word in words:
            assert word in text, f"{word!r} is not in {text!r}"
        return
    raise AssertionError(f"nothing was refused, expected {words}")


def test_shapes_may_change():
    data = convolution()
    own, plain = provider.session(data, {"take": "all", "plans": "2"}), provider.plain(data)
    for size in (5, 9, 5, 12, 7, 5):
        agree(own, plain, images(2, 8, size, size + 1))


def test_inputs_begin_anywhere():
    data = convolution()
    own, plain = provider.session(data, {"take": "all"}), provider.plain(data)
    memory = RANDOM.standard_normal(1 + 8 * 36).astype(np.float32)
    x = memory[1:].reshape(1, 8, 6, 6)
    own_binding = own.io_binding()
    own_binding.bind_cpu_input("x", x)
    own_binding.bind_output("y")
    own.run_with_iobinding(own_binding)
    want = plain.run(None, {"x": x})[0]
    assert provider.difference(own_binding.copy_outputs_to_cpu()[0], want) < 1e-5


def test_weights_that_change_are_not_kept():
    nodes = [helper.make_node("MatMul", ["x", "m"], ["y"], name="product")]
    values = [("x", TensorProto.FLOAT, [64, 64]), ("m", TensorProto.FLOAT, [64, 64])]
    data = model(nodes, values, [("y", TensorProto.FLOAT)])
    own, plain = provider.session(data, {"take": "all"}), provider.plain(data)
    x, m = (RANDOM.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    for _ in range(3):
        agree(own, plain, {"x": x, "m": m})
        # In the same place.
        m += 1


def test_inputs_that_are_outputs():
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["a"], name="reshape"),
        helper.make_node("Transpose", ["a"], ["b"], name="turn"),
        helper.make_node("Exp", ["b"], ["c"], name="exp"),
        helper.make_node("Identity", ["c"], ["d"], name="same"),
    ]
    values = [("x", TensorProto.FLOAT, [2, 6])]
    data = model(nodes, values, [(name, TensorProto.FLOAT) for name in "abcd"], [("s", np.array([3, 4], np.int64))])
    own, plain = provider.session(data, {"take": "all"}), provider.plain(data)
    agree(own, plain, {"x": RANDOM.standard_normal((2, 6)).astype(np.float32)})


def test_nothing_to_compute():
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("Neg", ["r"], ["y"], name="neg")]
    data = model(nodes, [("x", TensorProto.FLOAT, ["N", 4])], [("y", TensorProto.FLOAT)])
    own, plain = provider.session(data, {"take": "all"}), provider.plain(data)
    for rows in (3, 0, 2):
        agree(own, plain, {"x": np.ones((rows, 4), np.float32)})


def test_options():
    data = convolution()
    refused(lambda: provider.session(data, {"threads": "many"}), "threads", "many", "an integer from 0 to 256")
    refused(lambda: provider.session(data, {"speed": "1"}), "speed", "is unknown")
    refused(lambda: provider.session(data, {"engine": "NONE"}), "engine NONE", "CPU_ENGINE")
    refused(lambda: provider.session(data, {"device": "tpu"}), "device", "cpu, gpu, vulkan or vulkan:1")
    plain = provider.plain(data)
    for settings in (
        {"engine": "CPU_REFERENCE_ENGINE"},
        {"deterministic": "1", "threads": "1"},
        {"knobs": "convolution=1"},
    ):
        agree(provider.session(data, {"take": "all", **settings}), plain, images(1, 8, 6, 6))


def test_reasons():
    _, nodes = provider.reported(convolution(1), {"take": "all"})
    assert [node["subgraph"] for node in nodes] == [0] * len(nodes), nodes
    nodes = [helper.make_node("Det", ["x"], ["y"], name="det")]
    data = model(nodes, [("x", TensorProto.FLOAT, [3, 3])], [("y", TensorProto.FLOAT)])
    _, nodes = provider.reported(data, {"take": "all"})
    assert nodes[0]["reason"] == "this operator is not computed here", nodes


def compiled(data, folder, is_embedded, settings=None):
    """The path of a model compiled by the provider."""
    of, path = provider.options(), os.path.join(folder, "compiled.onnx")
    of.add_session_config_entry("ep.context_enable", "1")
    of.add_session_config_entry("ep.context_file_path", path)
    of.add_session_config_entry("ep.context_embed_mode", "1" if is_embedded else "0")
    of.add_provider_for_devices(provider.DEVICES, {"take": "all", **(settings or {})})
    ort.InferenceSession(data, of, enable_fallback=0)
    return path


def test_compiled_models():
    fixed = model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
            helper.make_node("Det", ["d"], ["e"], name="det"),
            helper.make_node("Mul", ["c", "e"], ["y"], name="mul"),
        ],
        [("x", TensorProto.FLOAT, [1, 8, 6, 6]), ("d", TensorProto.FLOAT, [3, 3])],
        [("y", TensorProto.FLOAT)],
        [("w", RANDOM.standard_normal((64, 8, 3, 3)).astype(np.float32))],
    )
    for data, feeds in (
        (fixed, {**images(1, 8, 6, 6), "d": np.eye(3, dtype=np.float32)}),
        (convolution(1), images(1, 8, 6, 6)),
    ):
        plain = provider.plain(data)
        for is_embedded in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                path = compiled(data, folder, is_embedded, {"knobs": WINOGRAD})
                contexts = sum(node.op_type == "EPContext" for node in onnx.load(path).graph.node)
                assert len(os.listdir(folder)) == (1 if is_embedded else 1 + contexts)
                agree(provider.session(path), plain, feeds)
                if data is fixed:
                    # Nothing is planned: the results are those of the algorithm in the file, bit by bit.
                    loaded = provider.session(path, {"knobs": OTHER})
                    have, *others = (
                        of.run(None, feeds)[0]
                        for of in (
                            loaded,
                            *(provider.session(data, {"take": "all", "knobs": of}) for of in (WINOGRAD, OTHER)),
                        )
                    )
                    assert [np.array_equal(have, other) for other in others] == [True, False]
                if not is_embedded:
                    (other,) = [name for name in sorted(os.listdir(folder)) if name.endswith(".hipdnn")][:1]
                    os.remove(os.path.join(folder, other))
                    refused(lambda: provider.session(path), "EPContext", other, "cannot be read")


def test_compiled_models_of_others():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(convolution(1), folder, True)
        loaded = onnx.load(path)
        (node,) = [node for node in loaded.graph.node if node.op_type == "EPContext"]
        by_name = {attribute.name: attribute for attribute in node.attribute}
        text = by_name["ep_cache_context"].s
        # Plans of another version are made anew; damaged ones are reported.
        by_name["ep_cache_context"].s = text.replace(b"hipdnn-onnxruntime 0", b"hipdnn-onnxruntime 9")
        agree(provider.session(loaded.SerializeToString()), provider.session(path), images(1, 8, 6, 6))
        by_name["ep_cache_context"].s = text[: len(text) // 2]
        refused(lambda: provider.session(loaded.SerializeToString()), "EPContext", "damaged")
        by_name["ep_cache_context"].s = text.replace(b'"Conv"', b'"Conw"')
        refused(
            lambda: provider.session(loaded.SerializeToString()).run(None, images(1, 8, 6, 6)),
            "Conw",
            "not computed here",
        )
        by_name["ep_cache_context"].s = b"../elsewhere.hipdnn"
        by_name["embed_mode"].i = 0
        refused(lambda: provider.session(loaded.SerializeToString()), "EPContext", "../elsewhere", "beside the model")


def test_a_profile_shows_what_is_computed():
    if provider.VERSION < 25:
        return
    with tempfile.TemporaryDirectory() as folder:
        of = provider.options()
        of.enable_profiling, of.profile_file_prefix = True, os.path.join(folder, "profile")
        of.add_provider_for_devices(provider.DEVICES, {"take": "all"})
        session = ort.InferenceSession(convolution(1), of, enable_fallback=0)
        for _ in range(3):
            session.run(None, images(1, 8, 6, 6))
        with open(session.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
    own = [event for event in events if event.get("cat") == "Kernel"]
    for names in ("conv, relu", "product"):
        assert sum(f": {names} [" in event["name"] for event in own) == 3, [event["name"] for event in events]
    runs = [event for event in events if event["name"] == "model_run"]
    for event in own:
        assert any(
            run["ts"] <= event["ts"] <= event["ts"] + event["dur"] <= run["ts"] + run["dur"] + 1 for run in runs
        ), event


def branches():
    """Convolutions inside of If, Loop and Scan."""

    def graph(name, nodes, inputs, outputs):
        values = [helper.make_tensor_value_info(of, kind, dims) for of, kind, dims in inputs]
        return helper.make_graph(
            nodes, name, values, [helper.make_tensor_value_info(of, kind, dims) for of, kind, dims in outputs]
        )

    image = [1, 8, 6, 6]
    conv = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["a"], ["z"], name="relu"),
    ]
    other = [helper.make_node("Neg", ["x"], ["a2"], name="neg"), helper.make_node("Exp", ["a2"], ["z2"], name="exp")]
    whether = helper.make_node(
        "If", ["c"], ["u"], name="if",
        then_branch=graph("then", conv, [], [("z", TensorProto.FLOAT, image)]),
        else_branch=graph("else", other, [], [("z2", TensorProto.FLOAT, image)]),
    )  # fmt: skip
    body = [
        helper.make_node("Conv", ["s", "w"], ["b"], pads=[1, 1, 1, 1], name="conv2"),
        helper.make_node("Tanh", ["b"], ["s2"], name="tanh"),
        helper.make_node("Identity", ["go"], ["go2"], name="go"),
    ]
    inputs = [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, image)]
    loop = helper.make_node(
        "Loop",
        ["n", "", "u"],
        ["v"],
        name="loop",
        body=graph("body", body, inputs, [("go2", TensorProto.BOOL, []), ("s2", TensorProto.FLOAT, image)]),
    )
    step = [
        helper.make_node("Conv", ["e", "w"], ["d"], pads=[1, 1, 1, 1], name="conv3"),
        helper.make_node("Add", ["d", "h"], ["h2"], name="add"),
        helper.make_node("Sigmoid", ["h2"], ["o"], name="sigmoid"),
    ]
    values = [("h", TensorProto.FLOAT, image), ("e", TensorProto.FLOAT, image)]
    scan = helper.make_node(
        "Scan",
        ["v", "xs"],
        ["w2", "y"],
        name="scan",
        num_scan_inputs=1,
        body=graph("step", step, values, [("h2", TensorProto.FLOAT, image), ("o", TensorProto.FLOAT, image)]),
    )
    inputs = [
        ("x", TensorProto.FLOAT, image),
        ("xs", TensorProto.FLOAT, [3, *image]),
        ("c", TensorProto.BOOL, []),
        ("n", TensorProto.INT64, []),
    ]
    return model(
        [whether, loop, scan],
        inputs,
        [("y", TensorProto.FLOAT)],
        [("w", RANDOM.standard_normal((8, 8, 3, 3)).astype(np.float32) * 0.2)],
    )


def test_bodies_of_control_flow():
    data = branches()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report")
        own, plain = provider.session(data, {"take": "all", "report": path}), provider.plain(data)
        with open(path, encoding="utf-8") as file:
            nodes = [node for line in file for node in json.loads(line)["nodes"]]
    names = ("conv", "relu", "neg", "exp", "conv2", "tanh", "conv3", "add", "sigmoid") if provider.VERSION > 23 else ()
    for name in names:
        assert any(node["name"] == name and node["subgraph"] is not None for node in nodes), name
    for whether in (True, False):
        feeds = {**images(1, 8, 6, 6), "xs": RANDOM.standard_normal((3, 1, 8, 6, 6)).astype(np.float32)}
        agree(own, plain, {**feeds, "c": np.array(whether), "n": np.array(2)})


def test_broken_models():
    refused(lambda: provider.session(b"no model"), "")
    refused(lambda: provider.session(convolution()).run(None, {"x": np.zeros((1, 7, 4, 4), np.float32)}), "")


def test_threads_share_a_session():
    data = convolution()
    own, plain = provider.session(data, {"take": "all", "plans": "3"}), provider.plain(data)
    cases = [images(1 + at % 2, 8, 4 + at, 5 + at) for at in range(6)]
    wanted = [plain.run(None, feeds)[0] for feeds in cases]
    failures = []

    def work(seed):
        for turn in range(60):
            at = (turn * 7 + seed) % len(cases)
            gap = provider.difference(own.run(None, cases[at])[0], wanted[at])
            if not gap < 1e-5:
                failures.append((at, gap))

    provider.in_threads(work, 8)
    assert not failures, failures[:5]


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_sessions_come_and_go():
    data = convolution(1)
    feeds = images(1, 8, 32, 32)

    def some(count):
        for _ in range(count):
            provider.session(data, {"take": "all"}).run(None, feeds)
        gc.collect()

    some(60)
    before = resident()
    some(1000 if LONG else 100)
    grown = resident() - before
    if LONG:
        print(f"1000 sessions: {grown >> 10} KiB more")
    assert grown < 16 << 20, f"these sessions left {grown >> 20} MiB"


def test_minutes_of_changing_shapes():
    """Two seconds, or ten minutes with HIPDNN_TEST_LONG."""
    data = convolution()
    own, plain = provider.session(data, {"take": "all", "plans": "4"}), provider.plain(data)
    cases = [images(1 + at % 3, 8, 4 + at % 7, 5 + at) for at in range(12)]
    wanted = [plain.run(None, feeds)[0] for feeds in cases]
    end = time.monotonic() + (600 if LONG else 2)
    failures, runs = [], [0] * 8

    def work(seed):
        while time.monotonic() < end and not failures:
            at = (runs[seed] * 5 + seed) % len(cases)
            gap = provider.difference(own.run(None, cases[at])[0], wanted[at])
            runs[seed] += 1
            if not gap < 1e-5:
                failures.append((at, gap))

    begun = resident()
    provider.in_threads(work, 8)
    grown = resident() - begun
    if LONG:
        print(f"{sum(runs)} runs on 8 threads, {len(failures)} wrong, {grown >> 10} KiB more")
    assert not failures and min(runs) > 0, (failures[:5], runs)
    assert grown < 64 << 20, f"{sum(runs)} runs left {grown >> 20} MiB"


def test_runs_leave_no_memory():
    data = convolution()
    own = provider.session(data, {"take": "all"})
    feeds = images(1, 8, 64, 64)
    for _ in range(100):
        own.run(None, feeds)
    before = resident()
    for _ in range(2000):
        own.run(None, feeds)
    grown = resident() - before
    assert grown < 8 << 20, f"2000 runs left {grown >> 20} MiB"


def processor_time(word):
    """The CPU seconds of this process's threads whose names begin with a word."""
    ticks = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/stat", encoding="ascii", errors="replace") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith(word):
            ticks += sum(int(number) for number in rest.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_threads_are_those_of_the_session():
    if len(os.sched_getaffinity(0)) < 2:
        return
    data, feeds = convolution(), images(8, 8, 128, 128)
    want = provider.plain(data).run(None, feeds)[0]
    for pool, is_engine in (("session", False), ("engine", True)):
        own = provider.session(data, {"take": "all", "pool": pool}, 2)
        begun, before = time.monotonic(), processor_time("hipdnn-cpu")
        while True:
            assert provider.difference(own.run(None, feeds)[0], want) < 1e-5
            spent = processor_time("hipdnn-cpu") - before
            if time.monotonic() - begun > (30 if is_engine else 1) or spent > 0.05:
                break
        assert (spent > 0.05) == is_engine, f"pool {pool}: the engine's threads computed {spent} s"


def test_a_session_of_one_thread_computes_on_it():
    data, feeds = convolution(), images(8, 8, 128, 128)
    own = provider.session(data, {"take": "all", "pool": "session"}, 1)
    own.run(None, feeds)
    before, own_before = time.process_time(), time.thread_time()
    for _ in range(20):
        own.run(None, feeds)
    others = (time.process_time() - before) - (time.thread_time() - own_before)
    assert others < 0.05, f"other threads computed {others} s"


def test_a_process_may_end_with_a_session():
    """Neither closes the session nor unregisters the library."""
    code = (
        "import os, numpy, onnxruntime, provider, session_tests as tests\n"
        "own = provider.session(tests.convolution(), {'take': 'all'}, 2)\n"
        "provider.kept = own\n"
        "own.run(None, tests.images(8, 8, 64, 64))\n"
        "print('computed')"
    )
    folder = os.path.dirname(os.path.abspath(__file__))
    for _ in range(10 if LONG else 3):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stdout.strip()) == (0, "computed"), (done.returncode, done.stderr[-500:])


def test_an_engine_of_another_plugin():
    """Its plugin says that it takes memory of the host; the stub computes nothing."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.join(here, "..", "..", "..")
    names = ("plugin", "details", "identity", "log", "saving")
    files = [os.path.join(root, "c_tests", "plugins", f"stub_{name}.c") for name in names]
    with tempfile.TemporaryDirectory() as folder:
        plugin, log = os.path.join(folder, "libthird_plugin.so"), os.path.join(folder, "log")
        macros = ['-DENGINES="THIRD_ENGINE"', "-DDEVICE=1", "-D_POSIX_C_SOURCE=200809L"]
        include = ["-I", os.path.join(root, "include", "hipdnn", "plugin")]
        subprocess.run(["cc", "-std=c11", "-shared", "-fPIC", *macros, *include, "-o", plugin, *files], check=True)
        code = "import session_tests as t; t.provider.session(t.convolution(1), {SETTINGS}).run(None, t.images(1, 8, 6, 6))"
        for settings in ("'engine': 'THIRD_ENGINE', 'take': 'all'", "'take': 'all'"):
            own = {**os.environ, "HIPDNN_PLUGIN_DIR": folder, "HIPDNN_STUB_LOG": log}
            words = [sys.executable, "-c", code.replace("SETTINGS", settings)]
            done = subprocess.run(words, cwd=here, env=own, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stderr[-500:]
            with open(log, encoding="utf-8") as lines:
                assert "ExecuteOpGraph " in lines.read()
            os.remove(log)


def test_the_library_is_registered_again():
    """The last test, since it changes the devices."""
    data = convolution(1)
    for _ in range(100 if LONG else 3):
        provider.DEVICES.clear()
        gc.collect()
        ort.unregister_execution_provider_library("hipdnn")
        ort.register_execution_provider_library("hipdnn", provider.LIBRARY)
        provider.DEVICES += [device for device in ort.get_ep_devices() if device.ep_name == provider.NAME]
        agree(provider.session(data, {"take": "all"}), provider.plain(data), images(1, 8, 6, 6))


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
