"""`hipdnn.torch` with tensors on an NVIDIA GPU. Skipped without a GPU."""

from __future__ import annotations

import contextlib
import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
if not torch.cuda.is_available() or torch.version.hip:
    pytest.skip("PyTorch finds no GPU of NVIDIA's", allow_module_level=True)
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from hipdnn import _native  # noqa: E402
from hipdnn.torch.dispatch import KEYS  # noqa: E402
from test_torch_functions import CALLS, network, with_gradients  # noqa: E402

from torch import nn  # noqa: E402

TOLERANCES = {torch.float32: 2e-4, torch.float16: 3e-2, torch.bfloat16: 2e-1}
#: The calls computed here for each type.
_routed: dict[str, list[str]] = {"routed": [], "passed on": []}


def allow_tf32(products, convolutions):
    """PyTorch's switches, whose names its own tests forbid to use."""
    torch._C._set_cublas_allow_tf32(products)
    torch._C._set_cudnn_allow_tf32(convolutions)


@pytest.fixture(autouse=True)
def exact():
    torch.manual_seed(7)
    torch._dynamo.reset()
    hipdnn.torch.reset()
    allow_tf32(False, False)
    yield
    allow_tf32(False, True)


def compare(got, wanted, dtype):
    for g, w in zip(got, wanted):
        assert g.dtype == dtype and g.is_cuda and g.shape == w.shape
        torch.testing.assert_close(g.double(), w.double(), rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * 4)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_pytorchs(name, dtype, layout):
    call, *makes = CALLS[name]
    if layout is torch.channels_last and not any(make(dtype).dim() == 4 for make in makes):
        pytest.skip("no images")
    with torch.device("cuda"):
        inputs = [make(dtype) for make in makes]
        inputs = [x.to(memory_format=layout) if x.dim() == 4 else x for x in inputs]
        # Contiguous: PyTorch 2.11's own gradient of avg_pool2d with channels last and overlapping windows is wrong on a GPU.
        wanted = with_gradients(call, [x.double().contiguous() for x in inputs])
        with hipdnn.torch.enable(timed=False):
            got = with_gradients(call, inputs)
        plain = with_gradients(call, inputs)
    # PyTorch computes the calls that are not routed, with its own errors.
    is_routed = any(row.routed for row in hipdnn.torch.report())
    compare(got, wanted if is_routed else plain, dtype)
    assert [g.stride() for g in got] == [p.stride() for p in plain]
    what = f"{name} {dtype} {layout}"
    for row in hipdnn.torch.report():
        if row.passed_on:
            _routed["passed on"].append(f"{what}: {row.function}: {'; '.join(row.reasons)}")
        if row.routed:
            _routed["routed"].append(f"{what}: {row.function}")


def test_the_share_that_is_computed_here(capsys):
    with capsys.disabled():
        print(f"\n{ {kind: len(found) for kind, found in _routed.items()} }")
        for line in _routed["passed on"]:
            print(f"  passed on: {line[:700]}")
    assert {"convolution", "mm", "bmm", "gelu", "native_layer_norm"} <= {
        line.split(": ")[1] for line in _routed["routed"]
    }


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_is_pytorchs(dtype):
    model = network().cuda()
    other = copy.deepcopy(model)
    x = torch.randn(16, 3, 6, 6, device="cuda")
    results = []
    for of, mode in (
        (model, lambda: hipdnn.torch.enable(timed=False)),
        (other, lambda: torch.autograd.set_detect_anomaly(False)),
    ):
        seen = []
        hooks = [m.register_forward_hook(lambda m, i, o, seen=seen: seen.append(o.dtype)) for m in of]
        with mode(), torch.autocast("cuda", dtype):
            y = of(x)
        y.float().square().sum().backward()
        for hook in hooks:
            hook.remove()
        results.append((seen, y, [p.grad for p in of.parameters()]))
    (ours, y, gradients), (theirs, z, wanted) = results
    assert ours == theirs
    torch.testing.assert_close(y.float(), z.float(), rtol=5e-2, atol=5e-2)
    for g, w in zip(gradients, wanted):
        assert g.dtype == w.dtype
        torch.testing.assert_close(g, w, rtol=1e-1, atol=1e-1)


