"""Arguments that were accepted silently, and messages that did not help."""

from __future__ import annotations

import os
import subprocess
import sys

import hipdnn
import numpy as np
import pytest
from hipdnn import GraphError

F32 = np.float32


@pytest.mark.parametrize("wrong", [[1.5], "6", b"6", 6, None, [None], ["6"], [np.float32(2)]])
def test_shapes_are_integers(wrong):
    graph = hipdnn.Graph()
    x = graph.tensor([2], name="x")
    for make in (
        lambda: graph.tensor(wrong, name="x"),
        lambda: graph.tensor([1], wrong or 6, name="x"),
        lambda: x.set_dim(wrong),
        lambda: x.set_stride(wrong),
    ):
        with pytest.raises(hipdnn.GraphError, match="tensor 'x': (dim|stride): is .*, expected a sequence of integers"):
            make()
    assert x.get_dim() == [2] and x.get_stride() == [1]
    assert graph.tensor(np.array([2, 3])).get_dim() == [2, 3] and graph.tensor((np.int64(4), True)).get_dim() == [4, 1]


def test_windows_are_integers():
    graph = hipdnn.Graph()
    x, w = graph.tensor([1, 3, 8, 8]), graph.tensor([4, 3, 3, 3])
    for named in ({"padding": [1.5, 1]}, {"stride": "11"}, {"dilation": [1, None]}):
        with pytest.raises(hipdnn.GraphError, match="expected a sequence of integers"):
            graph.conv_fprop(x, w, **named)


@pytest.mark.parametrize("mask", [[False, True, False], False])
def test_masked_arrays_are_told(mask):
    masked = np.ma.MaskedArray(np.ones(3, F32), mask=mask)
    graph = hipdnn.Graph()
    a = graph.tensor([3], name="a")
    b = graph.neg(a).set_output(True).set_name("b")
    y = np.zeros(3, F32)
    for of, name in (({a: masked, b: y}, "a"), ({a: y, b: masked}, "b")):
        with pytest.raises(
            hipdnn.ArrayError, match=f'tensor "{name}": the array is masked, expected one without a mask'
        ):
            graph.execute(of)
    with pytest.raises(hipdnn.ArrayError, match="masked"):
        hipdnn.Graph().tensor_like(masked)
    graph.execute({a: masked.filled(2), b: y})
    assert y.sum() <= -3


@pytest.mark.parametrize("named", [True, False])
def test_unknown_knobs_are_told(named):
    graph = hipdnn.Graph()
    graph.matmul(graph.tensor([1, 2, 3]), graph.tensor([1, 3, 2]))
    of = {"engine": "CPU_ENGINE"} if named else {}
    for knobs, words in (
        (
            {"nonsense.knob": 99},
            "build: knobs: has 'nonsense.knob', which CPU_ENGINE lacks, expected some of its knobs: .*threads",
        ),
        ({"x": 1, "threads": 1}, "has 'x', which CPU_ENGINE lacks"),
        ({7: 1}, "has the key 7, expected the name of a knob"),
        ({"threads": [1]}, r"has \[1\] for threads, expected a number or a text"),
        ({"threads": None}, "has None for threads"),
    ):
        with pytest.raises(hipdnn.GraphError, match=words):
            graph.build(knobs=knobs, **of)
    with pytest.raises(hipdnn.Error, match='knob "threads" is -5, expected an integer from 0'):
        graph.build(knobs={"threads": -5}, **of)
    graph.build(knobs={"threads": np.int64(1)}, **of)
    assert graph.engine == "CPU_ENGINE"


def test_what_was_refused_leaves_a_graph_as_it_was():
    graph = hipdnn.Graph()
    a = graph.tensor([3])
    graph.neg(a)
    graph.build(engine="CPU_REFERENCE_ENGINE")
    for wrong in ({"engine": "CPU_ENGINE", "knobs": {"x": 1}}, {"engine": "CUDNN_ENGINE"}, {"device": "cuda"}):
        with pytest.raises(hipdnn.Error):
            graph.build(**wrong)
        assert graph.engine == "CPU_REFERENCE_ENGINE" and graph.plan.device == (1, 0)
        assert graph(np.ones(3, F32)).sum() == -3
    # A refused operation is not added.
    with pytest.raises(hipdnn.GraphError):
        graph.matmul(a, a)
    assert graph(np.ones(3, F32)).sum() == -3


@pytest.mark.parametrize("offset", range(9))
def test_arrays_begin_anywhere_that_their_elements_may(offset):
    graph = hipdnn.Graph()
    a = graph.tensor([6], name="a")
    b = graph.neg(a).set_output(True).set_name("b")
    of_a, of_b = (np.zeros(64, np.uint8)[offset : offset + 24].view(F32) for _ in range(2))
    of_a[:] = np.arange(6)
    whole = np.zeros(6, F32)
    for arrays in ({a: of_a, b: whole}, {a: whole, b: of_b}, {a: of_a, b: of_b}):
        given = {tensor: array for tensor, array in arrays.items() if array.ctypes.data % 4}
        if not given:
            graph.execute(arrays)
            np.testing.assert_array_equal(arrays[b], -arrays[a])
            continue
        name = next(iter(given)).name
        with pytest.raises(
            hipdnn.ArrayError, match=f'"{name}": the array begins at the address 0x.*, expected a multiple of 4'
        ):
            graph.execute(arrays)
    # Bytes may begin anywhere.
    graph = hipdnn.Graph()
    c = graph.tensor([6], data_type="int8")
    d = graph.identity(c).set_output(True).set_data_type("int8")
    of_c, of_d = np.arange(16, dtype=np.int8)[offset : offset + 6], np.zeros(16, np.int8)[offset : offset + 6]
    graph.execute({c: of_c, d: of_d})
    np.testing.assert_array_equal(of_d, of_c)


def test_extended_graphs_hand_out_what_no_node_reads_then():
    graph = hipdnn.Graph()
    y = graph.neg(graph.tensor([3]))
    graph.build()
    graph.abs(y)
    (result,) = [graph(np.ones(3, F32))]
    np.testing.assert_array_equal(result, np.ones(3, F32))


def test_unknown_arguments_are_told_of_the_graphs_method():
    graph = hipdnn.Graph()
    x, w = graph.tensor([1, 3, 8, 8]), graph.tensor([4, 3, 3, 3])
    with pytest.raises(TypeError, match=r"Graph\.conv_fprop\(\).*'pading'"):
        graph.conv_fprop(x, w, pading=[1, 1])


def test_graphs_without_a_name_are_called_the_graph():
    with pytest.raises(GraphError, match="^the graph: nodes: has none"):
        hipdnn.Graph().validate()
    with pytest.raises(GraphError, match="^graph 'empty': nodes: has none"):
        hipdnn.Graph("empty").validate()


def test_a_closed_pipe_ends_the_report_in_silence():
    reader, writer = os.pipe()
    os.close(reader)
    report = subprocess.run([sys.executable, "-m", "hipdnn"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (report.returncode, report.stderr) == (0, b"")
