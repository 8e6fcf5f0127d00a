"""Quantized networks."""

import hipdnn
import numpy as np
import pytest
from hipdnn.quantization import RECIPES, Recipe
from hipdnn.quantization.observe import rounded, scales

F32 = np.float32


def network(rng, channels_last=False):
    """Two convolutions and a matmul, with their weights, an input and NumPy's result."""
    graph = hipdnn.Graph("net")
    x = graph.tensor([2, 3, 8, 8], name="x")
    w1, b1 = graph.tensor([8, 3, 3, 3], name="w1"), graph.tensor([1, 8, 1, 1], name="b1")
    w2 = graph.tensor([4, 8, 1, 1], name="w2")
    hidden = graph.relu(graph.add(graph.conv_fprop(x, w1, padding=[1, 1], name="first"), b1))
    graph.conv_fprop(hidden, w2, name="second").set_output(True)
    arrays = {
        w1: rng.standard_normal((8, 3, 3, 3)).astype(F32) * np.geomspace(0.1, 10, 8, dtype=F32).reshape(8, 1, 1, 1),
        b1: rng.standard_normal((1, 8, 1, 1)).astype(F32),
        w2: rng.standard_normal((4, 8, 1, 1)).astype(F32),
    }
    samples = [rng.standard_normal((2, 3, 8, 8)).astype(F32) for _ in range(3)]
    return graph, arrays, samples


def whole(graph, arrays, sample):
    """The network's result in single precision."""
    y = np.empty((2, 4, 8, 8), F32)
    x = next(tensor for tensor in graph.tensors if tensor.name == "x")
    graph.execute({**arrays, x: sample, graph._outputs[0]: y})
    return y


def decibels(right, found):
    return 10 * np.log10((right.astype(float) ** 2).sum() / ((found.astype(float) - right) ** 2).sum())


@pytest.mark.parametrize(
    "recipe, least", [("int8", 30), ("int8-percentile", 30), ("int8-mse", 30), ("int8-per-tensor", 20), ("fp8", 22)]
)
def test_layers_are_quantized_and_the_error_is_that_of_the_bits(recipe, least):
    if recipe == "fp8":
        pytest.importorskip("ml_dtypes")
    graph, arrays, samples = network(np.random.default_rng(1))
    quantized = hipdnn.quantize(graph, samples, recipe, weights=arrays)
    assert [layer.name for layer in quantized.layers] == ["first", "second"]
    right = whole(graph, arrays, samples[0])
    assert decibels(right, quantized(samples[0])) > least
    assert all(layer.sqnr > least and layer.alone >= layer.sqnr - 3 for layer in quantized.layers)
    kinds = [tensor.data_type for tensor in quantized.constants]
    assert kinds.count(RECIPES[recipe].weights) == 2
    for text in ("first", "second", "ConvolutionFwd", "DB"):
        assert text in quantized.table()
    assert quantized.svg().startswith("<svg") and quantized.svg().count("<rect") == 5


def test_channels_of_different_sizes_need_scales_of_their_own():
    rng = np.random.default_rng(2)
    graph = hipdnn.Graph()
    x, w = graph.tensor([4, 16]), graph.tensor([16, 2])
    graph.matmul(x, w).set_output(True)
    sample, weights = (
        rng.standard_normal((4, 16)).astype(F32),
        rng.standard_normal((16, 2)).astype(F32) * np.array([0.02, 1], F32),
    )
    right = sample @ weights
    found = {
        recipe: decibels(right[:, 0], hipdnn.quantize(graph, [sample], recipe, weights={w: weights})(sample)[:, 0])
        for recipe in ("int8", "int8-per-tensor")
    }
    assert found["int8"] > 30 and found["int8-per-tensor"] < 25


def test_integers_are_those_of_the_formula():
    """The graph computes exactly the result of rounding, integer sums and scaling."""
    rng = np.random.default_rng(3)
    graph = hipdnn.Graph()
    x, w = graph.tensor([4, 16], name="x"), graph.tensor([16, 8], name="w")
    graph.matmul(x, w, name="product").set_output(True)
    weights, samples = (
        rng.standard_normal((16, 8)).astype(F32),
        [rng.standard_normal((4, 16)).astype(F32) for _ in range(2)],
    )
    quantized = hipdnn.quantize(graph, samples, "int8", weights={w: weights})
    scale_x = F32(max(np.abs(sample).max() for sample in samples) / 127)
    scale_w = np.abs(weights).max(axis=0, keepdims=True) / F32(127)
    outside = samples[0] * 3
    for sample in (samples[1], outside):
        qx = np.clip(np.floor(sample * F32(1 / float(scale_x)) + F32(0.5)), -128, 127)
        qw = np.floor(weights / scale_w + F32(0.5))
        assert np.allclose(quantized(sample), (qx @ qw) * (scale_x * scale_w), rtol=1e-6)


