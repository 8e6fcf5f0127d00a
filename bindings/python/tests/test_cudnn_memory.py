"""Arrays as memory, as in programs for cuDNN: `pygraph` uses only an array's address and how far it reaches."""

from __future__ import annotations

import hipdnn as cudnn
import numpy as np
import pytest

F32 = np.float32
B, H, S, D = 3, 2, 6, 8
LENGTHS = np.array([4, 6, 1], np.int32)
#: Strides of tokens [token, head, number], without a batch stride.
STRIDES = (H * D, D, H * D, 1)


def added(**options):
    graph = cudnn.pygraph(io_data_type="float", **options)
    a, b = graph.tensor([2, 3], name="a"), graph.tensor([2, 3], name="b")
    return graph, a, b, graph.add(a, b).set_output(True).set_name("c")


def test_arrays_of_other_shapes_are_memory():
    graph, a, b, c = added()
    first, second = np.arange(6, dtype=F32), np.arange(12, dtype=F32).reshape(3, 4)
    result = np.full((3, 3, 1), -1, F32)
    graph.execute({a: first, b: second, c: result})
    np.testing.assert_array_equal(result.ravel(), [*range(0, 12, 2), -1, -1, -1])
    # Any type with elements as large, too: the tensor's type interprets the bytes.
    graph.execute({a: first.view(np.int32), b: second, c: result.view(np.int32)})
    np.testing.assert_array_equal(result.ravel()[:6], range(0, 12, 2))


@pytest.mark.parametrize(
    "wrong, text",
    [(np.zeros(5, F32), "has 5 elements from its first on.*expected 6"), (np.zeros((2, 2), F32), "expected 6"),
     (np.zeros(6, np.float16), "type half, expected float or one as large"), (np.zeros(12, F32)[::-1], "expected 6")],
)  # fmt: skip
def test_arrays_that_do_not_reach_as_far_are_told(wrong, text):
    graph, a, b, c = added()
    right = np.ones((2, 3), F32)
    for arrays in ({a: wrong, b: right, c: right}, {a: right, b: right, c: wrong}):
        with pytest.raises(cudnn.ArrayError, match=text):
            graph.execute(arrays)
    frozen = np.zeros(6, F32)
    frozen.flags.writeable = False
    with pytest.raises(cudnn.ArrayError, match="read-only"):
        graph.execute({a: right, b: right, c: frozen})


def test_graphs_of_our_own_programs_compare_shapes():
    graph = cudnn.Graph()
    x = graph.tensor([2, 3])
    y = graph.neg(x).set_output(True)
    with pytest.raises(cudnn.ArrayError, match="expected \\[2, 3\\]"):
        graph.execute({x: np.zeros(6, F32), y: np.zeros(6, F32)})


def test_results_lie_as_their_arrays_do_unless_strides_were_given():
    x = np.arange(24, dtype=F32).reshape(1, 2, 3, 4)
    graph = cudnn.pygraph(io_data_type="float")
    a = graph.tensor_like(x)
    free, fixed = graph.neg(a).set_output(True), graph.neg(a).set_output(True).set_stride([24, 1, 8, 2])
    wide, packed = np.zeros((1, 2, 3, 8), F32), np.zeros_like(x)
    graph.execute({a: x, free: wide[..., ::2], fixed: packed})
    np.testing.assert_array_equal(wide[..., ::2], -x)
    assert (wide[..., 1::2] == 0).all()
    np.testing.assert_array_equal(packed.ravel(), -x.transpose(0, 2, 3, 1).ravel())


def test_arrays_that_no_node_needs_are_left_out():
    graph, a, b, c = added()
    unused, ones = graph.tensor([1, 1]), np.ones((2, 3), F32)
    result = np.zeros((2, 3), F32)
    graph.execute({a: ones, b: ones, c: result, unused: np.zeros((1, 1), F32), 99: ones})
    assert (result == 2).all()


def sequences(limit=S):
    """Attention on ragged sequences, and what an execution binds."""
    graph = cudnn.pygraph(io_data_type="float", intermediate_data_type="float", compute_data_type="float")
    first = graph.tensor([B + 1, 1, 1, 1], data_type="int64")
    lengths = graph.tensor([B, 1, 1, 1], data_type="int32")
    operands = [graph.tensor([B, H, limit, D], STRIDES, ragged_offset=first) for _ in range(3)]
    o, _ = graph.sdpa(*operands, attn_scale=0.3, use_padding_mask=True, seq_len_q=lengths, seq_len_kv=lengths)
    o.set_output(True).set_dim([B, H, limit, D]).set_stride(STRIDES).set_ragged_offset(first)
    tokens = [np.random.default_rng(at).uniform(-1, 1, (LENGTHS.sum(), H, D)).astype(F32) for at in range(3)]
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64) * H * D
    result = np.zeros((LENGTHS.sum(), H, D), F32)
    return graph, {first: offsets, lengths: LENGTHS, o: result, **dict(zip(operands, tokens))}, tokens, result


def attention(tokens):
    for end, length in zip(np.cumsum(LENGTHS), LENGTHS):
        q, k, v = (of[end - length : end].astype(float) for of in tokens)
        powers = np.exp(np.einsum("qhd,khd->hqk", q, k) * 0.3)
        yield from np.einsum("hqk,khd->qhd", powers / powers.sum(-1, keepdims=True), v)


