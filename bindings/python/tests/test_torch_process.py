"""`enable(process=True)`: hipDNN's kernels in every Python thread."""

from __future__ import annotations

import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

X = torch.ones(2, 3)


@pytest.fixture(autouse=True)
def fresh():
    hipdnn.torch.reset()
    yield
    hipdnn.torch.disable(process=True)
    hipdnn.torch.disable()


def routed():
    return sum(row.routed for row in hipdnn.torch.report())


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_every_thread_computes_here():
    hipdnn.torch.enable(process=True, timed=False)
    F.gelu(X)
    in_a_thread(lambda: F.gelu(X))
    in_a_thread(lambda: in_a_thread(lambda: F.gelu(X)))
    assert routed() == 3
    hipdnn.torch.disable(process=True)
    F.gelu(X)
    in_a_thread(lambda: F.gelu(X))
    assert routed() == 3


def test_threads_that_run_meanwhile_end_it_as_well():
    begun, go, counts = threading.Event(), threading.Event(), []

    def work():
        F.gelu(X)
        counts.append(routed())
        begun.set()
        go.wait()
        F.gelu(X)
        F.gelu(X)
        counts.append(routed())

    with hipdnn.torch.enable(process=True, timed=False):
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
    go.set()
    thread.join()
    assert counts == [1, 1]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python before 3.12 does not reach threads that run")
def test_threads_that_run_already_join():
    go = threading.Event()

    def work():
        go.wait()
        F.gelu(X)

    thread = threading.Thread(target=work)
    thread.start()
    with hipdnn.torch.enable(process=True, timed=False):
        go.set()
        thread.join()
    assert routed() == 1


def test_a_threads_own_switch_is_its_own():
    hipdnn.torch.enable(process=True, timed=False)

    def work():
        with hipdnn.torch.enable(timed=False):
            F.gelu(X)
            hipdnn.torch.disable(process=True)
            F.gelu(X)
        F.gelu(X)

    in_a_thread(work)
    assert routed() == 2
    F.gelu(X)
    assert routed() == 2


def test_gradients_and_results_are_pytorchs():
    x, w = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3, requires_grad=True)
    (wanted,) = torch.autograd.grad(F.conv2d(x, w).square().sum(), w)
    got = []
    with hipdnn.torch.enable(process=True, timed=False):
        threads = [
            threading.Thread(target=lambda: got.append(torch.autograd.grad(F.conv2d(x, w).square().sum(), w)[0]))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(got) == 8
    for of in got:
        torch.testing.assert_close(of, wanted, rtol=1e-4, atol=1e-4)
    assert routed() == 16


def test_a_profiler_of_the_program_goes_on():
    seen = set()

    def profiler(frame, event, argument):
        seen.add(threading.current_thread().name)

    before = threading._profile_hook
    threading.setprofile(profiler)
    try:
        with hipdnn.torch.enable(process=True, timed=False):
            thread = threading.Thread(target=lambda: F.gelu(X), name="profiled")
            thread.start()
            thread.join()
        assert threading._profile_hook is profiler
    finally:
        threading.setprofile(before)
    assert "profiled" in seen and routed() == 1
