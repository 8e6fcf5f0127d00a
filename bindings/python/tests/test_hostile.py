"""Arrays that were freed, have odd layouts or cannot be written, and forks at a bad time: an exception or a right result."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import threading

import hipdnn
import numpy as np
import pytest

F32 = np.float32


def negation(x, y):
    """A graph of two tensors like these arrays."""
    graph = hipdnn.Graph()
    a = graph.tensor_like(x, "a")
    b = graph.neg(a).set_name("b").set_output(True).set_dim(y.shape)
    b.set_stride([step // y.itemsize for step in y.strides])
    return graph, a, b


# Arrays with odd layouts.


def test_gaps_are_skipped_and_kept():
    room = np.full((4, 12), 7, F32)
    x, y = np.arange(24, dtype=F32).reshape(4, 6)[:, ::2], room[:, ::4]
    graph, a, b = negation(x, y)
    graph.execute({a: x, b: y})
    np.testing.assert_array_equal(y, -x)
    y[:] = 7
    assert (room == 7).all()


@pytest.mark.parametrize("x_step, y_step", [(-1, 1), (1, -1), (-1, -1)])
def test_what_runs_backwards_is_right_or_refused(x_step, y_step):
    inner, outer = np.arange(12, dtype=F32).reshape(3, 4), np.full((3, 4), 7, F32)
    x, y = inner[:, ::x_step], outer[::y_step]
    try:
        graph, a, b = negation(x, y)
        graph.execute({a: x, b: y})
    except hipdnn.Error as error:
        assert str(error) and (outer == 7).all()
        return
    np.testing.assert_array_equal(y, -x)


def test_overlapping_results_are_right_or_refused():
    room = np.zeros(16, F32)
    x, y = np.arange(1, 7, dtype=F32).reshape(2, 3), np.lib.stride_tricks.as_strided(room, (2, 3), (4, 4))
    try:
        graph, a, b = negation(x, y)
        graph.execute({a: x, b: y})
    except hipdnn.Error as error:
        assert str(error) and (room == 0).all()
        return
    for k in range(4):
        assert room[k] in [-x[i, j] for i in range(2) for j in range(3) if i + j == k]
    assert (room[4:] == 0).all()


def test_what_cannot_be_written_is_read():
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)
    graph, a, b = negation(x, y)
    x.flags.writeable = False
    for given in (x, memoryview(x), memoryview(x.tobytes()).cast("f")):
        y[:] = 0
        graph.execute({a: given, b: y})
        np.testing.assert_array_equal(y, -x)
    for refused in (x, memoryview(x), memoryview(bytes(24)).cast("f")):
        with pytest.raises(hipdnn.ArrayError, match="read-only"):
            graph.execute({a: y, b: refused})
    assert x[5] == 5


# Arrays that were freed.


def test_a_view_that_was_released_is_told():
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)
    graph, a, b = negation(x, y)
    for gone in (memoryview(x), memoryview(bytearray(24)).cast("f")):
        gone.release()
        for of in ({a: gone, b: y}, {a: x, b: gone}):
            with pytest.raises((hipdnn.ArrayError, ValueError), match="released"):
                graph.execute(of)
        with pytest.raises((hipdnn.ArrayError, ValueError), match="released"):
            graph.tensor_like(gone)
    graph.execute({a: x, b: y})
    np.testing.assert_array_equal(y, -x)


class Capsule:
    """An array that returns the same capsule to everyone."""

    def __init__(self, array):
        self.array, self.capsule = array, array.__dlpack__()

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_capsule_is_taken_twice_or_told():
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)
    graph, a, b = negation(x, y)
    one = Capsule(x)
    for _ in range(3):
        y[:] = 0
        graph.execute({a: one, b: y})
        np.testing.assert_array_equal(y, -x)
    # A consumer renames the capsule that it takes.
    taken = np.from_dlpack(one)
    with pytest.raises((hipdnn.Error, ValueError, TypeError)):
        graph.execute({a: one, b: y})
    del taken
    with pytest.raises((hipdnn.Error, ValueError, TypeError)):
        graph.execute({a: one, b: y})
    graph.execute({a: x, b: y})


@pytest.mark.smoke
def test_tensors_whose_storage_was_given_up_are_told():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    x, y = torch.arange(6.0), torch.zeros(6)
    graph = hipdnn.Graph()
    a = graph.tensor([6], name="a")
    b = graph.neg(a).set_output(True)
    graph.execute({a: x, b: y})
    # The last one begins at an address that no process maps.
    gone, whole, large = torch.arange(6.0), torch.arange(12.0), torch.arange(40000.0)
    parts = (gone, whole[4:10], large[20000:20006])
    for freed in (gone, whole, large):
        freed.untyped_storage().resize_(0)
    assert parts[-1].data_ptr() == 80000
    for freed in parts:
        for of in ({a: freed, b: y}, {a: x, b: freed}):
            with pytest.raises(hipdnn.ArrayError, match="no memory any more"):
                graph.execute(of)
    graph.execute({a: x, b: y})
    assert y.equal(-x)


@pytest.mark.skipif(sys.platform != "linux", reason="places memory as Linux does")
def test_tensors_that_lie_low_are_taken():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    libc, size, fixed_if_free = ctypes.CDLL(None, use_errno=True), 1 << 16, 0x100000
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed_if_free
    # Like the heap of a program linked to a fixed address.
    at = libc.mmap(1 << 38, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    assert at == 1 << 38, ctypes.get_errno()
    low = torch.frombuffer((ctypes.c_char * size).from_address(at), dtype=torch.float32)
    graph = hipdnn.Graph()
    a = graph.tensor([6])
    b = graph.neg(a).set_output(True)
    low[:] = torch.arange(low.numel())
    for begin in (0, 400, 12000):
        x, y = low[begin : begin + 6], torch.zeros(6)
        graph.execute({a: x, b: y})
        assert x.data_ptr() < 1 << 40 and y.equal(-x)


SHORT = """
import resource
import torch
import torch.nn.functional as F
import hipdnn.torch

