"""Modules that rearrange elements between nodes: ``hipdnn.numerics`` computes what PyTorch does, and names their nodes."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import hipdnn
import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from test_exported import Operands, same  # noqa: E402

FORMULAS = {
    "view": lambda self, x: (2 * x).view(2, -1).exp() + (x + 1).reshape(2, 12) + x.flatten(1),
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


class Attention(nn.Module):
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
    "attention": (Attention, lambda: [torch.randn(2, 5, 16), torch.randn(2, 7, 16)]),
    "decoder": (lambda: nn.TransformerDecoderLayer(16, 4, 32), lambda: [torch.randn(5, 2, 16), torch.randn(7, 2, 16)]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_rearranged_elements_are_those_of_pytorch(name):
    torch.manual_seed(1)
    same(Operands(FORMULAS[name]), torch.randn(2, 3, 4))


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
