"""Graphs: what is inferred, what is refused, plans in files, threads and processes."""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import subprocess
import sys
import threading

import hipdnn
import numpy as np
import pytest
from hipdnn import GraphError, NoEngineError, data_type

F32 = np.float32


def test_shapes_strides_and_types_are_inferred():
    graph = hipdnn.Graph(io_data_type=data_type.HALF)
    x = graph.tensor([2, 8, 16, 16], [2048, 1, 128, 8])
    y = graph.conv_fprop(x, graph.tensor([4, 8, 3, 3]), padding=[1, 1], stride=[2, 2])
    z = graph.relu(y).set_output(True)
    assert (y.dim, y.stride) == ((2, 4, 8, 8), (256, 1, 32, 4))
    of = {tensor["uid"]: tensor for tensor in json.loads(graph.to_json())["tensors"]}
    assert [of[t.uid]["data_type"] for t in (x, y, z)] == ["half", "float", "half"]
    assert [of[t.uid]["virtual"] for t in (x, y, z)] == [False, True, False]


@pytest.mark.parametrize(
    "make, node, argument, words",
    [
        (lambda g, x: g.matmul(x, g.tensor([1, 5, 5]), name="mm"), "mm", "B", "expected [..., 4, N]"),
        (lambda g, x: g.conv_fprop(x, g.tensor([5, 2, 3]), name="c"), "c", "weight", "has 2 input"),
        (lambda g, x: g.conv_fprop(g.tensor([1, 2, 3, 3]), g.tensor([1, 2, 5, 5])), "conv_fprop_0", "weight", "does not fit"),
        (lambda g, x: g.conv_fprop(g.tensor([1, 2, 3, 3]), g.tensor([1, 2, 3, 3]), [1]), "conv_fprop_0", "padding", "2 integers"),
        (lambda g, x: g.add(x, g.tensor([1, 3, 5])), "add_0", "b", "broadcast"),
        (lambda g, x: g.add(x, g.tensor([3, 4])), "add_0", "b", "3 dimensions"),
        (lambda g, x: g.relu("x"), "relu_0", "input", "expected a tensor of this graph, not str"),
        (lambda g, x: g.relu(hipdnn.Graph().tensor([1])), "relu_0", "input", "of another graph"),
        (lambda g, x: g.reduction(x, hipdnn.reduction_mode.ADD, axis=7), "reduction_0", "axis", "is 7"),
        (lambda g, x: g.tensor([1, -2]), "tensor 2", "dim", "no negative"),
        (lambda g, x: g.tensor([1, 2], [1]), "tensor 2", "stride", "expected 2"),
    ],
)  # fmt: skip
def test_a_mistake_names_node_and_argument(make, node, argument, words):
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3, 4])
    with pytest.raises(GraphError) as told:
        make(graph, x)
    assert (told.value.node, told.value.argument) == (node, argument)
    assert words in str(told.value)
    assert isinstance(told.value, ValueError)


def test_an_empty_graph_is_refused():
    with pytest.raises(GraphError, match="at least one operation"):
        hipdnn.Graph().build()


def test_no_engine_lists_the_reason_of_each():
    graph = hipdnn.Graph("odd", compute_data_type=data_type.INT8)
    x = graph.tensor([2, 3], data_type=data_type.FP8_E8M0)
    graph.erf(x)
    with pytest.raises(NoEngineError) as told:
        graph.build()
    names = {engine.name for engine in hipdnn.engines()}
    assert set(told.value.reasons) == names
    assert all(told.value.reasons.values())
    assert all(name in str(told.value) for name in names)


def test_every_engine_is_explained(capfd):
    graph = hipdnn.Graph()
    graph.exp(graph.tensor([2, 3]))
    verdicts = graph.explain()
    assert verdicts[0].rank == 1
    assert {verdict.engine for verdict in verdicts} == {engine.name for engine in hipdnn.engines()}
    assert all((verdict.rank is None) == bool(verdict.reason) for verdict in verdicts)
    assert graph.engines()[0] == graph.engine
    if "HIPDNN_LOG_LEVEL" not in os.environ:
        assert capfd.readouterr().err == ""


def test_the_steps_of_plans_are_told():
    graph = hipdnn.Graph()
    graph.relu(graph.exp(graph.tensor([2, 3])))
    for verdict in graph.explain():
        if not verdict.engine.startswith("CPU_"):
            continue
        assert verdict.steps, verdict
        assert sorted(node for step in verdict.steps for node in step["nodes"]) == [0, 1]
        assert all(step["algorithm"] and step["operation"] and step["bytes"] > 0 for step in verdict.steps)
        is_reference = verdict.engine == "CPU_REFERENCE_ENGINE"
        assert all(("reference" in step) == is_reference for step in verdict.steps)


