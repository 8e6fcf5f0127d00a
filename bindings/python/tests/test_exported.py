"""Modules of PyTorch as graphs: these compute what PyTorch does, and ``hipdnn.numerics`` names their nodes."""

from __future__ import annotations

import hipdnn
import numpy as np
import pytest
from hipdnn.quantization.exported import graph_of_module

torch = pytest.importorskip("torch")
F = torch.nn.functional

FORMULAS = {
    "numbers": lambda x, p: (1 - x) / 2 + 3 * x - 0.5,
    "alpha": lambda x, p: x.add(x * x, alpha=2).sub(p, alpha=3),
    "parameter": lambda x, p: (x + p) * p - p / (x * x + 1),
    "powers": lambda x, p: x**2 + x**3 - (x * x + 1) ** -0.5 + x.square() + (x * x) ** 0.5,
    "functions": lambda x, p: (x * x + 1).log().sqrt() + torch.rsqrt(x * x + 1) + x.abs().neg().exp() + torch.erf(x),
    "activations": lambda x, p: (
        F.silu(x) + F.gelu(x) - F.gelu(x, approximate="tanh") + torch.sigmoid(x) * torch.tanh(x)
    ),
    "extremes": lambda x, p: torch.maximum(x, x * x) - torch.minimum(x, p),
    "softmax": lambda x, p: torch.softmax(x, -1) + torch.log_softmax(x, 1),
    "layer_norm": lambda x, p: F.layer_norm(x, [8], p, None, 1e-3) + F.layer_norm(x, [4, 8]),
    "kept": lambda x, p: x - x.mean(1, keepdim=True) + x.sum(-1, keepdim=True) * x.amax((1, 2), keepdim=True),
    "variance": lambda x, p: (x * x).mean(2) - x.mean(2) ** 2,
    "all": lambda x, p: x.sum() + x.mean() * x.amin((0, 1, 2)),
    "again": lambda x, p: x.mean(1).amax(0) - x.mean(1).mean(0),
    "softmax of means": lambda x, p: torch.softmax(x.mean(1), 1) + torch.softmax(x.mean(1), 0),
    "of parameters": lambda x, p: x * p.mean().exp() + torch.softmax(p, -1) * (p * 2 + 1),
    "turned parameter": lambda x, p: x + torch.stack([p, 2 * p, 3 * p, p]).t().t(),
    "constant": lambda x, p: x * torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8]),
    "number and alpha": lambda x, p: torch.add(x, 2, alpha=3) * 2.0**70 / 2.0**70,
    "parameter twice": lambda x, p: torch.exp(p * p + x) + p,
}


class Formula(torch.nn.Module):
    """A formula of a tensor and a parameter."""

    def __init__(self, formula):
        super().__init__()
        self.formula, self.p = formula, torch.nn.Parameter(torch.linspace(-1, 2, 8))

    def forward(self, x):
        return self.formula(x, self.p)


class Head(torch.nn.Module):
    """A small network for images, whose features are flat before they are normalized."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = torch.nn.Conv2d(2, 6, 3, padding=1), torch.nn.Linear(6, 5)
        self.shift = torch.nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x):
        pooled = torch.relu(self.conv(x)).mean((2, 3)) * 4 + self.shift
        return torch.softmax(self.last(pooled), -1)


class Attention(torch.nn.Module):
    """Products of two tensors, by hand and as one operation."""

    def forward(self, q, k):
        weights = torch.softmax(torch.matmul(q, k) / 4, -1)
        return torch.matmul(weights, q) + F.scaled_dot_product_attention(q, q, q, is_causal=True)


class Means(torch.nn.Module):
    """Features that lost a dimension in a linear layer, with probabilities of its results."""

    def __init__(self, axis):
        super().__init__()
        self.axis, self.norm, self.last = axis, torch.nn.LayerNorm(8), torch.nn.Linear(8, 5)

    def forward(self, x):
        return torch.log_softmax(self.last(self.norm(x).mean(self.axis)), 1)


class Normalized(torch.nn.Module):
    """Batch norm of features that a function makes."""

    def __init__(self, features, channels, *, affine=True):
        super().__init__()
        self.features, self.conv = features, torch.nn.Conv2d(2, 6, 3)
        self.norm, self.last = torch.nn.BatchNorm1d(channels, affine=affine), torch.nn.Linear(channels, 5)
        for values in [self.norm.running_mean, self.norm.running_var, *self.norm.parameters()]:
            torch.nn.init.uniform_(values, 0.5, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.features(self.conv(x)))))


class Operands(torch.nn.Module):
    """A formula of the arguments of a call, with a tensor that is neither a parameter nor a buffer."""

    def __init__(self, formula):
        super().__init__()
        self.formula, self.held = formula, torch.linspace(300, 301, 8)

    def forward(self, *arrays):
        return self.formula(self, *arrays)


def computed(module, *arrays):
    """A module's results by its graph and by PyTorch."""
    graph, weights, [given], shapes = graph_of_module(module, [arrays])
    graph.to_json()
    inputs = dict(zip([tensor for tensor in graph._inputs if tensor not in weights], given))
    [(result, shape)] = shapes.items()
    found = np.zeros(result.dim, np.float32)
    graph.execute({**inputs, **weights, result: found})
    with torch.no_grad():
        right = module(*arrays).numpy()
    return found.reshape(shape), right


