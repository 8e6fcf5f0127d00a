"""Tensors without elements: nothing is computed for them, and empty sums are what NumPy, PyTorch and ONNX define."""

from __future__ import annotations

import hipdnn
import numpy as np
import pytest

F32 = np.float32


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3, 4), (2, 0, 5, 5)])
def test_nothing_becomes_nothing(shape):
    with hipdnn.Graph() as graph:
        x = graph.tensor(shape)
        graph.relu(graph.add(x, graph.tensor((1,) * len(shape))))
    result = graph(np.zeros(shape, F32), np.ones((1,) * len(shape), F32))
    assert result.shape == shape and result.dtype == F32
    assert graph.engine == "" and graph.get_workspace_size() == 0 and graph.explain() == [] and graph.engines() == []
    # Arrays are still checked.
    with pytest.raises(hipdnn.ArrayError, match="has the shape"):
        graph(np.zeros((*shape, 2), F32), np.ones((1,) * len(shape), F32))
    with pytest.raises(hipdnn.ArrayError, match="no array"):
        graph.execute({x: np.zeros(shape, F32)})


@pytest.mark.parametrize("m, n, k", [(2, 3, 0), (0, 3, 4), (2, 0, 4), (0, 0, 0), (2, 0, 0)])
def test_products(m, n, k):
    a, b = np.ones((2, m, k), F32), np.ones((2, k, n), F32)
    with hipdnn.Graph() as graph:
        graph.matmul(graph.tensor_like(a), graph.tensor_like(b))
    np.testing.assert_array_equal(graph(a, b), a @ b)


def test_what_follows_a_product_of_nothing_is_computed():
    a, b, bias = np.ones((1, 2, 0), F32), np.ones((1, 0, 3), F32), np.arange(3, dtype=F32).reshape(1, 1, 3) - 1
    with hipdnn.Graph() as graph:
        product = graph.matmul(graph.tensor_like(a), graph.tensor_like(b))
        graph.relu(graph.add(product, graph.tensor_like(bias)))
    np.testing.assert_array_equal(graph(a, b, bias), np.maximum(a @ b + bias, 0))
    assert graph.engine


REDUCED = {
    "ADD": 0.0, "MUL": 1.0, "AVG": np.nan, "NORM1": 0.0, "NORM2": 0.0, "AMAX": 0.0, "MUL_NO_ZEROS": 1.0,
    "MIN": np.inf, "MAX": -np.inf,
}  # fmt: skip


@pytest.mark.parametrize("mode", REDUCED)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_reductions(mode, kind):
    x = np.zeros((3, 0, 2), kind)
    with hipdnn.Graph() as graph:
        graph.reduction(graph.tensor_like(x), hipdnn.reduction_mode[mode], axis=1)
    np.testing.assert_array_equal(graph(x), np.full((3, 1, 2), REDUCED[mode], kind))
    with hipdnn.Graph() as graph:
        graph.reduction(graph.tensor_like(x), hipdnn.reduction_mode[mode], axis=0)
    assert graph(x).shape == (1, 0, 2)


def test_reductions_are_numpys():
    x = np.zeros((3, 0), F32)
    for mode, of in (("ADD", np.sum), ("MUL", np.prod), ("NORM2", np.linalg.norm)):
        with hipdnn.Graph() as graph:
            graph.reduction(graph.tensor_like(x), hipdnn.reduction_mode[mode], axis=1)
        np.testing.assert_array_equal(graph(x)[:, 0], of(x, axis=1))


@pytest.mark.parametrize("n, c, k", [(0, 2, 3), (1, 0, 3), (1, 2, 0), (0, 0, 0)])
def test_convolutions(n, c, k):
    x, w = np.ones((n, c, 5, 5), F32), np.ones((k, c, 3, 3), F32)
    dy = np.ones((n, k, 3, 3), F32)
    with hipdnn.Graph() as forward:
        forward.conv_fprop(forward.tensor_like(x), forward.tensor_like(w))
    np.testing.assert_array_equal(forward(x, w), np.full((n, k, 3, 3), 9.0 * c, F32))
    with hipdnn.Graph() as data:
        data.conv_dgrad(data.tensor_like(dy), data.tensor_like(w))
    assert data(dy, w).shape == x.shape and (k or not data(dy, w).any())
    with hipdnn.Graph() as weights:
        weights.conv_wgrad(weights.tensor_like(x), weights.tensor_like(dy))
    assert weights(x, dy).shape == w.shape and (n or not weights(x, dy).any())


def test_norms():
    x, scale = np.zeros((0, 4, 8), F32), np.ones((1, 1, 8), F32)
    graph = hipdnn.Graph()
    a, s, b, dy = graph.tensor_like(x), graph.tensor_like(scale), graph.tensor_like(scale), graph.tensor_like(x)
    y, mean, inv = graph.layernorm(hipdnn.norm_forward_phase.TRAINING, a, s, b)
    dx, dscale, dbias = graph.layernorm_backward(dy, a, s, mean, inv)
    for tensor in (y, mean, inv, dx, dscale, dbias):
        tensor.set_output(True)
    results = graph(x, scale, scale, x)
    assert [r.shape for r in results] == [(0, 4, 8), (0, 4, 1), (0, 4, 1), (0, 4, 8), (1, 1, 8), (1, 1, 8)]
    assert not results[4].any() and not results[5].any()
    # Tensors without elements have no statistics.
    graph = hipdnn.Graph()
    graph.batchnorm(graph.tensor((0, 3, 4, 4)), graph.tensor((1, 3, 1, 1)), graph.tensor((1, 3, 1, 1)))[1].set_output(
        True
    )
    with pytest.raises(hipdnn.GraphError, match="x: has no elements, and mean has some"):
        graph.build()


def test_attention_to_nothing():
    q, k = np.ones((1, 2, 3, 4), F32), np.ones((1, 2, 0, 4), F32)
    with hipdnn.Graph() as graph:
        graph.sdpa(graph.tensor_like(q), graph.tensor_like(k), graph.tensor_like(k))[0].set_output(True)
    np.testing.assert_array_equal(graph(q, k, k), np.zeros((1, 2, 3, 4), F32))


def test_plans_of_nothing_have_no_bytes():
    with hipdnn.Graph() as graph:
        graph.neg(graph.tensor((0,)))
    with pytest.raises(hipdnn.Error, match="nothing to compute"):
        graph.save()


def test_other_libraries_have_empty_arrays():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    x = torch.zeros(2, 0)
    with hipdnn.Graph() as graph:
        graph.reduction(graph.tensor_like(x), hipdnn.reduction_mode.ADD, axis=1)
    assert graph(x).equal(torch.zeros(2, 1)) and graph(x).equal(x.sum(1, keepdim=True))
