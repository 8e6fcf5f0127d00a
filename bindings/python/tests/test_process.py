"""The package in a process: its environment, sub-interpreters, memory over many executions, JAX arrays."""

from __future__ import annotations

import os
import subprocess
import sys

import hipdnn
import numpy as np
import pytest

F32 = np.float32


def python(*arguments, **variables):
    settings = {**os.environ, **variables}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, env=settings)


def test_the_environment_is_told():
    told = python("-m", "hipdnn")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    libraries = [line.removeprefix("GPU library ") for line in lines if line.startswith("GPU library ")]
    # Every library that an engine looks for is named, found or not.
    for name in ("HIP runtime", "MIOpen", "hipBLASLt", "CUDA driver", "cuDNN", "cuBLASLt", "NVRTC"):
        (line,) = [line for line in libraries if line.startswith(name)]
        assert line.endswith("not there") or "/" in line, line
    assert any(line.startswith("engine      CPU_ENGINE") for line in lines)
    driver = next(line for line in libraries if line.startswith("CUDA driver"))
    if not driver.endswith("not there"):
        assert any(line.startswith("device ") for line in lines)


def test_without_plugins_the_error_says_where_they_were_looked_for():
    code = "import hipdnn; g = hipdnn.Graph(); g.exp(g.tensor([4])).set_output(True); g.build()"
    told = python("-c", code, HIPDNN_PLUGIN_DIR="/nonexistent")
    assert "NoEngineError" in told.stderr, told.stderr
    assert "no engine is loaded: HIPDNN_PLUGIN_DIR is '/nonexistent'" in told.stderr, told.stderr


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import hipdnn, numpy
code = '''
import array
try:
    import hipdnn
except ImportError as error:
    words = str(error)
else:
    graph = hipdnn.Graph()
    x = graph.tensor([3])
    y = graph.neg(x).set_output(True)
    result = array.array("f", [0, 0, 0])
    graph.execute({x: array.array("f", [1, 2, 3]), y: result})
    words = str(list(result))
with open(FILE, "w") as file:
    file.write(words)
'''
made = interpreters.create()
try:
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    failure = run(made, code.replace("FILE", repr(sys.argv[1])))
    assert failure is None, failure
finally:
    interpreters.destroy(made)
# This interpreter's module works on.
with hipdnn.Graph() as graph:
    graph.neg(graph.tensor([3]))
assert graph(numpy.ones(3, numpy.float32)).sum() == -3
"""


def test_a_sub_interpreter_is_refused_in_words_or_computes(tmp_path):
    if sys.version_info < (3, 10):
        pytest.skip("this Python's sub-interpreters cannot be made from a program")
    told = python("-c", SUBINTERPRETER, str(tmp_path / "words"))
    assert told.returncode == 0, told.stderr
    words = (tmp_path / "words").read_text()
    assert words == "[-1.0, -2.0, -3.0]" or "interpreter" in words


LEAK = """
import gc, sys
import numpy as np
import hipdnn

graph = hipdnn.Graph()
x, y = graph.tensor([4, 4]), graph.tensor([4, 4])
z = graph.add(x, y).set_output(True)
of = {t: np.ones((4, 4), np.float32) for t in (x, y, z)}

def run(times):
    for _ in range(times):
        graph.execute(of)
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

run(20_000)
before, objects = run(5_000), len(gc.get_objects())
counts = [sys.getrefcount(array) for array in of.values()]
after = run(100_000)
assert [sys.getrefcount(array) for array in of.values()] == counts
assert (of[z] == 2).all()
print(after - before, len(gc.get_objects()) - objects)
"""


def test_many_executions_leave_nothing_behind():
    told = python("-c", LEAK)
    assert told.returncode == 0, told.stderr
    kibibytes, objects = map(int, told.stdout.split())
    # Leaking 8 bytes per execution would be 800 KiB.
    assert kibibytes < 400 and abs(objects) < 20


def test_arrays_of_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
    jnp = jax.numpy
    x, w = jnp.arange(12, dtype=jnp.float32).reshape(1, 3, 4), jnp.ones((1, 4, 2), jnp.float32)
    graph = hipdnn.Graph()
    a, b = graph.tensor_like(x), graph.tensor_like(w)
    y = graph.matmul(a, b).set_output(True)
    result = np.zeros((1, 3, 2), F32)
    graph.execute({a: x, b: w, y: result})
    np.testing.assert_array_equal(result, np.asarray(x @ w))
    np.testing.assert_array_equal(np.asarray(graph(x, w)), result)
    # JAX arrays are immutable, so none is written.
    with pytest.raises((hipdnn.Error, BufferError, TypeError)):
        graph.execute({a: x, b: w, y: jnp.zeros((1, 3, 2), jnp.float32)})
    half = jnp.ones((2, 3), jnp.bfloat16)
    with hipdnn.Graph() as doubled:
        doubled.add(doubled.tensor_like(half), doubled.tensor_like(half))
    assert np.asarray(doubled(half, half)).astype(float).sum() == 12
