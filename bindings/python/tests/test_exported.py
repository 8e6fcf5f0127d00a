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
    ]:
        found, right = computed(module, *arrays)
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5)


def test_a_difference_that_cancels_is_named():
    x = 300 + torch.rand(4, 8, 1024)
    found = hipdnn.numerics(Formula(FORMULAS["variance"]), x)
    assert found.culprit is not None and found.culprit.name == "sub", str(found)
    assert found.culprit.reasons[0].startswith("cancellation: ")


@pytest.mark.parametrize(
    "formula, words",
    [
        (lambda x, p: torch.sort(x)[0], "expected one of"),
        (lambda x, p: x.mean(1).mean(1), "lost dimensions"),
        (lambda x, p: x.mean(1) + p, "expected the dimensions of the other operand"),
        (lambda x, p: x**5, "exponent: is 5"),
    ],
)
def test_what_no_node_does_is_refused(formula, words):
    with pytest.raises(hipdnn.UnsupportedError, match=words):
        graph_of_module(Formula(formula), [torch.randn(3, 4, 8)])


def test_means_of_other_dimensions_are_not_aligned():
    # PyTorch aligns both at their last dimension; in the graph they have others.
    square = Formula(lambda x, p: x.mean(1) + x.mean(2))
    with pytest.raises(hipdnn.UnsupportedError, match="lost different dimensions"):
        graph_of_module(square, [torch.randn(3, 8, 8)])
