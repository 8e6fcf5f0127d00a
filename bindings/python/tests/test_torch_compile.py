"""`torch.compile(backend="hipdnn")`: the same results as without, and chains of operations as one graph each."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import hipdnn.torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    torch._dynamo.reset()
    hipdnn.torch.reset()


class Block(nn.Module):
    """Two convolutions with a connection around them."""

    def __init__(self, inplace):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])
        self.relu = nn.ReLU(inplace=inplace)

    def forward(self, x):
        y = self.norms[1](self.second(self.relu(self.norms[0](self.first(x)))))
        y += x
        return self.relu(y)


class Head(nn.Module):
    """What ends a network: pooling, and linear layers with activations."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(F.max_pool2d(x, 2), 1).flatten(1)
        return F.softmax(x + self.down(F.gelu(self.up(x))) @ torch.eye(4, dtype=x.dtype), -1)


def routed():
    """Functions that were computed here and how often; nothing went on in PyTorch."""
    rows = hipdnn.torch.report()
    assert not any(row.passed_on for row in rows), rows
    return {row.function: row.routed for row in rows if row.routed}


def compare(model, x, training, tolerance=1e-3):
    """Results, gradients and buffers, with and without."""
    model.train(training)
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend="hipdnn")
    inputs = [x.detach().clone().requires_grad_(training) for _ in range(2)]
    with torch.set_grad_enabled(training):
        wanted, got = model(inputs[0]), compiled(inputs[1])
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)
    if training:
        direction = torch.randn_like(wanted)
        wanted.backward(direction)
        got.backward(direction)
        pairs = zip([*other.parameters(), inputs[1]], [*model.parameters(), inputs[0]])
        for ours, theirs in pairs:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(other.buffers(), model.buffers()):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_convolution_normalization_addition_and_activation(training, inplace, layout):
    x = torch.randn(2, 4, 6, 5).to(memory_format=layout)
    compare(Block(inplace).to(memory_format=layout), x, training)
    assert routed() == {"conv2d+batch_norm+relu": 1, "conv2d+batch_norm+iadd+relu": 1}


@pytest.mark.smoke
@pytest.mark.parametrize("training", [False, True])
def test_linear_layers_with_activations(training):
    compare(Head(), torch.randn(3, 4, 6, 6), training)
    assert routed() == dict.fromkeys(
        ("linear+gelu", "linear", "matmul+add", "softmax", "max_pool2d", "adaptive_avg_pool2d"), 1
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_types(dtype):
    compare(Block(False).to(dtype), torch.randn(2, 4, 6, 5, dtype=dtype), True, {torch.float64: 1e-9}.get(dtype, 0.2))
    assert routed() == {"conv2d+batch_norm+relu": 1, "conv2d+batch_norm+iadd+relu": 1}


ACTIVATIONS = [
    F.relu, F.relu6, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, torch.sigmoid, torch.tanh,
    lambda x: F.leaky_relu(x, 0.2), lambda x: F.elu(x, 0.5), lambda x: x.relu(), lambda x: x.tanh_(),
]  # fmt: skip


class Chain(nn.Module):
    def __init__(self, anchor, activation, added):
        super().__init__()
        self.anchor, self.activation, self.added = anchor, activation, added

    def forward(self, x):
        y = self.anchor(x)
        return self.activation(x + y if self.added else y)


@pytest.mark.parametrize("activation", range(len(ACTIVATIONS)))
@pytest.mark.parametrize("anchor, shape", [
    (lambda: nn.Linear(6, 6), (3, 5, 6)), (lambda: nn.Conv1d(6, 6, 3, padding=1), (2, 6, 9)),
])  # fmt: skip
def test_activations_and_their_gradients(anchor, shape, activation):
    for added in (False, True):
        compare(Chain(anchor(), ACTIVATIONS[activation], added), torch.randn(shape), True)
    (name,) = {name.split("+")[0] for name in routed()}
    assert sum(routed().values()) == 2 and all("+" in name for name in routed()), name


def test_normalization_by_given_statistics_with_gradients_goes_on():
    model = Block(False).eval()
    compiled = torch.compile(copy.deepcopy(model), backend="hipdnn")
    x = torch.randn(2, 4, 6, 5)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    reasons = {reason for row in hipdnn.torch.report() for reason in row.reasons}
    assert reasons == {"gradients of a normalization by given statistics"}


def test_a_result_that_is_read_twice_is_in_no_chain():
    layer = nn.Linear(4, 4)

    def f(x):
        y = layer(x)
        return F.relu(y) + y

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, backend="hipdnn")(x), f(x))
    assert routed() == {"linear": 1, "relu": 1}