def test_an_engine_and_its_knobs_are_chosen():
    graph = hipdnn.Graph()
    graph.exp(graph.tensor([2, 3]))
    assert "threads" in graph.knobs("CPU_ENGINE")
    assert graph.build(engine="CPU_REFERENCE_ENGINE").engine == "CPU_REFERENCE_ENGINE"
    assert graph.build(engine="CPU_ENGINE", knobs={"threads": 1}).engine == "CPU_ENGINE"
    with pytest.raises(hipdnn.Error, match="threads"):
        graph.build(engine="CPU_ENGINE", knobs={"threads": -5})
    of = {engine.name: engine.id for engine in hipdnn.engines()}
    assert graph.build(engine=of["CPU_REFERENCE_ENGINE"]).engine == "CPU_REFERENCE_ENGINE"


@pytest.mark.parametrize("wrong", ["NO_ENGINE", "", 4242, -1, 1 << 70, 1.5, True, ("CPU_ENGINE",), []])
@pytest.mark.parametrize("use", [lambda g, e: g.build(engine=e), lambda g, e: g.knobs(e)], ids=["build", "knobs"])
def test_an_engine_that_is_not_there_is_named_beside_those_that_are(wrong, use):
    graph = hipdnn.Graph()
    graph.exp(graph.tensor([2, 3]))
    with pytest.raises(GraphError) as told:
        use(graph, wrong)
    assert told.value.argument == "engine" and f"is {wrong!r}," in str(told.value)
    for engine in hipdnn.engines():
        assert f"{engine.name} ({engine.id})" in str(told.value)
    # The graph is unchanged.
    assert graph.build().engine == "CPU_ENGINE"


def test_equal_graphs_share_a_plan():
    def graph():
        graph = hipdnn.Graph()
        graph.exp(graph.tensor([2, 3, 41]))
        return graph.build()

    assert graph().plan is graph().plan


def test_a_changed_graph_is_planned_anew():
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3])
    y = graph.exp(x)
    assert graph(np.zeros((2, 3), F32)).sum() == 6
    y.set_data_type("half")
    assert graph(np.zeros((2, 3), F32)).dtype == np.float16
    graph.neg(y)
    y.set_output(False)
    assert graph(np.zeros((2, 3), F32)).sum() == -6


def test_graphs_are_called_with_names():
    with hipdnn.Graph() as graph:
        graph.sub(graph.tensor([2], name="a"), graph.tensor([2], name="b"))
    a, b = np.array([5, 6], F32), np.array([1, 2], F32)
    np.testing.assert_array_equal(graph(b=b, a=a), [4, 4])
    for wrong, error in (({"c": a}, TypeError), ({}, hipdnn.ArrayError)):
        with pytest.raises(error):
            graph(**wrong)
    with pytest.raises(TypeError):
        graph(a, b, a)
    with pytest.raises(TypeError):
        graph(a, a=a)


