"""Modules of PyTorch as graphs: these compute what PyTorch does, and ``hipdnn.numerics`` names their nodes."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import hipdnn
import numpy as np
import pytest
from hipdnn.quantization.exported import graph_of_module

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

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


REARRANGED = {
    "view": lambda self, x: (2 * x).view(2, -1).exp() + (x + 1).reshape(2, 12) + x.flatten(1),
    "columns": lambda self, x: (2 * x).flatten().reshape(24, 1) * x[0, 0] + (2 * x).flatten().reshape(24, -1).var(0) + F.layer_norm(x[0, 0], [4]),
    "unflatten": lambda self, x: (2 * x).unflatten(2, (2, 2)).exp(),
    "transpose": lambda self, x: (2 * x).transpose(1, 2).exp() - x.mT + x.permute(2, 1, 0)[:, :, :1].permute(2, 0, 1),
    "squeeze": lambda self, x: (2 * x)[:, :1].squeeze(1) + x.sum(1).unsqueeze(1).squeeze(),
    "expand": lambda self, x: (2 * x)[:, :1].expand(2, 3, 4).exp() * x[0] + x.repeat(1, 1, 1),
    "slice": lambda self, x: (2 * x)[:, 1:, ::2].exp() + x.narrow(1, 0, 2)[..., 2:],
    "select": lambda self, x: (2 * x)[:, 1].exp() + x[:, 0] - (3 * x)[0, 0, 0].exp(),
    "split": lambda self, x: torch.cat([(2 * x).split(2, -1)[1].exp(), x.chunk(2, -1)[0]], 1) + x.unbind(2)[0][:, :1, None],
    "gate": lambda self, x: F.glu(2 * x),
    "stack": lambda self, x: torch.stack([2 * x, x + 1, x], 1).exp(),
    "order": lambda self, x: (2 * x).roll(1, 1).flip(2).exp() + (2 * x)[:, [2, 0, 1]],
    "rotate": lambda self, x: torch.cat([-(2 * x)[..., 2:], (2 * x)[..., :2]], -1) * x,
    "pad": lambda self, x: F.pad(2 * x, (1, 2), value=3.0).exp() + F.pad(x, (1, 2)) + F.pad(x, (1, 2), mode="reflect"),
    "masks": lambda self, x: torch.where(torch.arange(4) > 1, 2 * x, 0.5) + (x * 2).tril() + x.masked_fill(torch.ones(4) > 0, 2),
    "other ranks": lambda self, x: x + x[0] - x.mean(1) [:, None] + x.sum(),
    "norm of means": lambda self, x: F.layer_norm(x.mean(1), [4]) + F.rms_norm(x[:, 0], [4]),
    "products": lambda self, x: (x @ x[0].t()).sum() + x[0] @ x[0, 1] + (x[0, 0] @ x.mT).sum() + torch.einsum("bij,bkj->ik", x, x).sum(),
    "windows": lambda self, x: (2 * x).unfold(1, 2, 1).exp(),
    "statistics": lambda self, x: x.var(1) + x.std((1, 2))[:, None] + torch.logsumexp(x, 1) + x.max(1)[0],
    "activations": lambda self, x: F.hardswish(x) + F.elu(x) + F.softplus(x) + F.leaky_relu(x) + F.relu6(5 * x) + x.clamp(max=0.5),
    "shapes alone": lambda self, x: x * torch.zeros_like(x).fill_(2) + x.new_ones(4),
    "in place": lambda self, x: (lambda y: [y.view(4, 6).relu_(), y + 1])(2 * x),
    "part in place": lambda self, x: (lambda y: [y[:, 0].zero_(), y][1] + 1)(2 * x),
    "twice": lambda self, x: (lambda y: [y, y, y.transpose(0, 1)])(2 * x),
    "what is given": lambda self, x: [x.exp(), x, self.held, x.t() if x.dim() == 2 else x.mT],
    "attention": lambda self, x: F.scaled_dot_product_attention(x, 2 * x, x, is_causal=True),
    "attention mask": lambda self, x: F.scaled_dot_product_attention(x, 2 * x, x, torch.ones(3, 3).tril() > 0),
    "attention bias": lambda self, x: F.scaled_dot_product_attention(x[None], x[None], x[None], (x @ x.mT)[:1]),
}  # fmt: skip


class Tokens(nn.Module):
    """A block of a language model, from the numbers of tokens to those that may follow."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.norm = nn.Embedding(20, 16), nn.Embedding(8, 16), nn.LayerNorm(16)
        self.heads, self.out, self.last = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 20, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)) > 0)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(length))
        parts = self.heads(self.norm(x)).split(16, 2)
        q, k, v = (part.view(batch, length, 4, 4).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-2, -1) / 2).masked_fill(~self.mask[:length, :length], float("-inf"))
        values = torch.softmax(scores, -1) @ v
        return self.last(x + self.out(values.transpose(1, 2).contiguous().view(batch, length, 16)))


