"""`hipdnn.torch`: PyTorch's functions and their gradients, computed by hipDNN's kernels where they exist."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 3e-2, torch.bfloat16: 2e-1}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)
    hipdnn.torch.reset()


def rand(*shape):
    return lambda dtype: torch.randn(*shape, dtype=dtype)


CALLS = {
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), rand(2, 4, 9), rand(6, 4, 3), rand(6)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), rand(2, 4, 6, 5), rand(6, 4, 3, 3), rand(6)),
    "conv2d groups": (lambda x, w: F.conv2d(x, w, groups=2, dilation=2), rand(2, 4, 7, 8), rand(6, 2, 3, 3)),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same"), rand(2, 4, 7, 8), rand(6, 4, 3, 3)),
    "conv2d one image": (lambda x, w: F.conv2d(x, w), rand(4, 7, 8), rand(6, 4, 3, 3)),
    "conv3d": (lambda x, w: F.conv3d(x, w, stride=(1, 2, 1)), rand(1, 2, 4, 5, 4), rand(3, 2, 2, 2, 2)),
    "conv_transpose1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2), rand(2, 4, 5), rand(4, 3, 3), rand(3)),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        rand(2, 4, 5, 6),
        rand(4, 3, 3, 3),
    ),
    "conv_transpose3d": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(1, 2, 1), padding=(0, 1, 1)),
        rand(1, 2, 3, 4, 3),
        rand(2, 3, 2, 3, 2),
        rand(3),
    ),
    "linear": (F.linear, rand(3, 5, 8), rand(6, 8), rand(6)),
    "linear of a row": (F.linear, rand(8), rand(6, 8)),
    "matmul": (torch.matmul, rand(2, 1, 3, 4), rand(5, 4, 6)),
    "bmm": (torch.bmm, rand(2, 3, 4), rand(2, 4, 6)),
    "operator": (lambda a, b: a @ b, rand(3, 4), rand(4, 6)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), rand(4, 3, 5, 5), rand(3), rand(3)),
    "batch_norm of rows": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), rand(8, 3), rand(3), rand(3)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (8,), w, b), rand(3, 5, 8), rand(8), rand(8)),
    "layer_norm alone": (lambda x: F.layer_norm(x, (5, 8)), rand(3, 5, 8)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), rand(3, 4, 5, 5), rand(4), rand(4)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w, 1e-5), rand(3, 5, 8), rand(8)),
    "scaled_dot_product_attention": (F.scaled_dot_product_attention, *[rand(2, 4, 6, 8)] * 3),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *[rand(2, 4, 6, 8)] * 3,
    ),
    "grouped attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.2),
        rand(2, 4, 6, 8),
        rand(2, 2, 6, 8),
        rand(2, 2, 6, 8),
    ),
    "masked attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(6, 6, dtype=torch.bool).tril()),
        *[rand(2, 4, 6, 8)] * 3,
    ),
    "attention of one product": (
        lambda x: F.scaled_dot_product_attention(*(part.view(2, 6, 4, 8).transpose(1, 2) for part in x.split(32, 2))),
        rand(2, 6, 96),
    ),
    "attention of one head": (F.scaled_dot_product_attention, *[rand(2, 6, 8)] * 3),
    "vectors": (torch.matmul, rand(4), rand(4)),
    "batch_norm after training": (
        lambda x, w, b: F.batch_norm(x, torch.zeros(3, dtype=x.dtype), torch.ones(3, dtype=x.dtype), w, b),
        rand(4, 3, 5, 5),
        rand(3),
        rand(3),
    ),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), rand(3, 4, 5, 5), rand(4), rand(4)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), rand(2, 3, 9)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), rand(2, 3, 8, 7)),
    "max_pool2d to the end": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), rand(3, 7, 9)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), rand(2, 3, 4, 6, 4)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2), rand(2, 3, 9)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (3, 2), 1, (1, 0)), rand(2, 3, 8, 7)),
    "avg_pool2d without padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), rand(2, 3, 8, 7)),
    "avg_pool2d beyond the padding": (lambda x: F.avg_pool2d(x, 5, 3, 1, True), rand(2, 3, 7, 7)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, None)), rand(2, 3, 8, 7)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), rand(2, 3, 8, 6)),
    "softmax": (lambda x: F.softmax(x, dim=1), rand(3, 5, 4)),
    "softmax of rows": (lambda x: F.softmax(x, dim=-1), rand(3, 5, 40)),
    "log_softmax": (lambda x: F.log_softmax(x, dim=-1), rand(3, 5, 40)),
    "log_softmax of columns": (lambda x: F.log_softmax(x, dim=0), rand(7, 5)),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.arange(6) % 5)[None], rand(6, 5)),
    "gelu": (F.gelu, rand(3, 5)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), rand(3, 5)),
    "silu": (F.silu, rand(3, 5)),
    "relu": (F.relu, rand(3, 5)),
    "relu6": (lambda x: F.relu6(8 * x), rand(3, 5)),
    "leaky_relu": (F.leaky_relu, rand(3, 5)),
    "elu": (F.elu, rand(3, 5)),
    "sigmoid": (torch.sigmoid, rand(3, 5)),
    "tanh": (torch.tanh, rand(3, 5)),
}


#: Operations that must be computed here for a call.
_CONV, _PRODUCT = {"convolution", "convolution_backward"}, {"mm"}
ROUTED = {
    **{name: _CONV for name in CALLS if name.startswith("conv")},
    "linear": _PRODUCT, "linear of a row": set(), "operator": _PRODUCT, "bmm": {"bmm"}, "matmul": {"bmm"},
    "batch_norm": {"native_batch_norm", "native_batch_norm_backward"},
    "batch_norm of rows": {"native_batch_norm", "native_batch_norm_backward"},
    "batch_norm after training": {"native_batch_norm"},
    "layer_norm": {"native_layer_norm", "native_layer_norm_backward"},
    **{name: {"gelu", "gelu_backward"} for name in ("gelu", "gelu tanh")},
    "silu": {"silu", "silu_backward"},
    "softmax": {"_softmax"}, "softmax of rows": {"_softmax", "_softmax_backward_data"},
    "log_softmax": {"_log_softmax", "_log_softmax_backward_data"},
    "max_pool2d": {"max_pool2d_with_indices"},
    "cross entropy": {"_log_softmax"},
    **{name: {"avg_pool2d", "avg_pool2d_backward"} for name in ("avg_pool2d", "avg_pool2d without padding")},
    **{
        name: {f"_scaled_dot_product_flash_attention_for_cpu{end}" for end in ("", "_backward")}
        for name in ("scaled_dot_product_attention", "causal attention", "masked attention", "attention of one product")
    },
}  # fmt: skip


def with_gradients(call, inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = call(*inputs)
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape, dtype=torch.float64).to(y.dtype))
    return [y.detach(), *(x.grad for x in inputs)]


@pytest.mark.parametrize(
    "dtype", [pytest.param(of, marks=pytest.mark.smoke) if of == torch.float32 else of for of in TOLERANCES], ids=str
)
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_pytorchs(name, dtype):
    call, *inputs = CALLS[name]
    inputs = [make(dtype) for make in inputs]
    exact = with_gradients(call, [x.double() if dtype != torch.float64 else x for x in inputs])
    wanted = with_gradients(call, inputs)
    with hipdnn.torch.enable(timed=False):
        got = with_gradients(call, inputs)
    routed = {row.function for row in hipdnn.torch.report() if row.routed}
    if dtype in (torch.float32, torch.float64) and not (dtype == torch.float64 and "attention" in name):
        assert ROUTED.get(name, set()) <= routed, hipdnn.torch.report()
    for g, w, e in zip(got, wanted, exact):
        assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride())
        torch.testing.assert_close(g.double(), e, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * 4)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_by_differences(name):
    call, *inputs = CALLS[name]
    inputs = [make(torch.float64).requires_grad_() for make in inputs]
    for timed in (True, False):
        with hipdnn.torch.enable(timed=timed):
            assert torch.autograd.gradcheck(call, inputs, fast_mode=True, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
def test_running_statistics_follow(momentum):
    ours, theirs = (torch.nn.BatchNorm2d(3, momentum=momentum) for _ in range(2))
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5)
        with hipdnn.torch.enable(timed=False):
            got = ours(x)
        torch.testing.assert_close(got, theirs(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    assert hipdnn.torch.report()[0].routed == 3 and len(hipdnn.torch.report()) == 1


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8 * 6 * 6, 10), torch.nn.GELU(), torch.nn.LayerNorm(10), torch.nn.Linear(10, 2),
    )  # fmt: skip


def train(steps=20):
    torch.manual_seed(3)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x, y = torch.randn(16, 3, 6, 6), torch.randint(0, 2, (16,))
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("timed", [True, False])
def test_training_is_the_same(timed):
    wanted = train()
    with hipdnn.torch.enable(timed=timed):
        got = train()
    assert got == pytest.approx(wanted, rel=0.01)
    routed = {row.function for row in hipdnn.torch.report() if row.routed}
    assert {"convolution", "convolution_backward", "mm", "gelu", "native_layer_norm", "native_batch_norm"} <= routed


def test_the_faster_one_is_kept():
    x, w = torch.randn(2, 8, 32, 32), torch.randn(8, 8, 3, 3)
    with hipdnn.torch.enable():
        for _ in range(120):
            F.conv2d(x, w)
        (before,) = hipdnn.torch.report()
        for _ in range(20):
            F.conv2d(x, w)
    (row,) = hipdnn.torch.report()
    assert row.routed >= 1 and row.passed_on >= 1 and row.routed + row.passed_on <= 140
    # Both took turns, up to 48 on a busy machine, then steps did, then one computed all. A quiet thread's calls are not counted.
    assert row.routed == before.routed or row.passed_on == before.passed_on and row.reasons


def test_results_do_not_vary_where_that_is_asked():
    x, w = torch.randn(2, 8, 32, 32), torch.randn(8, 8, 3, 3)
    torch.use_deterministic_algorithms(True)
    try:
        with hipdnn.torch.enable():
            first, *others = (F.conv2d(x, w) for _ in range(10))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(first, other) for other in others)
    assert hipdnn.torch.report()[0].routed == 10


def test_enable_lasts_until_disable():
    hipdnn.torch.enable(timed=False)
    F.gelu(torch.ones(2))
    hipdnn.torch.disable()
    F.gelu(torch.ones(2))
    assert [(row.function, row.routed, row.passed_on) for row in hipdnn.torch.report()] == [("gelu", 1, 0)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype):
    layer, x = torch.nn.Conv2d(8, 4, 3), torch.randn(3, 8, 6, 6)
    with hipdnn.torch.enable(timed=False), torch.autocast("cpu", dtype):
        y = layer(x)
        y.float().sum().backward()
    assert y.dtype == dtype and layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x), rtol=2e-2, atol=3e-2)
    assert "convolution" in [row.function for row in hipdnn.torch.report()]


def test_threads_route_on_their_own():
    import threading

    failures = []

    def work():
        with hipdnn.torch.enable():
            for _ in itertools.repeat(None, 20):
                if not torch.allclose(F.conv2d(torch.ones(2, 3, 4, 4), torch.ones(4, 3, 1, 1)), torch.tensor(3.0)):
                    failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_another_thread_ends_nothing_here():
    import threading

    with hipdnn.torch.enable(timed=False):
        other = threading.Thread(target=lambda: (hipdnn.torch.disable(), F.gelu(torch.ones(2))))
        other.start()
        other.join()
        F.gelu(torch.ones(2))
    assert [(row.function, row.routed) for row in hipdnn.torch.report()] == [("gelu", 1)]


def test_nothing_is_lost_in_many_calls():
    import resource

    x, w, b = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True), torch.randn(8, requires_grad=True)

    def work(count):
        with hipdnn.torch.enable():
            for _ in range(count):
                F.gelu(F.linear(x, w, b)).sum().backward()

    work(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(5000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


@pytest.mark.parametrize("pool", [None, "own"])
def test_threads_are_pytorchs_unless_the_variable_says_otherwise(pool):
    code = """
