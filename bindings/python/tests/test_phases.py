"""A program for cuDNN, step by step, with only its import changed."""

from __future__ import annotations

import inspect
import re

import hipdnn as cudnn
import numpy as np
import pytest
from hipdnn import GraphError, NoEngineError


def matmul(size=4):
    graph = cudnn.pygraph(
        io_data_type=cudnn.data_type.FLOAT, intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
    )  # fmt: skip
    a = graph.tensor(name="a", dim=[1, size, size], stride=[size * size, size, 1], data_type=cudnn.data_type.FLOAT)
    b = graph.tensor_like(a)
    c = graph.matmul(name="product", A=a, B=b, compute_data_type=cudnn.data_type.FLOAT)
    y = graph.relu(name="relu", input=c)
    y.set_output(True).set_data_type(cudnn.data_type.FLOAT)
    return graph, a, b, y


def arrays(size=4):
    a = np.arange(size * size, dtype=np.float32).reshape(1, size, size) - 5
    return a, np.ascontiguousarray(np.eye(size, dtype=np.float32)[None]), np.zeros((1, size, size), np.float32)


@pytest.mark.parametrize("policy", cudnn.build_plan_policy)
@pytest.mark.parametrize("modes", [[cudnn.heur_mode.A], [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK]])
def test_step_by_step(modes, policy):
    graph, a, b, y = matmul()
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans(modes)
    graph.check_support()
    graph.build_plans(policy)
    of = arrays()
    workspace = np.empty(graph.get_workspace_size(), np.uint8)
    graph.execute(dict(zip((a, b, y), of)), workspace, handle=None)
    np.testing.assert_array_equal(of[2], np.maximum(of[0], 0))
    assert graph.engine == graph.get_plan_name_at_index(0) == graph.engines()[0]


def test_candidates_are_counted_named_chosen_and_left_out():
    graph, a, b, y = matmul()
    graph.create_execution_plans([cudnn.heur_mode.A])
    names = [graph.get_plan_name_at_index(at) for at in range(graph.get_execution_plan_count())]
    assert names == graph.engines() and len(names) > 1
    graph.build_plan_at_index(1)
    assert graph.engine == names[1]
    assert graph.get_workspace_size_plan_at_index(1) == graph.get_workspace_size()
    for index in range(len(names)):
        of = arrays()
        graph.execute_plan_at_index({a: of[0], b: of[1], y: of[2]}, None, index)
        np.testing.assert_array_equal(of[2], np.maximum(of[0], 0))
    assert graph.engine == names[1]
    graph.deselect_engines([names[0]])
    graph.build_plans()
    assert graph.engine == names[1] and graph.get_execution_plan_count() == len(names) - 1
    graph.deselect_workspace_greater_than(1 << 40)
    assert graph.get_execution_plan_count() == len(names) - 1
    graph.deselect_workspace_greater_than(-1)
    for step in (graph.check_support, graph.build_plans):
        with pytest.raises(GraphError, match="deselected"):
            step()


def test_mistakes_name_the_step():
    graph, *_, y = matmul()
    for step in (graph.check_support, graph.build_plans, graph.get_execution_plan_count):
        with pytest.raises(GraphError, match="expected create_execution_plans before"):
            step()
    for modes in ([], ["A"], [7]):
        with pytest.raises(GraphError, match="heur_mode"):
            graph.create_execution_plans(modes)
    graph.create_execution_plans([cudnn.heur_mode.B])
    of = ", ".join(f"{at} ({graph.get_plan_name_at_index(at)})" for at in range(graph.get_execution_plan_count()))
    for index in (99, -1, 2**40, "0", None):
        words = re.escape(f"index: is {index!r}, expected one of {of}")
        for use in (
            graph.build_plan_at_index, graph.get_plan_name_at_index, graph.get_workspace_size_plan_at_index,
            lambda index: graph.execute_plan_at_index({}, None, index),
        ):  # fmt: skip
            with pytest.raises(GraphError, match=words):
                use(index)
    # Another graph has other candidates.
    y.set_output(True)
    with pytest.raises(GraphError, match="before"):
        graph.check_support()


def test_no_engine_is_told_when_plans_are_created():
    graph = cudnn.pygraph(compute_data_type=cudnn.data_type.INT8)
    graph.erf(graph.tensor([2, 3], data_type=cudnn.data_type.FP8_E8M0))
    with pytest.raises(NoEngineError) as told:
        graph.create_execution_plans([cudnn.heur_mode.A])
    assert set(told.value.reasons) == {engine.name for engine in cudnn.engines()}


def test_arguments_of_attention_are_in_order():
    order = list(inspect.signature(cudnn.Graph.sdpa_backward).parameters)[1:]
    wanted = """q k v o dO stats attn_scale bias dBias use_alibi_mask use_padding_mask seq_len_q seq_len_kv max_total_seq_len_q
    max_total_seq_len_kv use_causal_mask use_causal_mask_bottom_right sliding_window_length diagonal_alignment
    diagonal_band_left_bound diagonal_band_right_bound dropout rng_dump use_deterministic_algorithm compute_data_type name score_mod score_mod_bprop sink_token dSink_token"""
    assert order == wanted.split()


def test_handles_are_made_set_and_destroyed():
    handle = cudnn.create_handle()
    graph = cudnn.pygraph(handle=handle)
    x = graph.tensor([2, 3])
    y = graph.neg(x).set_output(True)
    of = {x: np.ones((2, 3), np.float32), y: np.zeros((2, 3), np.float32)}
    graph.execute(of, handle=handle)
    assert cudnn.get_stream(handle) == 0
    # On the host a stream has no effect, and is never accessed.
    cudnn.set_stream(handle=handle, stream=0x1234)
    assert cudnn.get_stream(handle) == 0x1234 and "0x1234" in repr(handle)
    graph.execute(of, None, handle)
    assert (of[y] == -1).all()
    cudnn.destroy_handle(handle)
    for use in (
        lambda: graph.execute(of), lambda: graph.execute(of, handle=handle), lambda: cudnn.set_stream(handle, 0),
        lambda: cudnn.get_stream(handle), lambda: cudnn.destroy_handle(handle), lambda: cudnn.Graph(handle=handle),
    ):  # fmt: skip
        with pytest.raises(cudnn.Error, match="handle: was destroyed"):
            use()
    graph.execute(of, handle=cudnn.create_handle())


@pytest.mark.parametrize("wrong", [0, 5, "handle", object()])
def test_wrong_handles_are_named(wrong):
    graph, a, b, y = matmul()
    for use in (
        lambda: graph.execute({}, handle=wrong), lambda: cudnn.pygraph(handle=wrong), lambda: cudnn.get_stream(wrong),
        lambda: cudnn.set_stream(wrong, 0), lambda: cudnn.destroy_handle(wrong),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="handle: is .*, expected"):
            use()


@pytest.mark.parametrize("wrong", [None, -1, 1 << 64, 1.5, "0", True])
def test_wrong_streams_are_named(wrong):
    handle = cudnn.create_handle()
    cudnn.set_stream(handle, 7)
    with pytest.raises(TypeError, match="stream: is .*, expected an address"):
        cudnn.set_stream(handle, wrong)
    assert cudnn.get_stream(handle) == 7
