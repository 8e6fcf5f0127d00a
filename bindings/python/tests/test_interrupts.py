"""Signals while graphs are built, planned, executed, measured, saved and loaded: no hang, no half state, a response within half a second.

``HIPDNN_TEST_INTERRUPTS`` says how many signals are sent, 2,000 by default.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import hipdnn
import numpy as np
import pytest

F32 = np.float32
COUNT = int(os.environ.get("HIPDNN_TEST_INTERRUPTS", "2000"))

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")


class Interrupt(BaseException):
    """What a handler raises here: like KeyboardInterrupt, not an Exception."""


STORM = """
import faulthandler, os, random, signal, sys, tempfile
import numpy as np
import hipdnn
from hipdnn import plans

faulthandler.dump_traceback_later(int(sys.argv[2]), exit=True)
count, wanted = 0, int(sys.argv[1])
armed = False

class Interrupt(BaseException):
    pass

def interrupt(*_):
    global count
    if armed:
        count += 1
        raise Interrupt

signal.signal(signal.SIGALRM, interrupt)
F32 = np.float32
x, w = np.ones((1, 3, 8, 8), F32), np.ones((4, 3, 3, 3), F32)
saved_by = tempfile.mkstemp()[1]

def made():
    graph = hipdnn.Graph()
    image = graph.tensor_like(x, "x").set_dim(x.shape)
    filter = graph.tensor_like(w, "w").set_uid(1)
    bias = graph.tensor([1, 4, 1, 1], name="b")
    graph.relu(graph.add(graph.conv_fprop(image, filter, padding=[1, 1]), bias))
    return graph

b = np.full((1, 4, 1, 1), 0.5, F32)
right = made()(x, w, b)
assert right[0, 0, 4, 4] == 27.5

def check(graph):
    # Whatever was interrupted: it works, and answers what it is to answer.
    if graph._nodes and len(graph._nodes) == 3:
        np.testing.assert_array_equal(graph(x, w, b), right)
        assert graph.engine and [t.name for t in graph._inputs] == ["x", "w", "b"]
        assert len({t.uid for t in graph.tensors}) == len(graph.tensors)

def once(kept, step):
    plans.plans.made.clear() if random.random() < 0.1 else None
    graph = kept[0] if kept and random.random() < 0.7 else made()
    kept[:] = [graph]
    what = step % 8
    if what == 0:
        graph.build()
    elif what == 1:
        graph.build(engine="CPU_REFERENCE_ENGINE")
    elif what == 2:
        graph.autotune({**dict(zip(graph._inputs, (x, w, b))), graph._outputs[0]: np.empty_like(right)} if graph._outputs else {},
                       seconds=0.0005, progress=False) if graph._outputs else graph.build()
    elif what == 3:
        hipdnn.load(graph.save(saved_by))(x, w, b)
    elif what == 4:
        graph.explain()
    elif what == 5:
        graph.tensors[0].set_dim(x.shape)
        graph.create_execution_plans()
        graph.build_plans()
        graph.execute_plan_at_index(dict(zip(graph._inputs + graph._outputs, (x, w, b, np.empty_like(right)))), None, 0)
    else:
        for _ in range(20):
            graph(x, w, b)

random.seed(5)
kept, step = [], 0
while count < wanted:
    step += 1
    try:
        # Far enough apart that work is done between two of them, and anywhere in it.
        signal.setitimer(signal.ITIMER_REAL, random.choice((2e-5, 1e-4, 4e-4, 2e-3)) * (0.3 + random.random()))
        armed = True
        once(kept, step)
        armed = False
    except Interrupt:
        armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    if step % 50 == 0:
        for graph in kept:
            check(graph)
        check(made())
        assert "HIPDNN_LOG_FILE" not in os.environ
os.unlink(saved_by)
print("right", count, step)
"""


@pytest.mark.parametrize("where", ["alone", "beside a thread"])
def test_a_storm_of_signals_leaves_no_half_state(where):
    code = STORM
    if where == "beside a thread":
        code = code.replace("random.seed(5)", BESIDE + "random.seed(6)")
    limit = 120 + COUNT // 40
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(COUNT // 2), str(limit)],
        capture_output=True, text=True, timeout=limit + 60,
    )  # fmt: skip
    assert ended.returncode == 0 and ended.stdout.startswith("right"), ended.stdout + ended.stderr


#: Another thread, which uses the same caches and must not find them locked.
BESIDE = """
import threading
def beside():
    while count < wanted:
        np.testing.assert_array_equal(made()(x, w, b), right)