import os, pathlib, sys, time, torch, torch.nn.functional as F, hipdnn.torch
torch.set_num_threads(2)
x = torch.rand(8, 64, 32, 32)
w = torch.rand(64, 64, 3, 3)
with hipdnn.torch.enable(timed=False):
    got = F.conv2d(x, w)
torch.testing.assert_close(got, F.conv2d(x, w), rtol=1e-4, atol=1e-3)
def are_there():
    names = [(t / "comm").read_text() for t in pathlib.Path("/proc/self/task").iterdir()]
    return any(name.startswith("hipdnn-cpu") for name in names)
# A thread names itself when it runs first, which may be after the convolution.
end = time.monotonic() + float(sys.argv[1])
while not are_there() and time.monotonic() < end:
    time.sleep(0.01)
print(os.environ["HIPDNN_CPU_THREAD_POOL"], are_there())
"""
    environment = {k: v for k, v in os.environ.items() if k != "HIPDNN_CPU_THREAD_POOL"}
    if pool:
        environment["HIPDNN_CPU_THREAD_POOL"] = pool
    several = len(os.sched_getaffinity(0)) > 1
    seconds = "10" if pool and several else "0.1"
    command = [sys.executable, "-c", code, seconds]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == [pool or "openmp", str(pool == "own" and several)]


def test_the_interpreter_ends_with_what_is_on_and_compiled():
    code = """
