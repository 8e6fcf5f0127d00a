"""Whatever PyTorch can compute also works with `hipdnn.torch`: without our errors, other results or other memory."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()


def same(function, *args, **tolerances):
    """Compares results and gradients of a function with and without hipDNN; returns the rows of the report."""

    def run():
        torch.manual_seed(1)
        given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in args]
        y = function(*given)
        if y.requires_grad:
            y.sum().backward()
        return [y, *(x.grad for x in given)]

    wanted = run()
    for timed in (True, False):
        with hipdnn.torch.enable(timed=timed):
            for _ in range(3):
                for g, w in zip(run(), wanted):
                    assert (g is None) == (w is None)
                    if g is not None and not g.is_nested:
                        torch.testing.assert_close(g, w, equal_nan=True, **{"rtol": 1e-4, "atol": 1e-4, **tolerances})
    return hipdnn.torch.report()


NORMS = {
    "layer": lambda x: F.layer_norm(x, x.shape[-1:], torch.full(x.shape[-1:], 2.0), torch.ones(x.shape[-1:])),
    "rms": lambda x: F.rms_norm(x, x.shape[-1:], torch.full(x.shape[-1:], 2.0)),
    "group": lambda x: F.group_norm(x, 2, torch.full(x.shape[1:2], 2.0), torch.ones(x.shape[1])),
    "batch": lambda x: F.batch_norm(x, None, None, torch.full(x.shape[1:2], 2.0), torch.ones(x.shape[1]), True),
    "instance": lambda x: F.instance_norm(x),
}


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("batch", [1, 2])
def test_normalizations_of_tensors_that_lie_anyhow(kind, batch):
    same(NORMS[kind], torch.randn(batch, 16, 10).transpose(1, 2))
    same(NORMS[kind], torch.randn(10, batch, 16).transpose(0, 1))
    same(NORMS[kind], torch.randn(batch, 10, 32)[..., ::2])
    same(NORMS[kind], torch.randn(batch, 1, 16).expand(batch, 10, 16))
    if kind != "instance":
        same(NORMS[kind], torch.randn(16, 10).t())


def test_rows_in_any_order_are_normalized_here():
    w, b = torch.full((16,), 2.0, requires_grad=True), torch.ones(16, requires_grad=True)
    factor = torch.randn(5, 3, 16).transpose(0, 1)
    rows = same(lambda x: F.layer_norm(x, (16,), w, b) * factor, torch.randn(5, 3, 16).transpose(0, 1))
    assert {row.function for row in rows if row.routed} == {"native_layer_norm", "native_layer_norm_backward"}, rows


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_epsilon_is_pytorchs(dtype):
    x = torch.full((4, 64), 0.01).to(dtype)
    with hipdnn.torch.enable(timed=False):
        y = nn.RMSNorm(64, dtype=dtype)(x)
    torch.testing.assert_close(y, nn.RMSNorm(64, dtype=dtype)(x))


@pytest.mark.parametrize("epsilon", [None, 0.1])
@pytest.mark.parametrize("shape", [(4, 6, 32), (1, 5, 32), (2, 3, 16, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_the_rms_norm_of_gpus(dtype, shape, epsilon):
    # PyTorch has it and its gradient only on GPUs; called below autograd, host tensors reach the same kernel.
    inner = list(shape[2:])
    x, w, dy = torch.randn(shape).to(dtype), torch.rand(inner).add(0.5).to(dtype), torch.randn(shape).to(dtype)
    of_x, of_w = x.double().requires_grad_(), w.double().requires_grad_()
    least = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    wanted = F.rms_norm(of_x, inner, of_w, least if epsilon is None else epsilon)
    gradients = torch.autograd.grad(wanted, (of_x, of_w), dy.double())
    hipdnn.torch.reset()
    with torch.inference_mode(), hipdnn.torch.enable(timed=False):
        y, rstd = torch.ops.aten._fused_rms_norm(x, inner, w, epsilon)
        got = torch.ops.aten._fused_rms_norm_backward(dy, x, inner, rstd, w, [True, True])
    assert [(row.function, row.routed) for row in hipdnn.torch.report()] == [
        ("_fused_rms_norm", 1), ("_fused_rms_norm_backward", 1)
    ]  # fmt: skip
    assert rstd.shape == (*shape[:2], *[1] * len(inner)) and rstd.dtype == (
        torch.float64 if dtype == torch.float64 else torch.float32
    )
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float64: 1e-12}[dtype]
    for of, exact in zip((y, *got), (wanted, *gradients)):
        assert of.dtype == dtype
        torch.testing.assert_close(of.double(), exact, rtol=tolerance, atol=tolerance * 4)


def test_memory_stays():
    """Plans of many shapes are limited by bytes."""
    code = """
