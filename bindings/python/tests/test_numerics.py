"""``graph.numerics``: which node of a graph loses digits."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import hipdnn
import numpy as np
import pytest
from hipdnn import ArrayError, GraphError, data_type, reduction_mode

F32 = np.float32


def cast_too_early():
    """A sum that is stored as bfloat16 before another sum."""
    graph = hipdnn.Graph("cast")
    x, w = graph.tensor([4, 32], name="x"), graph.tensor([4, 32], name="w")
    narrow = graph.mul(x, w, name="narrow").set_data_type("bfloat16")
    return graph, x, w, graph.add(narrow, w, name="sum").set_output(True)


def variance_cancels():
    """The mean of squares less the square of the mean."""
    graph = hipdnn.Graph("variance")
    x = graph.tensor([8, 1024], name="x")
    mean = lambda of, name: graph.reduction(of, reduction_mode.AVG, axis=1, name=name)  # noqa: E731
    squares = mean(graph.mul(x, x, name="squares"), "mean_of_squares")
    of_mean = mean(x, "mean")
    square = graph.mul(of_mean, of_mean, name="square_of_mean")
    graph.sub(squares, square, name="variance").set_output(True)
    return graph, x


def half_sum():
    """A sum of a thousand terms that is stored as half before it is scaled."""
    graph = hipdnn.Graph("sum")
    x = graph.tensor([4, 1024], name="x")
    partial = graph.reduction(x, reduction_mode.ADD, axis=1, name="partial").set_data_type("half")
    graph.mul(partial, graph.tensor([4, 1], name="s"), name="scaled").set_output(True)
    return graph


def softmax_overflows():
    """Exponentials without the maximum taken off first."""
    graph = hipdnn.Graph("softmax")
    x = graph.tensor([2, 64], name="x")
    terms = graph.exp(x, name="exponentials").set_data_type("half")
    total = graph.reduction(terms, reduction_mode.ADD, axis=1, name="total")
    graph.div(terms, total, name="probabilities").set_output(True)
    return graph, x


def epsilon_is_lost():
    """A variance of 0 with an epsilon that half lacks."""
    graph = hipdnn.Graph("epsilon")
    variance = graph.tensor([4, 1], data_type="half", name="variance")
    epsilon = graph.tensor([1, 1], data_type="float", is_pass_by_value=True, name="epsilon")
    kept = graph.add(variance, epsilon, name="with_epsilon").set_data_type("half")
    graph.rsqrt(kept, name="inverse").set_output(True)
    return graph, variance, epsilon


def losses():
    graph, *_ = cast_too_early()
    yield graph, {}, "narrow", "cast too early: "
    graph, x = variance_cancels()
    values = 300 + np.arange(8 * 1024, dtype=F32).reshape(8, 1024) * 37 % 101 / 101
    yield graph, {x: values.astype(F32)}, "variance", "cancellation: "
    yield half_sum(), {}, "partial", "cast too early: "
    graph, x = softmax_overflows()
    yield graph, {x: np.linspace(0, 15, 128, dtype=F32).reshape(2, 64)}, "exponentials", "overflow: "
    graph, variance, epsilon = epsilon_is_lost()
    variances = np.array([[0], [0.5], [0], [0.25]], np.float16)
    yield graph, {variance: variances, epsilon: 1e-8}, "with_epsilon", "epsilon 1.0e-8 is below "


@pytest.mark.parametrize("graph, arrays, name, reason", [pytest.param(*of, id=of[2]) for of in losses()])
def test_the_node_that_loses_digits_is_named(graph, arrays, name, reason):
    found = graph.numerics(arrays, engine="CPU_ENGINE")
    assert found.culprit is not None and found.culprit.name == name, str(found)
    assert found.culprit.reasons[0].startswith(reason), str(found)
    assert found.culprit.lost > 1 and f'"{name}"' in str(found).strip().splitlines()[-1]


def test_errors_are_measured_on_the_given_arrays(random):
    graph, x, w, y = cast_too_early()
    values = random.uniform(-1, 1, (4, 32)).astype(F32)
    # Powers of two times powers of two: nothing is rounded.
    powers = np.full((4, 32), 2, F32)
    exact = graph.numerics({x: powers, w.uid: powers})
    assert exact.culprit is None and [node.added for node in exact.nodes] == [0, 0]
    assert exact.results[0].relative == 0 and exact.results[0].name == y.name
    rounded = graph.numerics({x: values, w: values}).nodes[0]
    product = values.astype(float) ** 2
    stored = np.frombuffer(
        (((values**2).view(np.uint32) + 0x7FFF + ((values**2).view(np.uint32) >> 16 & 1)) & 0xFFFF0000).tobytes(), F32
    )
    added = np.linalg.norm(stored.reshape(4, 32) - product) / np.linalg.norm(product)
    assert math.isclose(rounded.added, added, rel_tol=1e-6)
    assert rounded.data_type == "bfloat16" and rounded.added < rounded.bound < 8 * rounded.added


def test_other_layouts_and_generated_inputs():
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3, 4], [12, 1, 3], data_type=data_type.HALF, name="x")
    graph.exp(x, name="e").set_output(True)
    values = np.arange(24, dtype=np.float16).reshape(2, 4, 3).transpose(0, 2, 1) / 8
    given = graph.numerics({x: values}).to_json()
    assert given == graph.numerics({x: values}).to_json()
    one, other = graph.numerics(seed=1).to_json(), graph.numerics(seed=2).to_json()
    assert one == graph.numerics(seed=1).to_json() and len({given, one, other}) == 3


def test_a_table_json_and_a_picture():
    graph, *_ = cast_too_early()
    found = graph.numerics()
    rows = json.loads(found.to_json())["rows"]
    assert [row["name"] for row in rows] == ["narrow", "sum"] == [node.name for node in found.nodes]
    assert abs(sum(node.share for node in found.nodes) - 1) < 1e-9
    assert found.engine == graph.engine and str(found).startswith(f"{graph.engine}; results hold 7.2 digits\n\nNODE ")
    assert ElementTree.fromstring(found.svg()).tag.endswith("svg") and found._repr_svg_() == found.svg()
    assert "of the error" in found.svg() and repr(found).startswith("<Numerics of 2 nodes: node 0 ")


def test_infinite_errors_are_numbers():
    graph, x = softmax_overflows()
    found = graph.numerics({x: np.full((2, 64), 20, F32)})
    assert found.nodes[0].infinities == 128 and found.nodes[0].added == math.inf


def test_wrong_arrays_are_refused():
    graph, x, w, y = cast_too_early()
    ones = np.ones((4, 32), F32)
    for arrays, words in [
        ({y: ones}, "the graph writes it"),
        ({x: ones[:, ::2]}, "the shape \\[4, 16\\], expected \\[4, 32\\]"),
        ({x: ones.astype(float)}, "of type double, expected float"),
        ({x: np.asfortranarray(ones)}, "the strides"),
        ({99: ones}, "takes no array"),
        ({"x": ones}, "expected a tensor of the graph or its uid"),
    ]:
        with pytest.raises(ArrayError, match=words):
            graph.numerics(arrays)
    with pytest.raises(GraphError, match="expected a name or an id of"):
        graph.numerics(engine="NONE")
    with pytest.raises(hipdnn.Error, match="has no knob"):
        graph.numerics(engine="CPU_ENGINE", knobs={"none": 1})


def test_a_module_by_way_of_its_export():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    x = torch.rand(8, 16)
    found = hipdnn.numerics(module, x)
    assert [node.operation for node in found.nodes if node.operation == "Matmul"] == ["Matmul"] * 2
    assert found.culprit is None and all(node.added <= (node.bound or math.inf) for node in found.nodes)
    # Values that a weight of 0 multiplies are none: the errors are those of this module's weights.
    with torch.no_grad():
        module[0].weight.zero_()
    assert hipdnn.numerics(module, x).nodes[0].added == 0