threading.Thread(target=beside, daemon=True).start()
"""


@pytest.fixture
def interrupted():
    """Sets a timer that raises Interrupt in this thread."""

    def interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def long_graph(size=512):
    """A product that takes the reference engine seconds, and its arrays."""
    graph = hipdnn.Graph()
    a, b = graph.tensor([1, size, size]), graph.tensor([1, size, size])
    c = graph.matmul(a, b).set_output(True)
    graph.build(engine="CPU_REFERENCE_ENGINE")
    return (
        graph,
        {a: np.ones((1, size, size), F32), b: np.ones((1, size, size), F32), c: np.zeros((1, size, size), F32)},
        c,
    )


def test_a_long_execution_answers_an_interrupt(interrupted):
    graph, of, c = long_graph()
    began = time.monotonic()
    graph.execute(of)
    taken = time.monotonic() - began
    if taken < 0.5:
        pytest.skip(f"the execution takes {taken:.2f} s here, too short to be interrupted")
    # The plan is known to be long now; one of unknown length is interruptible, too.
    for plan in (graph, long_graph()[0]):
        of[c][:] = 0
        began = time.monotonic()
        interrupted(0.15)
        with pytest.raises(Interrupt):
            plan.execute(of if plan is graph else dict(zip([*plan._inputs, *plan._outputs], of.values())))
        assert time.monotonic() - began < 0.7
        # The next execution waits for the background one only if one writes what the other uses.
        with hipdnn.Graph() as small:
            small.neg(small.tensor([3]))
        began = time.monotonic()
        assert small(np.ones(3, F32)).sum() == -3
        assert time.monotonic() - began < taken / 2
        with hipdnn.Graph() as reader:
            reader.neg(reader.tensor_like(of[c]))
        assert (reader(of[c]) == -512).all()


def test_arrays_of_an_interrupted_execution_are_kept_until_it_ends(interrupted):
    graph, of, c = long_graph(440)
    began = time.monotonic()
    graph.execute(of)
    if time.monotonic() - began < 0.4:
        pytest.skip("the execution is too short here to be interrupted")
    counts = [sys.getrefcount(array) for array in of.values()]
    interrupted(0.1)
    with pytest.raises(Interrupt):
        graph.execute(of)
    assert all(sys.getrefcount(array) > count for array, count in zip(of.values(), counts))
    # Waiting for the background is interruptible, too.
    interrupted(0.1)
    with pytest.raises(Interrupt):
        graph.execute(of)
    graph.execute(of)
    assert [sys.getrefcount(array) for array in of.values()] == counts
    assert (of[c] == 440).all()


def test_an_interrupted_execution_stops_before_its_next_step(interrupted):
    size, steps = 224, 16
    graph = hipdnn.Graph()
    a, last = graph.tensor([1, size, size]), graph.tensor([1, size, size])
    inputs = [a, last]
    for _ in range(steps):
        last = graph.matmul(last, a)
    last.set_output(True)
    graph.build(engine="CPU_REFERENCE_ENGINE")
    one = np.full((1, size, size), 1 / size, F32)
    result = np.zeros_like(one)
    of = {inputs[0]: one, inputs[1]: one, last: result}
    began = time.monotonic()
    graph.execute(of)
    taken = time.monotonic() - began
    if taken < 0.8:
        pytest.skip(f"the execution takes {taken:.2f} s here, too short to be interrupted")
    result[:] = 7
    began = time.monotonic()
    interrupted(0.1)
    with pytest.raises(Interrupt):
        graph.execute(of)
    # This waits for the interrupted execution, which does not reach the step that writes the result.
    with hipdnn.Graph() as reader:
        reader.neg(reader.tensor_like(result))
    assert (reader(result) == -7).all()
    assert time.monotonic() - began < 0.1 + taken / 2
    graph.execute(of)
    np.testing.assert_allclose(result, one, rtol=1e-5)


def test_handlers_that_raise_nothing_interrupt_nothing(interrupted):
    graph, of, c = long_graph(300)
    seen = []

    def note(*_):
        seen.append(1)
        # A handler may execute, too.
        with hipdnn.Graph() as small:
            small.neg(small.tensor([3]))
        assert small(np.ones(3, F32)).sum() == -3

    signal.signal(signal.SIGALRM, note)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    for _ in range(3):
        graph.execute(of)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert (of[c] == 300).all() and seen


def test_other_threads_execute_as_before():
    graph, of, c = long_graph(256)
    thread = threading.Thread(target=graph.execute, args=(of,))
    thread.start()
    thread.join()
    assert (of[c] == 256).all()


FORK_AFTER = """
import os, signal, sys
import numpy as np
import hipdnn

class Interrupt(BaseException):
    pass

def interrupt(*_):
    raise Interrupt

signal.signal(signal.SIGALRM, interrupt)
graph = hipdnn.Graph()
a = graph.tensor([1, 512, 512])
graph.matmul(a, a).set_output(True)
graph.build(engine="CPU_REFERENCE_ENGINE")
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    graph(np.ones((1, 512, 512), np.float32))
except Interrupt:
    pass
child = os.fork()
with hipdnn.Graph() as small:
    small.neg(small.tensor([3]))
if child == 0:
    # The child has no thread that goes on in the background, and waits for none.
    os._exit(0 if small(np.ones(3, np.float32)).sum() == -3 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert small(np.ones(3, np.float32)).sum() == -3
print("right")
"""


@pytest.mark.skipif(not hasattr(os, "fork") or sys.version_info < (3, 9), reason="no forks")
def test_a_child_does_not_wait_for_its_parents_execution():
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_AFTER], capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.stdout + ended.stderr


def test_the_interpreter_ends_while_an_interrupted_execution_goes_on():
    code = FORK_AFTER[: FORK_AFTER.index("child = os.fork()")] + "print('right')\n"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.stdout + ended.stderr