def test_tf32_is_as_pytorch_says():
    a, b = torch.randn(1, 512, 512, device="cuda"), torch.randn(1, 512, 512, device="cuda")
    exact = a.double() @ b.double()
    errors = {}
    for allowed in (False, True):
        allow_tf32(allowed, False)
        with hipdnn.torch.enable(timed=False):
            errors[allowed] = (torch.bmm(a, b) - exact).abs().max().item()
    assert errors[False] < 1e-3 < errors[True] < 1
    # Products of float are left to PyTorch.
    assert hipdnn.torch.report()[0].passed_on == 2
    x, w = torch.randn(4, 64, 16, 16, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    exact = F.conv2d(x.double(), w.double())
    for allowed in (False, True):
        allow_tf32(False, allowed)
        with hipdnn.torch.enable(timed=False):
            errors[allowed] = (F.conv2d(x, w) - exact).abs().max().item()
    assert errors[False] < 2e-3 and errors[True] < 1, errors


def test_results_do_not_vary_where_that_is_asked():
    x, dy = torch.randn(32, 64, 28, 28, device="cuda").half(), torch.randn(32, 64, 28, 28, device="cuda").half()
    w = torch.randn(64, 64, 3, 3, device="cuda").half().requires_grad_()
    x, dy = x.to(memory_format=torch.channels_last), dy.to(memory_format=torch.channels_last)
    torch.use_deterministic_algorithms(True)
    try:
        found = []
        for _ in range(5):
            with hipdnn.torch.enable(timed=False):
                found.append(torch.autograd.grad(F.conv2d(x, w, padding=1), w, dy)[0])
        assert all(torch.equal(found[0], other) for other in found)
    finally:
        torch.use_deterministic_algorithms(False)


def test_layouts_stay():
    x = torch.randn(4, 8, 16, 16, device="cuda").half().to(memory_format=torch.channels_last).requires_grad_()
    model = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()).cuda().half()
    model = model.to(memory_format=torch.channels_last)
    with hipdnn.torch.enable(timed=False):
        y = model(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    y.sum().backward()
    assert x.grad.is_contiguous(memory_format=torch.channels_last)


def test_tensors_that_begin_anywhere():
    room = torch.randn(1 + 4 * 8 * 16 * 16, device="cuda").half()
    x = room[1:].view(4, 8, 16, 16)
    w = torch.randn(16, 8, 3, 3, device="cuda").half()
    with hipdnn.torch.enable(timed=False):
        y = F.conv2d(x, w)
    torch.testing.assert_close(y, F.conv2d(x, w), rtol=2e-2, atol=2e-2)


def test_tensors_on_several_devices_are_pytorchs_error():
    with hipdnn.torch.enable():
        # PyTorch before 2.13 does not pass on an error's message; it goes to standard error.
        with pytest.raises(RuntimeError, match="device|PyTorch has logged the error"):
            F.linear(torch.ones(2, 3, device="cuda"), torch.ones(4, 3))
    assert not any(row.routed for row in hipdnn.torch.report())


def test_no_memory_is_pytorchs_error():
    x = torch.zeros(1, device="cuda").expand(1 << 22, 1 << 20)
    for timed in (True, False):
        with hipdnn.torch.enable(timed=timed), pytest.raises(torch.OutOfMemoryError):
            F.layer_norm(x, (1 << 20,))


def trained(mode, steps=15, dtype=None):
    torch.manual_seed(3)
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x, y = torch.randn(16, 3, 6, 6, device="cuda"), torch.randint(0, 2, (16,), device="cuda")
    if mode == "compiled":
        model = torch.compile(model, backend=hipdnn.torch.backend)
    losses = []
    for _ in range(steps):
        # Only around the forward pass: autocast keeps its copies of weights until it ends.
        with torch.autocast("cuda", dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_is_the_same():
    wanted = trained("plain")
    with hipdnn.torch.enable(timed=False):
        got = trained("routed", dtype=torch.bfloat16)
    assert got == pytest.approx(wanted, rel=0.1)
    assert {"convolution", "mm"} <= {row.function for row in hipdnn.torch.report() if row.routed}
    hipdnn.torch.reset()
    assert trained("compiled") == pytest.approx(wanted, rel=0.01)


def test_a_training_step_is_captured():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 8)).cuda().half()
    other = copy.deepcopy(model)
    x, y = torch.randn(16, 8, 8, 8, device="cuda").half(), torch.randint(0, 8, (16,), device="cuda")

    def step(of):
        for p in of.parameters():
            p.grad = None
        F.cross_entropy(of(x).float(), y).backward()

    with hipdnn.torch.enable(timed=False):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step(model)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            step(model)
    for _ in range(3):
        x.copy_(torch.randn(16, 8, 8, 8, device="cuda"))
        captured.replay()
        step(other)
        for p, q in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=2e-2, atol=2e-2)
    assert any(row.routed >= 4 for row in hipdnn.torch.report())