import torch, torch.nn.functional as F, hipdnn.torch
def resident():
    with open("/proc/self/statm") as of:
        return int(of.read().split()[1]) * 4096 / 2**20
torch.set_num_threads(1)
layer = torch.nn.Conv2d(3, 8, 3)
def steps(begin, end):
    with hipdnn.torch.enable(timed=False):
        for at in range(begin, end):
            F.gelu(layer(torch.ones(1, 3, 8 + at % 61, 8 + at // 61))).sum().backward()
steps(0, 2)
first = resident()
steps(2, 500)
before = resident()
steps(500, 3000)
grown = resident() - before
# What is new is kept, however many there were.
with hipdnn.torch.enable(timed=False), torch.no_grad():
    for _ in range(3):
        layer(torch.ones(1, 3, 99, 99))
assert hipdnn.torch.report()[-1].routed == 3
hipdnn.torch.reset()
print(grown, len(hipdnn.torch.report()), before - first, resident() - first)
assert grown < 256 and before - first < 256, (grown, before - first)
# What is left is PyTorch's and the library's own cache of 16 MiB.
assert resident() - first < 96, (resident() - first, before - first)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split()[1] == "0"


@pytest.mark.filterwarnings("ignore")
def test_tracing():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(4 * 36, 8), nn.LayerNorm(8), nn.GELU())
    x = torch.randn(2, 3, 8, 8)
    with hipdnn.torch.enable(timed=False), torch.no_grad():
        traced = torch.jit.trace(model, (x,))
        other = torch.randn(5, 3, 8, 8)
        torch.testing.assert_close(traced(other), model(other))
    assert "aten::_convolution" in str(traced.inlined_graph)


def test_export():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU())
    x = torch.randn(2, 3, 8, 8)
    with hipdnn.torch.enable(timed=False):
        exported = torch.export.export(model, (x,))
        torch.testing.assert_close(exported.module()(x), model(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
@pytest.mark.parametrize("name", ["linear", "softmax", "relu", "gelu", "silu"])
def test_nested_tensors(name, layout):
    w = torch.randn(5, 3)
    function = {"linear": lambda x: F.linear(x, w), "softmax": lambda x: F.softmax(x, -1)}.get(name) or getattr(F, name)
    x = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=layout)
    wanted = function(x)
    with hipdnn.torch.enable(timed=False):
        got = function(x)
    for g, w_ in zip(got.unbind(), wanted.unbind()):
        torch.testing.assert_close(g, w_)


def test_recurrent_layers():
    for kind in (nn.LSTM, nn.GRU):
        layer = kind(6, 5, 2, bidirectional=True, batch_first=True)
        same(lambda x, layer=layer: layer(x)[0], torch.randn(3, 7, 6))


@pytest.mark.parametrize("kind", [nn.ReLU, nn.SiLU, nn.Hardswish, nn.ELU, nn.LeakyReLU, nn.ReLU6])
def test_activations_in_place(kind):
    same(lambda x: kind(inplace=True)(x * 1), torch.randn(3, 4, 5))
    x = torch.randn(6, requires_grad=True)
    y = x * 1
    with hipdnn.torch.enable(timed=False):
        z = y.square()
        kind(inplace=True)(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def test_operations_are_counted_by_pytorchs_modes():
    from torch.utils.flop_counter import FlopCounterMode

    def flops():
        with FlopCounterMode(display=False) as counter:
            F.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3, requires_grad=True)).sum().backward()
        return counter.get_total_flops()

    wanted = flops()
    with hipdnn.torch.enable(timed=False):
        assert flops() == wanted > 0


def test_fake_and_meta_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with hipdnn.torch.enable(timed=False):
        with FakeTensorMode():
            assert F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)).shape == (1, 4, 6, 6)
        x = torch.randn(2, 3, 8, 8, device="meta")
        assert F.batch_norm(F.conv2d(x, torch.randn(4, 3, 3, 3, device="meta")), None, None, None, None, True).is_meta
        assert torch.softmax(x @ x.mT, -1).is_meta