def test_a_plan_is_saved_and_loaded(tmp_path, random):
    x, w = random.uniform(-1, 1, (1, 2, 5, 5)).astype(F32), random.uniform(-1, 1, (3, 2, 3, 3)).astype(F32)
    with hipdnn.Graph("saved") as graph:
        graph.relu(graph.conv_fprop(graph.tensor_like(x, "x"), graph.tensor_like(w, "w")))
    saved = graph.save(tmp_path / "plan")
    for loaded in (hipdnn.load(tmp_path / "plan"), hipdnn.load(saved)):
        np.testing.assert_array_equal(loaded(x, w), graph(x, w))
        np.testing.assert_array_equal(loaded(w=w, x=x), graph(x, w))
        assert (loaded.name, loaded.engine) == ("saved", graph.engine)
        with pytest.raises(TypeError):
            loaded.tensor([1])
    for wrong in (b"", b"nonsense", saved[: len(saved) // 2]):
        with pytest.raises(hipdnn.Error):
            hipdnn.load(wrong)


def test_engines_are_measured():
    graph = hipdnn.Graph()
    x = graph.tensor([8, 64, 64])
    y = graph.matmul(x, x).set_output(True)
    times = graph.autotune({t: np.ones((8, 64, 64), F32) for t in (x, y)}, seconds=0.01, progress=False)
    assert set(times) == set(graph.engines())
    assert graph.engine == min(times, key=times.__getitem__)


def test_knobs_are_searched_by_a_strategy():
    graph = hipdnn.Graph()
    x, w = graph.tensor([1, 8, 16, 16]), graph.tensor([8, 8, 3, 3])
    y = graph.conv_fprop(x, w, padding=[1, 1]).set_output(True)
    rng = np.random.default_rng(1)
    arrays = {
        x: rng.standard_normal((1, 8, 16, 16)).astype(F32),
        w: rng.standard_normal((8, 8, 3, 3)).astype(F32),
        y: np.empty((1, 8, 16, 16), F32),
    }
    graph.execute(arrays)
    right = arrays[y].copy()
    for strategy in ("halving", "exhaustive"):
        times = graph.autotune(arrays, budget=0.3, strategy=strategy, knobs=True, progress=False)
        tuned = graph.tuned
        assert set(times) == set(graph.engines()) and graph.engine == tuned.best.engine
        assert (
            tuned.gain >= 1 and any(trial.knobs for trial in tuned.trials) and all(trial.runs for trial in tuned.trials)
        )
        assert not any("constant_weights" in trial.knobs for trial in tuned.trials)
        graph.execute(arrays)
        assert np.allclose(arrays[y], right, atol=1e-4)
    with pytest.raises(ValueError, match='strategy is "lucky", expected one of halving, exhaustive'):
        graph.autotune(arrays, strategy="lucky", progress=False)


def test_an_exception_while_tuning_ends_it(monkeypatch):
    graph = hipdnn.Graph()
    x = graph.tensor([8, 8])
    y = graph.exp(x).set_output(True)
    monkeypatch.setattr(graph, "_run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        graph.autotune({x: np.ones((8, 8), F32), y: np.empty((8, 8), F32)}, progress=False)


def test_threads_share_a_graph():
    with hipdnn.Graph() as graph:
        graph.mul(graph.tensor([64]), graph.tensor([64]))
    failures = []

    def work(number):
        x, two = np.full(64, number, F32), np.full(64, 2, F32)
        for _ in range(500):
            if not (graph(x, two) == 2 * number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_threads_run_during_an_execution():
    size = 512
    graph = hipdnn.Graph()
    a = graph.tensor([1, size, size])
    b = graph.matmul(graph.matmul(graph.matmul(a, a), a), a).set_output(True)
    graph.build(engine="CPU_REFERENCE_ENGINE")
    of = {t: np.ones((1, size, size), F32) for t in (a, b)}
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    graph.execute(of)
    during = counted[0] - before
    done.set()
    thread.join()
    assert during > 1000


def test_a_fork_computes_on():
    with hipdnn.Graph() as graph:
        graph.matmul(graph.tensor([1, 256, 256]), graph.tensor([1, 256, 256]))
    x = np.ones((1, 256, 256), F32)
    assert graph(x, x)[0, 0, 0] == 256
    child = os.fork()
    if child == 0:
        with hipdnn.Graph() as other:
            other.exp(other.tensor([4]))
        right = graph(x, x)[0, 0, 0] == 256 and other(np.zeros(4, F32))[0] == 1
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nothing_is_lost_in_many_executions():
    graph = hipdnn.Graph()
    x = graph.tensor([4])
    y = graph.neg(x).set_output(True)
    graph.build(knobs={"threads": 1})
    of = {x: np.ones(4, F32), y: np.ones(4, F32)}
    others = [{x: np.ones(4, F32), y: np.ones(4, F32)} for _ in range(3)]
    wrong = {x: np.ones(5, F32), y: np.ones(4, F32)}

    def work(count):
        for _ in range(count):
            graph.execute(of)
            graph.execute(others[_ % 3])
            with pytest.raises(hipdnn.ArrayError) if _ % 100 == 0 else memoryview(b""):
                graph.execute(wrong if _ % 100 == 0 else of)

    work(2000)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(33000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_the_interpreter_ends_with_live_plans():
    ended = python(
        "import hipdnn, numpy as np, threading\n"
        "g = hipdnn.Graph(); x = g.tensor([1, 300, 300]); y = g.matmul(x, x).set_output(True); g.build()\n"
        "of = {t: np.ones((1, 300, 300), np.float32) for t in (x, y)}\n"
        "def forever():\n    while True: g.execute(of)\n"
        "threading.Thread(target=forever, daemon=True).start()\n"
        "g.execute(of); print('end')"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")


def test_the_environment_is_printed():
    ended = subprocess.run([sys.executable, "-m", "hipdnn"], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    instructions = "\nISA         " if platform.machine() == "x86_64" else ""
    for word in (hipdnn.__version__, "Python", "numpy", "CPU_ENGINE", hipdnn.library().path, instructions):
        assert word in ended.stdout


def test_a_library_that_is_missing_is_told():
    ended = subprocess.run(
        [sys.executable, "-m", "hipdnn"], capture_output=True, text=True, timeout=120,
        env={**os.environ, "HIPDNN_BACKEND_LIBRARY_PATH": "/nowhere"},
    )  # fmt: skip
    assert ended.returncode == 1
    assert "/nowhere" in ended.stdout and "Traceback" not in ended.stderr


def test_types_of_other_libraries_are_known():
    assert hipdnn.Graph(np.dtype("float16")).name == np.dtype("float16")
    graph = hipdnn.Graph(io_data_type=np.float16)
    assert graph.io_data_type is data_type.HALF
    with pytest.raises(ValueError, match="is not a data type"):
        hipdnn.Graph(io_data_type="floaty")