def test_tokens_need_no_stride_of_the_batch():
    graph, arrays, tokens, result = sequences()
    graph.execute(arrays)
    np.testing.assert_allclose(result, list(attention(tokens)), atol=1e-5)


def test_overrides_are_those_of_arrays():
    graph, arrays, tokens, result = sequences(limit=2)
    shapes = [
        (B, H, S, D) if len(tensor.dim) == 4 and tensor.dim[3] == D else array.shape for tensor, array in arrays.items()
    ]
    strides = [tuple(step // array.itemsize for step in array.strides) for array in arrays.values()]
    uids = [tensor.get_uid() for tensor in arrays]
    graph.execute(arrays, override_uids=uids, override_shapes=shapes, override_strides=strides)
    np.testing.assert_allclose(result, list(attention(tokens)), atol=1e-5)
    with pytest.raises(cudnn.GraphError, match="as many sizes and strides"):
        graph.execute(arrays, override_uids=uids[:1], override_shapes=[(1,) * 5], override_strides=[(1,) * 5])


def test_offsets_that_lead_beyond_the_tokens_are_told():
    graph, arrays, tokens, _ = sequences()
    first = next(tensor for tensor in arrays if tensor.dim == (B + 1, 1, 1, 1))
    arrays[first] = arrays[first] + H * D
    with pytest.raises(cudnn.ArrayError, match="expected 192"):
        graph.execute(arrays)


def gradients(lengths=None, **options):
    """The gradients of attention with a sink, by the graph and by formulas."""
    random = np.random.default_rng(3)
    q, k, v, do = (random.standard_normal((2, 3, 4, D)) for _ in range(4))
    sink = np.linspace(-1, 1, 3).reshape(1, 3, 1, 1)
    scores = np.einsum("bhid,bhjd->bhij", q, k) * 0.5
    inside = np.ones((2, 1, 4), bool) if lengths is None else np.arange(4) < lengths.reshape(2, 1, 1)
    scores = np.where(inside[:, :, None], scores, -np.inf)
    stats = np.log(np.exp(scores).sum(-1, keepdims=True) + np.exp(sink))
    p = np.exp(scores - stats)
    o = p @ v
    do = do * inside[..., None]
    inner = (do * o).sum(-1, keepdims=True)
    ds = p * (np.einsum("bhid,bhjd->bhij", do, v) - inner) * 0.5
    wanted = [ds @ k, ds.transpose(0, 1, 3, 2) @ q, -(np.exp(sink - stats) * inner).sum((0, 2), keepdims=True)]
    graph = cudnn.pygraph(io_data_type="float", intermediate_data_type="float", compute_data_type="float")
    # Values beyond the lengths are arbitrary.
    garbage = np.where(inside[..., None], 0, np.nan)
    arrays = [of.astype(F32) for of in (q, k, v, o + garbage, do + garbage, stats + garbage)]
    tensors = [graph.tensor_like(array) for array in arrays]
    token, gradient = graph.tensor_like(sink.astype(F32)), graph.tensor([1, 3, 1, 1])
    bound = dict(zip(tensors, arrays))
    if lengths is not None:
        size = graph.tensor_like(lengths)
        bound[size] = lengths
        options.update(use_padding_mask=True, seq_len_q=size, seq_len_kv=size)
    made = graph.sdpa_backward(*tensors, attn_scale=0.5, sink_token=token, dSink_token=gradient, **options)
    results = [np.zeros_like(q, F32) for _ in made] + [np.zeros((1, 3, 1, 1), F32)]
    bound.update(zip((*(tensor.set_output(True) for tensor in made), gradient), results))
    graph.execute({**bound, token: sink.astype(F32)})
    rows = inside[..., None]
    return graph, [(results[0] * rows, wanted[0] * rows), (results[1], wanted[1]), (results[3], wanted[2])]


@pytest.mark.parametrize("lengths", [None, np.array([2, 4], np.int32).reshape(2, 1, 1, 1)], ids=["all", "lengths"])
def test_sinks_have_a_gradient(lengths):
    for found, wanted in gradients(lengths)[1]:
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_gradients_are_deterministic_where_that_is_asked():
    plain, asked = (gradients(use_deterministic_algorithm=of)[0] for of in (False, True))
    knobs = [graph._settled(graph._native_graph(graph.to_json()), graph.plan.engine_id) for graph in (plain, asked)]
    assert knobs == [[], [("deterministic", 1)]] and plain.plan is not asked.plan


@pytest.mark.parametrize(
    "options, text",
    [({"use_alibi_mask": True}, "use_alibi_mask"), ({"diagonal_band_left_bound": 2}, "diagonal_band_left_bound"),
     ({"sliding_window_length": 2, "diagonal_band_right_bound": 0}, "diagonal_band_left_bound"),
     ({"use_causal_mask_bottom_right": True}, "diagonal_alignment")],
)  # fmt: skip
def test_validation_refuses_what_cudnn_refuses(options, text):
    graph = cudnn.pygraph(io_data_type="float")
    graph.sdpa(graph.tensor([1, 2, 6, 8]), graph.tensor([1, 2, 4, 8]), graph.tensor([1, 2, 4, 8]), **options)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match=text):
        graph.validate()
