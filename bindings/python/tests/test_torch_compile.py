"""`torch.compile(backend="hipdnn")`: inductor, with kernels of hipDNN."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from hipdnn.torch import graphs  # noqa: E402
from test_torch_functions import network  # noqa: E402

from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    torch._dynamo.reset()
    hipdnn.torch.reset()


def with_gradients(model, x):
    x = x.detach().requires_grad_()
    y = model(x)
    y.square().sum().backward()
    return [y, x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


@pytest.mark.smoke
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
@pytest.mark.parametrize("training", [False, True])
def test_a_network_is_computed_as_by_pytorch(training, layout):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)).train(
        training
    )
    model = model.to(memory_format=layout)
    x = torch.randn(2, 3, 8, 8).to(memory_format=layout)
    wanted = with_gradients(copy.deepcopy(model), x)
    got = with_gradients(torch.compile(model, backend="hipdnn"), x)
    for g, w in zip(got, wanted):
        torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-3)
    functions = {row.function for row in hipdnn.torch.report()}
    assert {"convolution", "convolution_backward"} <= functions, hipdnn.torch.report()


def test_training_is_the_same():
    def train(compiled):
        torch.manual_seed(3)
        model = network()
        step = torch.compile(model, backend=hipdnn.torch.backend) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        x, y = torch.randn(16, 3, 6, 6), torch.randint(0, 2, (16,))
        losses = []
        for _ in range(10):
            loss = F.cross_entropy(step(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert train(True) == pytest.approx(train(False), rel=0.01)


def test_shapes_that_change():
    layer = nn.Conv2d(3, 4, 3)
    compiled = torch.compile(layer, backend="hipdnn", dynamic=True)
    for size in (8, 9, 12):
        x = torch.randn(2, 3, size, size)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-4)
    assert sum(row.routed + row.passed_on for row in hipdnn.torch.report()) == 3


def test_graphs_are_inductors_where_hipdnn_gains_nothing():
    def function(x):
        return F.softmax(x @ x, -1)

    x = torch.randn(24, 24)
    # Values that no other test uses get their own name, and so are timed.
    compiled = torch.compile(lambda x: function(x) * 1.0625, backend="hipdnn")
    for _ in range(100):
        y = compiled(x)
    torch.testing.assert_close(y, function(x) * 1.0625, rtol=1e-4, atol=1e-4)
    [row] = [row for row in hipdnn.torch.report() if row.function == "compiled graph"]
    [graph] = [of for of in graphs.decided() if of.name in row.call]
    ours, theirs = graph.times
    assert row.routed + row.passed_on == 100 and "inductor alone takes" in row.reasons[0], row
    # The times decide, whatever they are on this machine, and whatever came before.
    assert graph.is_ours == (ours * 1.02 < theirs)
    before = dict(graph.counts)
    compiled(x)
    assert graph.counts[graph.is_ours] == before[graph.is_ours] + 1
    graph.times = (2 * theirs, theirs)
    before, routed = dict(graph.counts), sum(row.routed for row in hipdnn.torch.report())
    compiled(x)
    after = sum(row.routed for row in hipdnn.torch.report() if row.function != "compiled graph")
    assert graph.counts[False] == before[False] + 1 and after <= routed
    # What the program requests itself is not timed.
    with hipdnn.torch.enable(timed=False):
        compiled(x)
    assert graph.counts[False] == before[False] + 1


def test_modes_are_inductors(monkeypatch):
    given = []
    from torch._inductor import compile_fx

    compiler = compile_fx.compile_fx
    monkeypatch.setattr(
        compile_fx, "compile_fx", lambda *a, **k: given.append(k.get("config_patches")) or compiler(*a, **k)
    )
    x = torch.randn(8, 8)
    torch.testing.assert_close(torch.compile(torch.tanh, backend="hipdnn", mode="reduce-overhead")(x), torch.tanh(x))
    assert given[0]["triton.cudagraphs"] is True


def test_graph_breaks_and_options():
    def function(x):
        x = F.gelu(x @ x)
        torch._dynamo.graph_break()
        return F.softmax(x @ x, -1)

    x = torch.randn(16, 16)
    compiled = torch.compile(function, backend="hipdnn", options={"epilogue_fusion": False})
    torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)


def test_products_of_compiled_graphs_are_timed():
    layer = nn.Linear(64, 32, bias=False)
    compiled = torch.compile(layer, backend="hipdnn")
    x = torch.randn(128, 64)
    for _ in range(60):
        layer.weight.grad = None
        y = compiled(x)
        y.sum().backward()
    torch.testing.assert_close(y, layer(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(32, 64), rtol=1e-4, atol=1e-3)
    rows = [row for row in hipdnn.torch.report() if row.function == "mm.out"]
    # The forward pass and the weights' gradient.
    assert len(rows) == 2 and all(row.routed and row.passed_on and row.reasons for row in rows), hipdnn.torch.report()


#: Trains a compiled network; prints what computes each call, and whether an earlier process chose.
STEPS = """
import json, torch, hipdnn.torch
model = torch.compile(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GELU()), backend="hipdnn")
for _ in range(250):
    model(torch.randn(2, 3, 16, 16)).sum().backward()
print(json.dumps([[row.function, row.routed > row.passed_on, row.stored] for row in hipdnn.torch.report()]))
"""


def test_the_next_process_compiles_and_does_not_time(tmp_path):
    variables = {**os.environ, "HIPDNN_CACHE_DIR": str(tmp_path)}
    variables.pop("HIPDNN_PLAN_CACHE_DIR", None)
    said = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", STEPS], env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = said
    assert {"convolution_backward", "compiled graph"} <= {name for name, *_ in first}
    assert not any(stored for *_, stored in first) and any(
        name == "compiled graph" for name, _, stored in second if stored
    )
    # Calls that no engine supports are planned again.
    timed = [row[:2] for row in second if row[2]]
    assert timed and all(row in [of[:2] for of in first] for row in timed)