def same(module, *arrays):
    """The report of a module, whose plans compute what PyTorch does."""
    found = hipdnn.numerics(module, arrays)
    with torch.no_grad():
        right = module(*arrays)
    right = right if isinstance(right, (tuple, list)) else [right]
    assert [of.shape for of in found.outputs] == [tuple(of.shape) for of in right]
    for own, of in zip(found.outputs, right):
        np.testing.assert_allclose(own, of.detach().numpy(), rtol=2e-5, atol=2e-5)
    assert all(node.added <= (np.inf if node.bound is None else node.bound) for node in found.nodes), str(found)
    return found


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_compute_what_pytorch_does(name):
    torch.manual_seed(1)
    found, right = computed(Formula(FORMULAS[name]), torch.randn(3, 4, 8))
    assert found.shape == right.shape
    np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5)


def test_networks_compute_what_pytorch_does():
    torch.manual_seed(2)
    for module, arrays in [
        (Head(), [torch.randn(3, 2, 6, 6)]),
        (Attention(), [torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8)]),
        (Means(1), [torch.randn(3, 4, 8)]),
        (Means((1, 2)), [torch.randn(3, 4, 2, 8)]),
        (Means(0), [torch.randn(3, 4, 8)]),
        (Normalized(lambda x: x.mean((2, 3)), 6), [torch.randn(3, 2, 6, 6)]),
        (Normalized(lambda x: torch.flatten(F.adaptive_avg_pool2d(x, 1), 1), 6), [torch.randn(3, 2, 6, 6)]),
        (Normalized(lambda x: torch.flatten(x, 1), 24, affine=False), [torch.randn(3, 2, 4, 4)]),
        (Normalized(lambda x: x.mean(1), 4), [torch.randn(4, 2, 6, 6)]),
    ]:
        found, right = computed(module, *arrays)
        assert found.shape == right.shape
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5)


def test_operands_are_those_of_the_call():
    torch.manual_seed(3)
    x, y = torch.randn(3, 8), torch.randn(3, 8)
    for formula, arrays in [
        (lambda self, a, b: b * 2, [x, y]),
        (lambda self, a, b, c: c - a, [x, torch.randn(5), y]),
        (lambda self, a, b: a - b * 3, [x, x]),
        (lambda self, a: a + self.held, [x]),
        (lambda self, a: a + 1, [torch.arange(6) / 1 - 3]),
        (lambda self, a: a / 2 + 1, [torch.arange(6)]),
    ]:
        found, right = computed(Operands(formula), *arrays)
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5)


def test_layers_are_quantized_with_the_operands_that_they_read():
    torch.manual_seed(4)
    module = Operands(lambda self, a, b: F.linear(b, self.weight))
    module.weight = torch.nn.Parameter(torch.randn(5, 8))
    x = torch.randn(3, 8)
    quantized = hipdnn.quantize(module, [(100 * torch.randn(3, 8), x)])
    right = module(x, x).detach().numpy()
    assert np.abs(quantized(x) - right).max() < 0.02 * np.abs(right).max()


def test_a_difference_that_cancels_is_named():
    x = 300 + torch.rand(4, 8, 1024)
    found = hipdnn.numerics(Formula(FORMULAS["variance"]), x)
    assert found.culprit is not None and found.culprit.name == "sub", str(found)
    assert found.culprit.reasons[0].startswith("cancellation: ")