ODD = {
    "no element": lambda: F.conv2d(torch.ones(0, 3, 8, 8), torch.ones(4, 3, 3, 3)),
    "no row": lambda: F.layer_norm(torch.ones(0, 8), (8,), torch.ones(8), torch.ones(8)),
    "empty product": lambda: torch.ones(3, 0) @ torch.ones(0, 4),
    "numbers": lambda: torch.ones(3, 4, dtype=torch.int64) @ torch.ones(4, 5, dtype=torch.int64),
    "complex": lambda: torch.ones(3, 4, dtype=torch.complex64) @ torch.ones(4, 5, dtype=torch.complex64),
    "complex convolution": lambda: F.conv2d(*(torch.ones(2, 2, 3, 3, dtype=torch.complex64) for _ in range(2))),
    "conjugated": lambda: torch.ones(3, 3, dtype=torch.complex64).conj() @ torch.ones(3, 3, dtype=torch.complex64),
    "negated": lambda: F.gelu(torch.ones(3, dtype=torch.complex64).conj().imag),
    "overlapping": lambda: F.gelu(torch.arange(4.0).as_strided((3, 2), (1, 1))),
    "expanded": lambda: F.conv2d(torch.ones(1, 1, 1, 1).expand(2, 3, 8, 8), torch.ones(4, 3, 3, 3)),
    "not aligned": lambda: F.conv2d(torch.ones(1 + 192)[1:].view(1, 3, 8, 8), torch.ones(4, 3, 3, 3)),
    "scalar": lambda: F.silu(torch.tensor(1.0)),
    "sparse": lambda: torch.eye(3).to_sparse() @ torch.ones(3, 3),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8).relu().dequantize(),
    "quantized by channel": lambda: torch.quantize_per_channel(
        torch.ones(2, 3), torch.ones(2), torch.zeros(2), 0, torch.qint8
    ).dequantize(),
    "mkldnn": lambda: F.relu(torch.ones(2, 3).to_mkldnn()).to_dense(),
    "one value for each channel": lambda: F.batch_norm(torch.ones(1, 3, 1, 2), None, None, None, None, True),
    "softmax in another type": lambda: F.softmax(torch.ones(3, 4).bfloat16(), -1, dtype=torch.float32),
    "attention without keys": lambda: F.scaled_dot_product_attention(*(torch.ones(1, 2, n, 8) for n in (3, 0, 0))),
    "window of a numpy": lambda: torch.hann_window(5) * torch.normal(torch.zeros(5), torch.zeros(5)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ODD)
def test_odd_tensors(name):
    wanted = ODD[name]()
    for timed in (True, False):
        with hipdnn.torch.enable(timed=timed):
            for _ in range(4):
                torch.testing.assert_close(ODD[name](), wanted)