def test_weights_of_four_bits_have_a_scale_for_each_group():
    pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(4)
    graph = hipdnn.Graph()
    x, w = graph.tensor([4, 64], name="x"), graph.tensor([64, 16], name="w")
    graph.matmul(x, w, name="product").set_output(True)
    weights = rng.standard_normal((64, 16)).astype(F32) * np.repeat(np.array([[0.01], [1]], F32), 32, axis=0)
    sample = rng.standard_normal((4, 64)).astype(F32)
    quantized = hipdnn.quantize(graph, [sample], "int4-weights", weights={w: weights})
    assert decibels(sample @ weights, quantized(sample)) > 15
    assert sorted(np.asarray(array).shape for array in quantized.constants.values()) == [(2, 16), (512,)]


def test_observers_find_other_ranges():
    values = np.append(np.random.default_rng(5).standard_normal(10_000).astype(F32), F32(100))
    found = {
        name: float(
            scales(
                np,
                values,
                hipdnn.data_type.INT8,
                Recipe("r", hipdnn.data_type.INT8, hipdnn.data_type.INT8, observer=name),
                (0,),
            )[0]
        )
        for name in ("min-max", "percentile", "mse")
    }
    assert found["min-max"] == pytest.approx(100 / 127)
    assert found["percentile"] < 0.1 * found["min-max"]
    # Neither one extreme nor the other.
    error = {
        name: float(((rounded(np, values, scale, hipdnn.data_type.INT8) * scale - values) ** 2).mean())
        for name, scale in found.items()
    }
    assert error["mse"] <= min(error.values()) * 1.0001


def test_what_cannot_be_quantized_is_named():
    graph, arrays, samples = network(np.random.default_rng(6))
    first = next(iter(arrays))
    for changes, words in (
        ({"recipe": "int7"}, "the recipe is 'int7', expected a Recipe or one of int8"),
        ({"weights": {}}, "no layer can be quantized"),
        ({"samples": []}, "there are no samples"),
        ({"samples": [(samples[0], samples[0])]}, "a sample has 2 arrays, expected 1"),
        ({"layers": ["third"]}, "layers has ['third'], expected some of"),
        ({"weights": {**arrays, hipdnn.Graph().tensor([1]): np.ones(1, F32)}}, "expected inputs of the graph"),
    ):
        arguments = {"samples": samples, "recipe": "int8", "weights": arrays, **changes}
        with pytest.raises(hipdnn.ArgumentError) as raised:
            hipdnn.quantize(graph, arguments.pop("samples"), arguments.pop("recipe"), **arguments)
        assert words in str(raised.value)
    with pytest.raises(hipdnn.ArgumentError, match="expected a Graph or a torch.nn.Module"):
        hipdnn.quantize(object(), samples)
    with pytest.raises(hipdnn.ArgumentError, match="percentile is 2"):
        RECIPES["int8"].replace(percentile=2)
    only = hipdnn.quantize(graph, samples, weights=arrays, layers=["second"])
    assert [layer.name for layer in only.layers] == ["second"] and first.name in {t.name for t in only.constants}


def test_modules_of_pytorch_are_taken_apart():
    torch = pytest.importorskip("torch")
    torch.manual_seed(7)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.last = torch.nn.Linear(8 * 4 * 4, 10)

        def forward(self, x):
            x = torch.relu(self.norm(self.conv(x)))
            return self.last(torch.flatten(torch.max_pool2d(x, 2), 1))

    module = Net().eval()
    module.norm.running_mean.uniform_(-1, 1)
    samples = [torch.randn(5, 1, 8, 8) for _ in range(3)]
    quantized = hipdnn.quantize(module, samples, "int8")
    assert len(quantized.layers) == 2
    right = module(samples[0]).detach().numpy()
    found = quantized(samples[0])
    assert found.shape == right.shape == (5, 10)
    assert decibels(right, found) > 25

    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.sort(x)[0]

    with pytest.raises(hipdnn.UnsupportedError, match="sort"):
        hipdnn.quantize(Odd(), samples)
