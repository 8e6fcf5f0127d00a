"""PyTorch's bookkeeping around operations: versions of tensors, autocast, exported programs, changing sizes, memory during training."""

from __future__ import annotations

import gc
import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from test_torch_functions import CALLS, network  # noqa: E402

#: Calls that PyTorch itself cannot export, as tensors made inside are constants.
NOT_EXPORTED = {"cross entropy", "masked attention", "batch_norm after training"}


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()


def made(name, dtype=torch.float32):
    call, *inputs = CALLS[name]
    return call, [make(dtype) for make in inputs]


def told(call, *inputs):
    """A result, or the error's type."""
    try:
        return call(*inputs)
    except Exception as error:  # noqa: BLE001
        return type(error)


def changed(call, inputs, at):
    """The gradients after an input was modified behind the forward's back; or PyTorch's error about it."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    # A tensor made by autograd may be modified in place.
    used = [x * 1 for x in inputs]
    y = call(*used)
    with torch.no_grad():
        used[at].add_(1)
    return told(lambda: torch.autograd.grad(y.sum(), inputs, allow_unused=True))


@pytest.mark.parametrize("name", CALLS)
def test_a_changed_input_is_found_out(name):
    call, inputs = made(name)
    for at in range(len(inputs)):
        wanted = changed(call, inputs, at)
        with hipdnn.torch.enable(timed=False):
            got = changed(call, inputs, at)
        assert isinstance(got, type) == isinstance(wanted, type), (got, wanted)
        if isinstance(wanted, type):
            assert got is wanted is RuntimeError
        else:
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(name, dtype):
    call, inputs = made(name)
    inputs = [x.requires_grad_() for x in inputs]

    def run():
        with torch.autocast("cpu", dtype):
            y = call(*inputs)
        torch.manual_seed(1)
        return [y, *torch.autograd.grad(y, inputs, torch.randn(y.shape).to(y.dtype))]

    wanted = told(run)
    with hipdnn.torch.enable(timed=False):
        got = told(run)
    if isinstance(wanted, type):
        assert got is wanted
        return
    for g, w in zip(got, wanted):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        torch.testing.assert_close(g.float(), w.float(), rtol=6e-2, atol=1.5e-1)


class Module(torch.nn.Module):
    """A call as a module."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *inputs):
        return self.call(*inputs)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in NOT_EXPORTED])
def test_export(name):
    call, inputs = made(name)
    wanted = call(*inputs)
    with hipdnn.torch.enable(timed=False):
        exported = torch.export.export(Module(call), tuple(inputs))
        got = exported.module()(*inputs)
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)
    # It is PyTorch's program: it runs elsewhere, and without hipDNN.
    assert all("hipdnn" not in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(*inputs), wanted, rtol=1e-3, atol=1e-3)


def test_export_of_sizes_that_change():
    model = network()
    batch = torch.export.Dim("batch", min=2, max=64)
    with hipdnn.torch.enable(timed=False):
        exported = torch.export.export(model.eval(), (torch.randn(4, 3, 6, 6),), dynamic_shapes=({0: batch},))
    for size in (2, 5, 9):
        x = torch.randn(size, 3, 6, 6)
        # Disabled at the end of the block, since it would compute in other tests.
        with hipdnn.torch.enable(timed=False):
            got = exported.module()(x)
        torch.testing.assert_close(got, model(x), rtol=1e-3, atol=1e-3)


def resident():
    """The process's memory in MiB."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def test_memory_over_a_training():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    sizes = []
    with hipdnn.torch.enable(timed=False):
        for at in range(600):
            loss = F.cross_entropy(model(torch.randn(64, 3, 6, 6)), torch.randint(0, 2, (64,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if at in (99, 599):
                sizes.append(resident())
    assert any(row.routed >= 600 for row in hipdnn.torch.report())
    assert sizes[1] - sizes[0] < 8, sizes