ERRORS = {
    "channels": lambda: F.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 4, 3, 3)),
    "larger filter": lambda: F.conv2d(torch.ones(1, 3, 2, 2), torch.ones(4, 3, 3, 3)),
    "product": lambda: torch.mm(torch.ones(2, 3), torch.ones(4, 5)),
    "types": lambda: torch.mm(torch.ones(2, 3), torch.ones(3, 5).double()),
    "batch": lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 4, 5)),
    "dimension": lambda: torch.softmax(torch.ones(3), 5),
    "normalized": lambda: F.layer_norm(torch.ones(3, 4), (5,)),
    "bias": lambda: F.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3), torch.ones(5)),
    "not implemented": lambda: F.gelu(torch.ones(3, dtype=torch.int32)),
    "approximation": lambda: F.gelu(torch.ones(3), approximate="other"),
    "no memory": lambda: F.layer_norm(torch.ones(1).expand(1 << 30, 1 << 20), (1 << 20,)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    with pytest.raises(Exception) as wanted:
        ERRORS[name]()
    for timed in (True, False):
        with hipdnn.torch.enable(timed=timed):
            for _ in range(2):
                with pytest.raises(type(wanted.value)) as got:
                    ERRORS[name]()
                assert type(got.value) is type(wanted.value)
                assert str(wanted.value).splitlines()[0] in str(got.value)
    # Nothing stays disabled after an error.
    with hipdnn.torch.enable(timed=False):
        F.gelu(torch.ones(8))
    assert hipdnn.torch.report()[-1].routed == 1


AFTER_A_MODE = """
import torch, hipdnn.torch
from torch._subclasses.fake_tensor import FakeTensorMode

with hipdnn.torch.enable():
    with FakeTensorMode():
        for _ in range(3):
            torch.softmax(torch.ones(2, 3), 1)
    try:
        torch.softmax(torch.ones(3), 5)
    except IndexError as error:
        print(error)
"""


def test_errors_are_pytorchs_where_the_first_call_was_under_a_mode():
    out = subprocess.run([sys.executable, "-c", AFTER_A_MODE], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout.startswith("Dimension out of range"), out


@pytest.mark.filterwarnings("ignore")
def test_operations_of_the_program():
    @torch.library.custom_op("hipdnn_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x.clone() * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    twice.register_autograd(lambda ctx, grad: grad * 2)
    with hipdnn.torch.enable(timed=False):
        assert twice(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
        x = torch.ones(3, requires_grad=True)
        torch.compile(lambda x: twice(F.gelu(x)), backend="aot_eager")(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.autograd.grad(F.gelu(x).sum(), x)[0])


def test_saved_tensors_and_hooks():
    seen = []
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3, requires_grad=True)
    with hipdnn.torch.enable(timed=False):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
            y = F.conv2d(x, w)
        y.register_hook(lambda grad: grad * 2)
        y.sum().backward()
        with torch.autograd.graph.save_on_cpu():
            F.conv2d(x, w).sum().backward()
    wanted = torch.autograd.grad(F.conv2d(x, w).sum(), w)[0] * 3
    torch.testing.assert_close(w.grad, wanted, rtol=1e-4, atol=1e-3)
    assert seen


def test_threads():
    layer, x = nn.Conv2d(3, 8, 3), torch.randn(2, 3, 16, 16)
    wanted, failures = layer(x), []

    def work():
        with hipdnn.torch.enable():
            for _ in range(30):
                y = layer(x)
                if not torch.allclose(y, wanted, rtol=1e-4, atol=1e-4):
                    failures.append(1)
                torch.autograd.grad(y.sum(), layer.weight)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Images(torch.utils.data.Dataset):
    """Samples computed by a network."""

    def __len__(self):
        return 8

    def __getitem__(self, at):
        return F.conv2d(torch.full((1, 3, 8, 8), float(at)), torch.ones(4, 3, 3, 3))[0]


def test_workers_of_a_loader():
    with hipdnn.torch.enable(timed=False):
        F.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
        loader = torch.utils.data.DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context="fork")
        batches = list(loader)
    assert torch.cat(batches).flatten(1).mean(1).tolist() == pytest.approx([27.0 * at for at in range(8)])


def test_in_inference_mode():
    layer, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8)
    with hipdnn.torch.enable(timed=False), torch.inference_mode():
        y = layer(x)
    assert y.is_inference() and hipdnn.torch.report()[0].routed == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_gradient_of_attention_on_gpus(is_causal, scale, dtype):
    # PyTorch has this operation only on GPUs; host tensors reach the same kernel.
    q, k, v = (torch.randn(2, 10, 3, 8).to(dtype).transpose(1, 2) for _ in range(3))
    inputs = [x.double().requires_grad_() for x in (q, k, v)]
    scores = inputs[0] @ inputs[1].mT * (8**-0.5 if scale is None else scale)
    scores = scores.masked_fill(~torch.ones(10, 10, dtype=torch.bool).tril(), -torch.inf) if is_causal else scores
    exact = scores.softmax(-1) @ inputs[2]
    dy = torch.randn(2, 10, 3, 8).to(dtype).transpose(1, 2)
    wanted = torch.autograd.grad(exact, inputs, dy.double())
    o, lse = exact.detach().to(dtype), scores.logsumexp(-1).detach().float()
    seed = torch.zeros(2, dtype=torch.int64)
    backward = torch.ops.aten._scaled_dot_product_flash_attention_backward
    call = lambda p=0.0: backward(dy, q, k, v, o, lse, None, None, 10, 10, p, is_causal, seed, seed, scale=scale)
    hipdnn.torch.reset()
    with torch.inference_mode(), hipdnn.torch.enable(timed=False):
        got = call()
        # Calls left to PyTorch get PyTorch's error: it has no such kernel here.
        with pytest.raises((NotImplementedError, RuntimeError)):
            call(0.5)
    rows = [(row.routed, row.passed_on, row.reasons) for row in hipdnn.torch.report()]
    assert rows == [(1, 0, ()), (0, 1, ("dropout",))]
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    for g, w in zip(got, wanted):
        assert g.dtype == dtype and g.shape == w.shape
        torch.testing.assert_close(g.double(), w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_products_into_a_given_tensor(dtype, timed):
    a, b = torch.randn(5, 6).to(dtype), torch.randn(6, 7).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 5e-2
    for function, x, y in ((torch.mm, a, b), (torch.bmm, a.expand(3, 5, 6).clone(), b.expand(3, 6, 7).clone())):
        wanted = function(x.double(), y.double())
        wide = torch.zeros(*wanted.shape[:-1], 14, dtype=dtype)
        outs = [torch.empty(0, dtype=dtype), torch.zeros_like(wanted, dtype=dtype), wide[..., ::2], wide[..., 3:10]]
        hipdnn.torch.reset()
        with hipdnn.torch.enable(timed=timed):
            for out in [*outs, *[outs[1]] * 20]:
                version = out._version
                assert function(x, y, out=out) is out and out._version > version
                torch.testing.assert_close(out.double(), wanted, rtol=tolerance, atol=tolerance)
            with pytest.raises(RuntimeError):
                function(x, y, out=torch.empty(1, dtype=torch.float64))
            with pytest.raises(RuntimeError):
                function(x.requires_grad_(), y, out=outs[1])
            x.requires_grad_(False)
        assert any(row.routed for row in hipdnn.torch.report() if row.function == f"{function.__name__}.out")


def test_a_product_into_its_own_operand():
    square = torch.randn(4, 4)
    # PyTorch does not define the result: on some processors it is zero.
    wanted = square.clone()
    torch.mm(wanted, wanted, out=wanted)
    with hipdnn.torch.enable(timed=False):
        torch.mm(square, square, out=square)
    torch.testing.assert_close(square, wanted)