def test_plans_are_made_aside_and_the_faster_one_is_kept():
    x, w = torch.randn(1024, 2048, device="cuda").bfloat16(), torch.ones(2048, device="cuda")
    with hipdnn.torch.enable():
        F.layer_norm(x.float(), (2048,), w, w)
        (row,) = hipdnn.torch.report()
        assert (row.routed, row.passed_on) == (0, 1) and row.reasons
        _native.torch_wait()
        for _ in range(30):
            F.layer_norm(x.float(), (2048,), w, w)
            torch.cuda.synchronize()
    (row,) = hipdnn.torch.report()
    assert row.aside and row.planning > 0
    assert row.routed and row.passed_on and max(row.routed, row.passed_on) >= 20, row


def test_threads_on_gpus_pass_over_what_pytorch_computes_as_fast():
    here = lambda key: torch._C._dispatch_tls_is_dispatch_key_included(key)
    x, w = torch.randn(2, 8, 6, 6, device="cuda").half(), torch.randn(8, 8, 3, 3, device="cuda").half()
    with hipdnn.torch.enable():
        assert (here(KEYS[0]), here(KEYS[1])) == (True, False)
        F.conv2d(x, w)
        assert (here(KEYS[0]), here(KEYS[1])) == (False, True)
        # Few elements are left to PyTorch as well.
        F.layer_norm(x, (6, 6))
        assert not hipdnn.torch.report()
        # A host tensor switches the thread back.
        F.layer_norm(torch.ones(2, 6), (6,), torch.ones(6), torch.ones(6))
        assert (here(KEYS[0]), here(KEYS[1])) == (True, False)
        F.gelu(torch.ones(2, 6))
        assert [row.function for row in hipdnn.torch.report()] == ["native_layer_norm", "gelu"]
        F.conv2d(x, w)
    assert (here(KEYS[0]), here(KEYS[1])) == (False, False)


def test_threads_whose_calls_gain_nothing_are_left_alone():
    here = lambda: [torch._C._dispatch_tls_is_dispatch_key_included(key) for key in KEYS]
    x = torch.randn(2, 6, 6, device="cuda")
    with hipdnn.torch.enable():
        for _ in range(300):
            F.layer_norm(x, (6, 6))
        assert here() == [False, False]
    for _ in range(40):
        with hipdnn.torch.enable():
            # Host tensors come here.
            assert here() == [True, False]
            F.layer_norm(x, (6, 6))
            if here() == [False, True]:
                break
    else:
        pytest.fail("calls on GPUs never come again")
    with hipdnn.torch.enable(timed=False):
        for _ in range(300):
            F.layer_norm(x, (6, 6))
        assert here() == [True, False]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("momentum", [0.1, 0.7])
def test_running_statistics_follow(momentum, dtype, layout):
    x = torch.randn(8, 32, 14, 14, device="cuda").to(dtype).to(memory_format=layout)
    results = []
    for timed in (None, False):
        torch.manual_seed(3)
        norm = nn.BatchNorm2d(32, momentum=momentum).cuda()
        with contextlib.nullcontext() if timed is None else hipdnn.torch.enable(timed=timed):
            for at in range(4):
                y = torch.batch_norm(
                    x + at, norm.weight, norm.bias, norm.running_mean, norm.running_var, True, momentum, 1e-5, False
                )
        results.append((y, norm.running_mean, norm.running_var))
    for got, wanted in zip(results[1], results[0]):
        torch.testing.assert_close(got.float(), wanted.float(), rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    # They are float whatever the images' type.
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-3, atol=1e-3)
    routed = any(row.routed for row in hipdnn.torch.report() if row.function == "native_batch_norm")
    # Engines take images of this type; unless everything is requested, PyTorch computes, which is as fast on GPUs.
    assert routed or dtype != torch.bfloat16, hipdnn.torch.report()


def test_gradients_are_computed_in_pytorchs_thread():
    x, w = (
        torch.randn(4, 8, 16, 16, device="cuda").half(),
        torch.randn(8, 8, 3, 3, device="cuda").half().requires_grad_(),
    )
    with hipdnn.torch.enable(timed=False):
        F.conv2d(x, w).sum().backward()
    assert "convolution_backward" in {row.function for row in hipdnn.torch.report() if row.routed or row.passed_on}