@pytest.mark.parametrize(
    "formula, words",
    [
        (lambda x, p: torch.sort(x)[0], "expected one of"),
        (lambda x, p: F.layer_norm(x.mean(1), [8]), "mean: rearranges elements between nodes"),
        (lambda x, p: (2 * x).transpose(1, 2).exp(), "transpose: rearranges elements between nodes"),
        (lambda x, p: (2 * x).transpose(1, 2), "transpose: is returned"),
        (lambda x, p: [x.exp()] * 2, "exp: is returned, expected results of nodes, each once"),
        (lambda x, p: [x.exp(), p], "p: is returned"),
        (lambda x, p: x.max(1)[1] + p, "max_1: result 1: is none that a node writes"),
        (lambda x, p: x.masked_fill(x > 0, 1), "gt: is aten.gt.Scalar, expected one of"),
        (lambda x, p: x.to(torch.int64) * p, "the result is torch.int64"),
        (lambda x, p: x.sum(1, dtype=torch.int64), "the result is torch.int64"),
        (lambda x, p: x.mean(1, dtype=torch.float64), "the result is torch.float64"),
        (lambda x, p: F.dropout(x, 0.5) + 1, "dropout: train: is True"),
        (lambda x, p: F.dropout(p, 0.5) + x, "dropout: train: is True"),
        (lambda x, p: F.layer_norm(x, [8], x.mean((0, 1), keepdim=True).sum((0, 1))), "weight: is computed"),
        (lambda x, p: x + float("inf"), "number: is inf"),
        (lambda x, p: x.add(x, alpha=float("nan")), "number: is nan"),
        (lambda x, p: x * 1e39, "number: is 1e"),
        (lambda x, p: x.mean(1) + p, "mean: rearranges elements between nodes"),
        (lambda x, p: x**5, "exponent: is 5"),
    ],
)
def test_what_no_node_does_is_refused(formula, words):
    with pytest.raises(hipdnn.UnsupportedError, match=words):
        graph_of_module(Formula(formula), [torch.randn(3, 4, 8)])


@pytest.mark.parametrize(
    "formula, arrays, words",
    [
        (lambda self, a: a + 1, [torch.ones(3).half()], "the result is torch.float16"),
        (lambda self, a: a + self.held, [torch.ones(8).half()], "an input is torch.float16"),
        (lambda self, a: a + 1, [torch.ones(3).double()], "the result is torch.float64"),
        (lambda self, a, b: a + b, [torch.tensor([True]), torch.tensor([True])], "inputs: are indices"),
        (lambda self, a: a + 200, [torch.tensor([100], dtype=torch.uint8)], "inputs: are indices"),
        (lambda self, a: a / 3, [torch.tensor([(1 << 24) + 1])], "integers of more than 24 bits"),
        (
            lambda self, q: F.scaled_dot_product_attention(q, q, q, None, 0.5),
            [torch.ones(1, 1, 4, 4)],
            "dropout_p: is 0.5",
        ),
        # PyTorch aligns three dimensions, the graph four, of which one has one element.
        (
            lambda self, q, k: F.scaled_dot_product_attention(q.mean(1), k, k),
            [torch.ones(2, 3, 4, 8), torch.ones(2, 4, 8)],
            "mean: rearranges",
        ),
        # The first has two of its operand's dimensions, the second three.
        (lambda self, x: x.mean((2, 3)).mean(0) + x.mean(0), [torch.ones(3, 4, 4, 4)], "rearranges elements"),
        (lambda self, i: F.embedding(i, torch.ones(4, 3)) * 2, [torch.tensor([1, 3])], "inputs: are indices"),
    ],
)
def test_other_types_and_operands_are_refused(formula, arrays, words):
    with pytest.raises(hipdnn.UnsupportedError, match=words):
        graph_of_module(Operands(formula), [arrays])


def test_samples_are_tensors_of_one_number():
    module, x = Operands(lambda self, a, b: a + b), torch.ones(3)
    with pytest.raises(hipdnn.ArgumentError, match="ndarray"):
        graph_of_module(module, [(x, np.ones(3))])
    with pytest.raises(hipdnn.ArgumentError, match="expected 2"):
        graph_of_module(module, [(x, x), (x,)])


def test_means_of_other_dimensions_are_not_aligned():
    # PyTorch aligns both at their last dimension; in the graph they have others.
    square = Formula(lambda x, p: x.mean(1) + x.mean(2))
    with pytest.raises(hipdnn.UnsupportedError, match="rearranges elements"):
        graph_of_module(square, [torch.randn(3, 8, 8)])
    same(square, torch.randn(3, 8, 8))