class Patches(nn.Module):
    """A vision transformer: patches and a token of the class."""

    def __init__(self):
        super().__init__()
        self.patches, self.of_class = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(1, 1, 16))
        self.places, self.last = nn.Parameter(torch.randn(1, 5, 16)), nn.Linear(16, 10)
        self.block = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", norm_first=True, batch_first=True)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.of_class.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.last(self.block(x)[:, 0])


class Halves(nn.Module):
    """A network that halves an image, doubles it again in three ways, and concatenates."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 8, 3, padding="same"), nn.GroupNorm(4, 8)
        self.down, self.up = nn.Conv2d(8, 8, 3, padding=1), nn.ConvTranspose2d(8, 8, 2, 2)
        self.last = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        x = F.silu(self.norm(self.first(x)))
        y = F.relu(self.down(F.avg_pool2d(x, 2)))
        near, between = F.interpolate(y, scale_factor=2), F.interpolate(y, scale_factor=2, mode="bilinear")
        return self.last(torch.cat([x, self.up(y), near, between], 1))


class Flattened(nn.Module):
    """Convolutions, flat features, and linear layers, with activations in place."""

    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.rows = nn.Sequential(nn.Conv1d(8, 4, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool1d(3))
        self.last = nn.Linear(12, 5)

    def forward(self, x):
        return torch.log_softmax(self.last(torch.flatten(self.rows(self.image(x).flatten(2)), 1)), 1)


class Weighted(nn.Module):
    """PyTorch's attention with its weights."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x, y):
        return self.attention(x, y, y)


NETWORKS = {
    "tokens": (Tokens, lambda: [torch.randint(0, 20, (2, 6))]),
    "patches": (Patches, lambda: [torch.randn(2, 3, 8, 8)]),
    "halves": (Halves, lambda: [torch.randn(2, 2, 8, 8)]),
    "flattened": (Flattened, lambda: [torch.randn(2, 3, 8, 8)]),
    "attention": (Weighted, lambda: [torch.randn(2, 5, 16), torch.randn(2, 7, 16)]),
    "decoder": (lambda: nn.TransformerDecoderLayer(16, 4, 32), lambda: [torch.randn(5, 2, 16), torch.randn(7, 2, 16)]),
}


@pytest.mark.parametrize("name", REARRANGED)
def test_rearranged_elements_are_those_of_pytorch(name):
    torch.manual_seed(1)
    same(Operands(REARRANGED[name]), torch.randn(2, 3, 4))


@pytest.mark.parametrize("name", NETWORKS)
def test_usual_networks_are_reported(name):
    torch.manual_seed(2)
    module, arrays = NETWORKS[name]
    found = same(module().eval(), *arrays())
    assert len(found.results) == len(found.outputs) and abs(sum(node.share for node in found.nodes) - 1) < 1e-9
    assert ElementTree.fromstring(found.svg()).tag.endswith("svg")


def test_a_loss_between_views_is_named():
    def variance(self, x):
        x = (x * 1.1).transpose(1, 2)
        return ((x * x).mean(1) - x.mean(1) ** 2).reshape(-1, 2).exp()

    found = hipdnn.numerics(Operands(variance), 300 + torch.rand(4, 8, 1024))
    assert found.culprit is not None and found.culprit.name == "sub", str(found)
    assert found.culprit.reasons[0].startswith("cancellation: ")
    # The error of the product before the transpose reaches the result, which alone is one.
    assert found.nodes[0].name == "mul" and found.nodes[0].share > 0 and len(found.results) == 1
    assert [row["name"] for row in json.loads(found.to_json())["rows"]] == [node.name for node in found.nodes]


def test_views_lead_to_their_readers_in_the_picture():
    found = hipdnn.numerics(Operands(lambda self, x: (2 * x).t().exp()), torch.randn(3, 4))
    text = "".join(ElementTree.fromstring(found.svg()).itertext())
    # The transpose's tensor has no producer; its reader is joined to what it is made of.
    assert "mul" in text and "exp" in text and "4 x 3" not in text


def test_a_module_without_a_node_is_refused():
    with pytest.raises(hipdnn.GraphError, match="has none, expected at least one operation"):
        hipdnn.numerics(Operands(lambda self, x: x.mT), torch.randn(2, 3))


def test_values_of_a_graph_are_those_of_its_plan():
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3], name="x")
    y = graph.exp(x).set_output(True)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = graph.numerics({x: values})
    np.testing.assert_allclose(np.frombuffer(found.values[y.uid]), np.exp(values).reshape(-1), rtol=1e-6)