torch.set_num_threads(1)
x = torch.zeros(1 << 26)
with hipdnn.torch.enable(timed=False):
    F.gelu(x[:64])
    with open("/proc/self/statm") as of:
        taken = int(of.read().split()[0]) * resource.getpagesize()
    # Room for the result, and not for another one.
    room = x.numel() * x.element_size() * 3 // 2
    resource.setrlimit(resource.RLIMIT_AS, (taken + room, resource.RLIM_INFINITY))
    for _ in range(3):
        assert not F.gelu(x).any()
    assert hipdnn.torch.report()[-1].routed, hipdnn.torch.report()
"""


def test_little_memory_beside_results_is_enough():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", SHORT], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


# Processes.

FORKS = """
import gc, os, threading
import numpy as np
import hipdnn

graph = hipdnn.Graph()
x = graph.tensor([1, 96, 96])
y = graph.matmul(x, x).set_output(True)
graph.build()
done, wrong = threading.Event(), []

def work():
    of = {t: np.ones((1, 96, 96), np.float32) for t in (x, y)}
    while not done.is_set():
        graph.execute(of)
        if not (of[y] == 96).all():
            wrong.append("a thread's result")

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        of = {t: np.full((1, 96, 96), 2, np.float32) for t in (x, y)}
        graph.execute(of)
        with hipdnn.Graph() as other:
            other.exp(other.tensor([4]))
        right = (of[y] == 384).all() and (other(np.zeros(4, np.float32)) == 1).all()
        # A child of its own.
        grandchild = os.fork()
        if grandchild == 0:
            of[y][:] = 0
            graph.execute(of)
            right = (of[y] == 384).all()
        elif os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) != 0:
            right = False
        # Plans go, and what threads of the parent were changing does not.
        del x, y, graph, other
        gc.collect()
        os._exit(0 if right else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        wrong.append("a child's")
done.set()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""


def test_forks_while_threads_execute():
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


def test_arrays_that_go_away_meanwhile_are_kept():
    size, failures = 128, []
    graph = hipdnn.Graph()
    a = graph.tensor([1, size, size])
    b = graph.matmul(a, a).set_output(True)
    graph.build()

    def work():
        for _ in range(50):
            y = np.zeros((1, size, size), F32)
            # Only the execution holds this one.
            graph.execute({a: np.ones((1, size, size), F32), b: y})
            if not (y == size).all():
                failures.append(y)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