import threading, torch, torch.nn.functional as F, hipdnn.torch
x, layer = torch.rand(64, 256), torch.nn.Linear(256, 256)
compiled = torch.compile(torch.nn.Sequential(layer, torch.nn.GELU()), backend="hipdnn")
held = compiled(x).sum()
on = hipdnn.torch.enable()
loss = F.gelu(layer(x)).sum()
loss.backward()
print(len(hipdnn.torch.report()) > 1, flush=True)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (said.returncode, said.stdout, said.stderr) == (0, "True\n", "")


def test_threads_compute_while_the_interpreter_ends():
    code = """
import threading, torch, torch.nn.functional as F, hipdnn.torch
x, layer = torch.rand(64, 256), torch.nn.Linear(256, 256)
def forever():
    with hipdnn.torch.enable():
        while True:
            F.gelu(layer(x))
threading.Thread(target=forever, daemon=True).start()
with hipdnn.torch.enable():
    F.gelu(layer(x)).sum().backward()
"""
    # PyTorch itself aborts if the interpreter ends a thread inside one of its functions; no function fails before.
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert said.returncode in (0, -6) and "Error" not in said.stderr, said.stderr


def test_a_child_by_fork_computes_on_threads_of_its_own():
    code = """
import os, torch, torch.nn.functional as F, hipdnn.torch
torch.set_num_threads(2)
x, w = torch.rand(8, 64, 32, 32), torch.rand(64, 64, 3, 3)
expected = F.conv2d(x, w)
child = os.fork()
if child == 0:
    # PyTorch's own functions would wait for ever here.
    with hipdnn.torch.enable(timed=False):
        got = F.conv2d(x, w)
    os._exit(0 if os.environ["HIPDNN_CPU_THREAD_POOL"] == "own" and got.shape == expected.shape else 1)
print(os.waitpid(child, 0)[1])
"""
    environment = {k: v for k, v in os.environ.items() if k != "HIPDNN_CPU_THREAD_POOL"}
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.split() == ["0"]
