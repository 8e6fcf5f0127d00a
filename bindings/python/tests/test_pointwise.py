"""Every operation on each element, against NumPy."""

from __future__ import annotations

import hipdnn
import numpy as np
import pytest
from elements import BACKWARD, BINARY, POSITIVE, UNARY

sigmoid = lambda x: 1 / (1 + np.exp(-x))
softplus = lambda x, beta=1.0: np.log1p(np.exp(beta * x)) / beta
swish = lambda x, beta=1.0: x * sigmoid(beta * x)
elu = lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x))
relu = lambda x, slope=0.0, low=0.0, high=np.inf: np.where(x < low, low + slope * (x - low), np.minimum(x, high))


def slope(f):
    """The derivative, by a central difference in double precision."""
    return lambda x: (f(x + 1e-6) - f(x - 1e-6)) / 2e-6


TOLERANCES = {np.float32: 2e-5, np.float16: 4e-3, np.float64: 1e-6}


def check(got, wanted, dtype):
    np.testing.assert_allclose(got.astype(float), wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


def run(method, arrays, *more, **named):
    with hipdnn.Graph() as graph:
        tensors = [graph.tensor_like(array) for array in arrays]
        getattr(graph, method)(*tensors, *more, **named)
    return graph(*arrays)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("method", UNARY)
def test_of_one_operand(method, dtype, random):
    x = random.uniform(-2, 2, (2, 3, 4, 5)).astype(dtype)
    if method in POSITIVE:
        x = np.abs(x) + dtype(0.1)
    check(run(method, [x]), UNARY[method](x.astype(float)), dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("method", BINARY)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 1, 1)])
def test_of_two_operands(method, shape, dtype, random):
    a = random.uniform(-2, 2, (2, 3, 4, 5)).astype(dtype)
    b = random.uniform(0.5, 2, shape).astype(dtype)
    a.flat[0] = b.flat[0]
    check(run(method, [a, b]), BINARY[method](a.astype(float), b.astype(float)), dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("method", BACKWARD)
def test_gradients(method, dtype, random):
    dy = random.uniform(-2, 2, (2, 3, 4)).astype(dtype)
    x = random.uniform(-2, 2, (2, 3, 4)).astype(dtype)
    x[np.abs(x) < 0.05] = 0.5
    check(run(method, [dy, x]), BACKWARD[method](dy.astype(float), x.astype(float)), dtype)


@pytest.mark.parametrize(
    "method, numbers, wanted",
    [
        ("relu", {"negative_slope": 0.1, "lower_clip": 0.5, "upper_clip": 1.5}, lambda x: relu(x, 0.1, 0.5, 1.5)),
        ("leaky_relu", {"negative_slope": 0.2}, lambda x: relu(x, 0.2)),
        ("elu", {"alpha": 0.5}, lambda x: elu(x, 0.5)),
        ("softplus", {"beta": 2.0}, lambda x: softplus(x, 2.0)),
        ("swish", {"swish_beta": 1.5}, lambda x: swish(x, 1.5)),
    ],
)
def test_numbers_of_activations(method, numbers, wanted, random):
    x = random.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
    check(run(method, [x], **numbers), wanted(x.astype(float)), np.float32)


@pytest.mark.parametrize(
    "method, of, number", [("elu", elu, "alpha"), ("softplus", softplus, "beta"), ("swish", swish, "swish_beta")]
)
def test_numbers_of_gradients(method, of, number, random):
    dy, x = (random.uniform(-2, 2, (2, 3, 4)).astype(np.float32) for _ in range(2))
    wanted = dy.astype(float) * slope(lambda x: of(x, 1.5))(x.astype(float))
    check(run(f"{method}_backward", [dy, x], **{number: 1.5}), wanted, np.float32)


def test_selection_and_index(random):
    a, b, mask = (random.integers(0, 2, (2, 3)).astype(np.float32) for _ in range(3))
    np.testing.assert_array_equal(run("binary_select", [a, b, mask]), np.where(mask != 0, a, b))
    np.testing.assert_array_equal(run("gen_index", [a], 1), [[0, 1, 2], [0, 1, 2]])


def test_a_number_is_an_operand(random):
    x = random.uniform(-2, 2, (2, 3)).astype(np.float32)
    with hipdnn.Graph() as graph:
        graph.mul(graph.add(graph.tensor_like(x), 1.5), 2.0)
    np.testing.assert_allclose(graph(x), (x + 1.5) * 2)


def test_channels_last_stays_channels_last(random):
    x = random.uniform(-2, 2, (2, 4, 5, 3)).astype(np.float32).transpose(0, 3, 1, 2)
    result = run("relu", [x])
    assert result.strides == x.strides
    np.testing.assert_array_equal(result, np.maximum(x, 0))


def test_numbers_are_as_exact_as_the_graph_computes():
    x = np.array([[1.0, 3.0, 7.0]])
    with hipdnn.Graph() as double:
        double.mul(double.tensor_like(x), 0.1)
    np.testing.assert_array_equal(double(x), x * 0.1)
    with hipdnn.Graph() as mixed:
        mixed.mul(mixed.tensor_like(x.astype(np.float32)), 0.1, compute_data_type="double").set_data_type("double")
    np.testing.assert_array_equal(mixed(x.astype(np.float32)), x * 0.1)
    with hipdnn.Graph() as single:
        single.mul(single.tensor_like(x.astype(np.float32)), 0.1)
    np.testing.assert_array_equal(single(x.astype(np.float32)), x.astype(np.float32) * np.float32(0.1))
    ones = np.ones((1, 3))
    with hipdnn.Graph() as norm:
        norm.rmsnorm(hipdnn.norm_forward_phase.INFERENCE, *(norm.tensor_like(a) for a in (x, ones)), epsilon=0.1)
    np.testing.assert_allclose(norm(x, ones), x / np.sqrt((x * x).mean() + 0.1), rtol=1e-14)
