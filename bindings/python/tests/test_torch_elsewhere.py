"""What no engine takes goes on in PyTorch, gradients of what was computed here among it. Engines are made to refuse by name."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import torch.nn.functional as F  # noqa: E402

import hipdnn.torch  # noqa: E402
from hipdnn.torch import graphs, ops  # noqa: E402
from test_torch_functions import CALLS, network, with_gradients  # noqa: E402

GRADIENTS = ("_backward", "_gradients", "conv_data", "conv_weights")


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    torch._dynamo.reset()
    hipdnn.torch.reset()


@pytest.fixture
def refuse(monkeypatch, request):
    """Has the engines refuse graphs, as those of GPUs do."""

    def begin(refused):
        request.addfinalizer(graphs.forget)
        plan = graphs._plan
        graphs.forget()
        decline = lambda name, *rest: "no engine: refused" if refused(name) else plan(name, *rest)
        monkeypatch.setattr(graphs, "_plan", decline)

    return begin


def by_pytorch(name, *arguments):
    return getattr(ops, name).elsewhere(*arguments)


def by_hipdnn(name, *arguments):
    return getattr(ops, name)(*arguments)


def samples():
    """Arguments for each operation that PyTorch can stand in for."""
    rand = lambda *shape: torch.randn(*shape, dtype=torch.float64)
    of = ([2, 1], [1, 0], [1, 2])
    x, w = rand(2, 4, 9, 8), rand(6, 2, 3, 3)
    dy = ops.conv(x, w, None, *of)
    rows, scale = rand(12, 8), rand(8)
    q, k, v = rand(2, 4, 6, 8), rand(2, 2, 6, 8), rand(2, 2, 6, 8)
    bias = rand(1, 1, 6, 6)
    o, stats = ops.sdpa(q, k, v, None, None, True, 0.3, 0.0)
    with_bias = ops.sdpa(q, k, v, bias, None, False, 0.3, 0.0)
    kept = torch.empty(2, 4, 6, 6, dtype=torch.float64).bernoulli_(0.75)
    dropped = ops.sdpa(q, k, v, None, kept, False, 0.3, 0.25)
    window = [2, 3], [2, 2], [0, 1], [0, 1]
    y, index = ops.pool(x, "maxpool", True, *window)
    for name in ("conv", "conv_data", "conv_weights"):
        arguments = {"conv": (x, w, rand(6)), "conv_data": (dy, w, x.shape), "conv_weights": (x, dy, w.shape)}[name]
        yield name, (*arguments, *of)
    yield "conv", (rand(1, 2, 5, 6, 4), rand(3, 2, 2, 3, 1), None, [1, 1, 1], [1, 0, 0], [1, 1, 1])
    yield "matmul", (rand(3, 4, 5), rand(3, 5, 6))
    yield "linear", (rand(3, 4, 5), rand(6, 5), rand(6))
    yield "batch_norm_backward", (x, rand(*x.shape), *(torch.rand(4, dtype=torch.float64) for _ in range(3)))
    yield "batch_norm", (x, rand(4), rand(4), rand(4), rand(4).square(), 0.1, 1e-3)
    yield "batch_norm_inference", (x, rand(4), rand(4), rand(4), rand(4).square())
    yield "layer_norm", (rand(3, 4, 8), scale, rand(8), 1e-3)
    yield "rms_norm", (rand(3, 4, 8), scale, 1e-3)
    yield "layer_norm_backward", (rand(12, 8), rows, scale, *ops.layer_norm(rows, scale, scale, 1e-3)[1:])
    yield "rms_norm_backward", (rand(12, 8), rows, scale, *ops.rms_norm(rows, scale, 1e-3)[1:])
    yield "sdpa", (q, k, v, None, None, True, 0.3, 0.0)
    yield "sdpa", (q, k, v, bias, kept, False, 0.3, 0.25)
    yield "sdpa_backward", (q, k, v, o, rand(*o.shape), stats, None, None, True, 0.3, 0.0)
    yield "sdpa_backward", (q, k, v, with_bias[0], rand(*o.shape), with_bias[1], bias, None, False, 0.3, 0.0)
    yield "sdpa_backward", (q, k, v, dropped[0], rand(*o.shape), dropped[1], None, kept, False, 0.3, 0.25)
    for method, numbers in (("relu", []), ("relu", [0.0, 0.0, 6.0]), ("swish", []), ("sigmoid", []), ("tanh", []), ("leaky_relu", [0.1]),
                            ("elu", [0.5]), ("gelu", []), ("gelu_approx_tanh", [])):  # fmt: skip
        yield "pointwise", (4 * rand(3, 5), method, numbers)
        yield "pointwise_backward", (rand(3, 5), 4 * rand(3, 5), method, numbers)
    yield "softmax", (rand(3, 5, 4), 1)
    yield "softmax_backward", (rand(3, 5), torch.softmax(rand(3, 5), 1), 1)
    yield "pool", (x, "maxpool", True, *window)
    yield "pool", (x, "maxpool", False, *window)
    yield "pool_backward", (rand(*y.shape), index, list(x.shape), "maxpool", *window)
    for mode in ("avgpool_exclude_padding", "avgpool_include_padding"):
        yield "pool", (x, mode, False, *window)
        yield "pool_backward", (rand(*y.shape), None, list(x.shape), mode, *window)
    # Windows that leave a rest, and that reach out of the image.
    yield (
        "pool_backward",
        (rand(2, 4, 4, 4), None, list(x.shape), "avgpool_exclude_padding", [2, 2], [2, 2], [0, 0], [0, 0]),
    )


def test_pytorch_computes_the_same():
    seen = set()
    for name, arguments in samples():
        seen.add(name)
        got, wanted = by_pytorch(name, *arguments), by_hipdnn(name, *arguments)
        got, wanted = (list(r) if isinstance(r, (list, tuple)) else [r] for r in (got, wanted))
        assert len(got) == len(wanted), name
        for g, w in zip(got, wanted):
            assert g.shape == w.shape and g.dtype == w.dtype, name
            torch.testing.assert_close(g, w, rtol=1e-6, atol=1e-6, msg=lambda words, name=name: f"{name}: {words}")
    assert seen == set(ops.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_that_are_refused(name, refuse):
    refuse(lambda graph: any(part in graph for part in GRADIENTS))
    call, *makes = CALLS[name]
    inputs = [make(torch.float64) for make in makes]
    wanted = with_gradients(call, inputs)
    with hipdnn.torch.enable():
        got = with_gradients(call, inputs)
    for g, w in zip(got, wanted):
        assert g.shape == w.shape
        torch.testing.assert_close(g, w, rtol=1e-6, atol=1e-6)


def test_they_are_counted(refuse):
    refuse(lambda graph: graph.endswith("_backward"))
    x = torch.randn(3, 5, requires_grad=True)
    with hipdnn.torch.enable():
        F.gelu(x).sum().backward()
    rows = {row.function: row for row in hipdnn.torch.report()}
    assert (rows["gelu"].routed, rows["gelu"].passed_on) == (1, 0)
    assert rows["pointwise_backward"].passed_on == 1 and "refused" in rows["pointwise_backward"].reasons[0]


def losses(model, steps=10):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x, y = torch.randn(16, 3, 6, 6), torch.randint(0, 2, (16,))
    found = []
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("refused", ["chain", "chain_gradients", "batch_norm", "_backward", ""])
def test_a_compiled_network_goes_on(refused, refuse):
    torch.manual_seed(3)
    wanted = losses(network())
    refuse(lambda graph: refused in graph)
    torch.manual_seed(3)
    got = losses(torch.compile(network(), backend=hipdnn.torch.backend))
    assert got == pytest.approx(wanted, rel=1e-3)
    rows = {row.function: row for row in hipdnn.torch.report()}
    if refused == "chain":
        # What is no graph together is computed one by one.
        assert (
            rows["conv2d"].routed == rows["batch_norm"].routed == 10 and rows["conv2d+batch_norm+relu"].passed_on == 10
        )
    if not refused:
        assert not any(row.routed for row in rows.values())


def test_operations_by_their_names(refuse):
    x, w = torch.randn(2, 4, 6, 5, requires_grad=True), torch.randn(6, 4, 3, 3, requires_grad=True)
    refuse(lambda graph: True)
    compiled = torch.compile(
        lambda x, w: torch.ops.hipdnn.conv(x, w, None, [1, 1], [1, 1], [1, 1]), backend="aot_eager"
    )
    wanted = F.conv2d(x, w, padding=1)
    torch.testing.assert_close(compiled(x, w), wanted)
    got = torch.autograd.grad(compiled(x, w).square().sum(), (x, w))
    for g, want in zip(got, torch.autograd.grad(wanted.square().sum(), (x, w))):
        torch.testing.assert_close(g, want, rtol=1e-4, atol=1e-4)