def test_what_is_changed_between_is_in_no_chain():
    layer = nn.Linear(4, 4)

    def f(x):
        x = x * 1
        y = layer(x)
        x.add_(5)
        return F.relu(y), x

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, backend="hipdnn")(x), f(x))
    assert routed() == {"linear": 1, "relu": 1}


def test_shapes_that_are_not_known_go_on_in_pytorch():
    layer = nn.Linear(4, 4)
    compiled = torch.compile(lambda x: F.relu(layer(x)), backend="hipdnn", dynamic=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), F.relu(layer(x)))
    assert routed() == {}


def test_places_are_those_of_the_program():
    torch.compile(lambda x: F.relu(F.linear(x, x)), backend="hipdnn")(torch.randn(3, 3))
    (row,) = hipdnn.torch.report()
    assert row.function == "linear+relu" and row.place.startswith(__file__)


def test_training_is_the_same():
    def train(compiled):
        torch.manual_seed(3)
        model = nn.Sequential(Block(True), Block(False), Head())
        run = torch.compile(model, backend="hipdnn") if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x, y, losses = torch.randn(16, 4, 6, 6), torch.randint(0, 4, (16,)), []
        for _ in range(20):
            loss = F.cross_entropy(run(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert train(True) == pytest.approx(train(False), rel=0.01)
    assert routed()["conv2d+batch_norm+relu"] >= 40


def second(run, model, x):
    """A result, its gradients, and the gradients of a function of those."""
    x = x.detach().clone().requires_grad_()
    y = run(x)
    direction = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape).requires_grad_()
    inputs = [x, *model.parameters()]
    first = torch.autograd.grad(y, inputs, direction, create_graph=True)
    total = sum((g.sin() * torch.linspace(1, 2, g.numel(), dtype=g.dtype).view(g.shape)).sum() for g in first)
    of = [*inputs, direction]
    return [y, *first, *torch.autograd.grad(total, of, allow_unused=True, materialize_grads=True)]


class Added(nn.Module):
    """A chain of which one tensor is both the image and what is added."""

    def __init__(self, anchor, norm, activation):
        super().__init__()
        self.anchor, self.norm, self.activation = anchor, norm, activation

    def forward(self, x):
        return self.activation(self.norm(self.anchor(x)) + x)


CHAINS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 4), nn.GELU()), (3, 6)),
    "linear without bias": (lambda: nn.Sequential(nn.Linear(6, 4, bias=False), nn.Sigmoid()), (2, 3, 6)),
    "linear, relu": (lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU()), (3, 6)),
    "linear, added": (lambda: Added(nn.Linear(6, 6), nn.Identity(), F.silu), (3, 6)),
    "convolution": (lambda: nn.Sequential(nn.Conv1d(2, 3, 3, stride=2, padding=1), nn.Tanh()), (2, 2, 9)),
    "convolution, added, relu": (lambda: Added(nn.Conv2d(2, 2, 3, padding=1), nn.Identity(), F.relu), (2, 2, 5, 4)),
    "normalization": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ELU()), (3, 2, 5, 4)),
    "normalization, added, relu": (
        lambda: Added(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), F.relu), (3, 2, 5, 4)
    ),
    "normalization, added, gelu": (
        lambda: Added(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), F.gelu), (3, 2, 5, 4)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_second_derivatives_of_chains(name):
    make, shape = CHAINS[name]
    model, x = make().double(), torch.randn(shape, dtype=torch.float64)
    other = copy.deepcopy(model)
    wanted = second(model, model, x)
    got = second(torch.compile(other, backend="hipdnn"), other, x)
    (chain,) = [row.function for row in hipdnn.torch.report() if row.routed and "+" in row.function]
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        torch.testing.assert_close(g, w, rtol=1e-7, atol=1e-7, msg=lambda text: f"{chain}: {text}")


def test_what_is_added_may_be_changed_in_place_after_a_chain():
    layer = nn.Linear(4, 4)
    compiled = torch.compile(lambda x, z: F.gelu(layer(x) + z), backend="hipdnn")

    def gradient(run, **how):
        x, z = torch.ones(2, 4, requires_grad=True), torch.full((2, 4), 0.5)
        y = run(x, z)
        z.add_(1)
        return torch.autograd.grad(y.sum(), x, **how)[0]

    wanted = gradient(lambda x, z: F.gelu(layer(x) + z))
    torch.testing.assert_close(gradient(compiled), wanted)
    # What it was is needed then.
    with pytest.raises(RuntimeError, match="changed in place"):
        gradient(compiled, create_graph=True)
