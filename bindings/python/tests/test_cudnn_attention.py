"""Attention as in programs for cuDNN, against NumPy: score functions, pages, eight bits, sinks, sums; and other shapes by threads."""

from __future__ import annotations

import threading

import hipdnn as cudnn
import numpy as np
import pytest

F32 = np.float32
FLOAT = cudnn.data_type.FLOAT


def made(**options):
    return cudnn.pygraph(io_data_type=FLOAT, intermediate_data_type=FLOAT, compute_data_type=FLOAT, **options)


def heads(*shape, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, F32) for _ in range(3)]


def attention(q, k, v, scale=1.0, hidden=None, sink=None):
    """The result, the largest scores, the exponential sums relative to them, and the probabilities."""
    scores = np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float)) * scale
    scores = scores if hidden is None else np.where(hidden, -np.inf, scores)
    most = scores.max(-1, keepdims=True)
    most = most if sink is None else np.maximum(most, sink)
    powers = np.exp(scores - most)
    total = powers.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink - most))
    return powers / total @ v, most, total, powers / total


LATER = ~np.tril(np.ones((5, 5), bool))


def causal(graph, scores):
    """A mask as in cuDNN's samples, with comparisons of type BOOLEAN."""
    rows, columns = (graph.gen_index(scores, axis=axis).set_data_type(cudnn.data_type.INT32) for axis in (2, 3))
    seen = graph.cmp_ge(input=rows, comparison=columns, compute_data_type=cudnn.data_type.BOOLEAN)
    return graph.binary_select(scores, -1e30, seen.set_data_type(cudnn.data_type.BOOLEAN))


@pytest.mark.parametrize("kind", [F32, np.float16])
def test_a_function_changes_the_scores(kind):
    q, k, v = (array.astype(kind) for array in heads(2, 3, 5, 8))
    graph = made()
    operands = [graph.tensor_like(array) for array in (q, k, v)]
    o, stats = graph.sdpa(*operands, attn_scale=0.5, generate_stats=True, score_mod=causal, name="flex")
    o.set_output(True)
    stats.set_output(True).set_data_type(FLOAT)
    result, sums = graph(q, k, v)
    wanted, most, total, _ = attention(q, k, v, 0.5, LATER)
    close = 1e-5 if kind is F32 else 5e-3
    assert result.dtype == kind
    np.testing.assert_allclose(result, wanted, atol=close)
    np.testing.assert_allclose(sums, most + np.log(total), atol=close)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="in the function"):
        graph.sdpa(*operands, use_causal_mask=True, score_mod=causal)
    fewer = graph.tensor([2, 1, 5, 8])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="3 heads of q and 1 of k"):
        graph.sdpa(operands[0], fewer, fewer, score_mod=causal)


@pytest.mark.parametrize("argument", ["diagonal_band_left_bound", "sliding_window_length"])
def test_the_left_bound_counts_the_query_itself(argument):
    q, k, v = heads(1, 2, 5, 8, seed=4)
    for bound in (1, 3):
        graph = made()
        operands = [graph.tensor_like(array) for array in (q, k, v)]
        o, _ = graph.sdpa(*operands, use_causal_mask=False, diagonal_band_right_bound=0, **{argument: bound})
        o.set_output(True)
        hidden = LATER | np.tril(np.ones((5, 5), bool), -bound)
        np.testing.assert_allclose(graph(q, k, v), attention(q, k, v, hidden=hidden)[0], atol=1e-5)
    with pytest.raises(cudnn.GraphError, match="expected at least 1"):
        graph.sdpa(*operands, **{argument: 0})


def test_scores_have_their_largest_their_sum_and_a_sink():
    q, k, v = heads(2, 3, 5, 8, seed=1)
    sink = np.linspace(-1, 2, 3, dtype=F32).reshape(1, 3, 1, 1)
    for sunk in (None, sink):
        graph = made()
        operands = [graph.tensor_like(array) for array in (q, k, v)]
        token = None if sunk is None else graph.tensor_like(sunk)
        most, total = (graph.tensor([2, 3, 5, 1], data_type="float").set_output(True) for _ in range(2))
        o, _ = graph.sdpa(
            *operands, attn_scale=0.25, use_causal_mask=True, score_max=most, score_sum_exp=total, sink_token=token
        )
        o.set_output(True)
        results = {tensor: np.empty((2, 3, 5, size), F32) for tensor, size in ((o, 8), (most, 1), (total, 1))}
        given = dict(zip(operands, (q, k, v)))
        graph.execute({**given, **({} if sunk is None else {token: sunk}), **results})
        wanted = attention(q, k, v, 0.25, LATER, sunk)
        np.testing.assert_allclose(results[o], wanted[0], atol=1e-5)
        np.testing.assert_allclose(results[most] + np.log(results[total]), wanted[1] + np.log(wanted[2]), atol=1e-5)
        if sunk is None:
            np.testing.assert_allclose(results[most], wanted[1], atol=1e-5)
            np.testing.assert_allclose(results[total], wanted[2], atol=1e-5)


def test_eight_bits_with_scales():
    types = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install ml_dtypes")
    small = types.float8_e4m3fn
    q, k, v = (array.astype(small) for array in heads(1, 2, 5, 16, seed=2))
    factors = {
        "descale_q": 0.5,
        "descale_k": 2.0,
        "descale_v": 0.25,
        "descale_s": 1 / 64,
        "scale_s": 64.0,
        "scale_o": 8.0,
    }
    graph = made()
    operands = [graph.tensor_like(array) for array in (q, k, v)]
    scales = {name: graph.tensor([1, 1, 1, 1], data_type="float") for name in factors}
    o, stats, amax_s, amax_o = graph.sdpa_fp8(
        *operands, **scales, attn_scale=0.25, generate_stats=True, use_causal_mask=True
    )
    for tensor in (o, stats, amax_s, amax_o):
        tensor.set_output(True)
    o.set_data_type(cudnn.data_type.FP8_E4M3)
    results = {o: np.empty((1, 2, 5, 16), small), stats: np.empty((1, 2, 5, 1), F32)}
    results.update({tensor: np.empty((1, 1, 1, 1), F32) for tensor in (amax_s, amax_o)})
    given = {scales[name]: np.full((1, 1, 1, 1), number, F32) for name, number in factors.items()}
    graph.execute({**dict(zip(operands, (q, k, v))), **given, **results})
    # q and k times their scales are as they are together, v a quarter.
    wanted, most, total, shares = attention(q.astype(F32), k.astype(F32), v.astype(F32) / 4, 0.25, LATER)
    np.testing.assert_allclose(results[stats], most + np.log(total), atol=1e-4)
    # Elements of the result have 3 fraction bits, and the probabilities before it were rounded as much.
    assert np.abs(results[o].astype(F32) / 8 - wanted).max() < 0.07 * np.abs(wanted).max()
    np.testing.assert_allclose(results[amax_o].item(), np.abs(wanted).max(), rtol=0.05)
    np.testing.assert_allclose(results[amax_s].item(), shares.max(), rtol=0.01)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="fn"):
        graph.sdpa_fp8(*operands, **scales, fn=causal)


def test_gradients_of_eight_bits():
    types = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install ml_dtypes")
    small = types.float8_e4m3fn
    random = np.random.default_rng(4)
    factors = {"q": 0.5, "k": 2.0, "v": 0.25, "o": 0.5, "dO": 2.0}
    stored = {key: random.standard_normal((1, 2, 5, 16), F32).astype(small) for key in factors}
    plain = {key: array.astype(float) * factors[key] for key, array in stored.items()}
    k, v = plain["k"], plain["v"]
    _, most, total, shares = attention(plain["q"], k, v, 0.25, LATER)
    stats = (most + np.log(total)).astype(F32)
    products = plain["dO"] @ v.transpose(0, 1, 3, 2)
    inner = shares * (products - (plain["dO"] * plain["o"]).sum(-1, keepdims=True)) * 0.25
    turned = lambda array: array.transpose(0, 1, 3, 2)  # noqa: E731
    wanted = [inner @ k, turned(inner) @ plain["q"], turned(shares) @ plain["dO"]]

    graph = made()
    operands = {key: graph.tensor_like(array) for key, array in stored.items()}
    names = [f"descale_{key}" for key in (*factors, "s", "dP")]
    scales = {name: graph.tensor([1, 1, 1, 1], data_type="float") for name in names}
    scales.update(
        {f"scale_{key}": graph.tensor([1, 1, 1, 1], data_type="float") for key in ("s", "dQ", "dK", "dV", "dP")}
    )
    line = graph.tensor_like(stats)
    outputs = graph.sdpa_fp8_backward(**operands, stats=line, **scales, attn_scale=0.25, use_causal_mask=True)
    for tensor in outputs:
        tensor.set_output(True)
    for tensor in outputs[:3]:
        tensor.set_data_type(cudnn.data_type.FP8_E4M3)
    numbers = {"descale_s": 1 / 64, "descale_dP": 1 / 64, "scale_s": 64.0, "scale_dP": 64.0}
    numbers.update({f"descale_{key}": factor for key, factor in factors.items()})
    numbers.update({"scale_dQ": 4.0, "scale_dK": 2.0, "scale_dV": 1.0})
    given = {scales[name]: np.full((1, 1, 1, 1), number, F32) for name, number in numbers.items()}
    results = {tensor: np.empty(of.shape, small) for tensor, of in zip(outputs, wanted)}
    results.update({tensor: np.empty((1, 1, 1, 1), F32) for tensor in outputs[3:]})
    graph.execute({**{operands[key]: array for key, array in stored.items()}, line: stats, **given, **results})
    for tensor, of, scale in zip(outputs, wanted, (4.0, 2.0, 1.0)):
        assert np.abs(results[tensor].astype(F32) / scale - of).max() < 0.08 * np.abs(of).max()
    for tensor, of in zip(outputs[3:], (*wanted, products)):
        np.testing.assert_allclose(results[tensor].item(), np.abs(of).max(), rtol=0.05)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="seq_len_q"):
        graph.sdpa_fp8_backward(**operands, stats=line, **scales, seq_len_q=line)


def test_tables_of_pages_lie_one_after_the_other():
    random = np.random.default_rng(3)
    lengths, size = np.array([3, 5], np.int32).reshape(2, 1, 1, 1), 2
    q = random.standard_normal((2, 1, 1, 4), F32)
    pages = [random.standard_normal((6, 1, size, 4), F32) for _ in range(2)]
    packed = np.array([4, 1, 0, 3, 5, 9, 9, 9], np.int32).reshape(2, 1, 4, 1)
    first = np.array([0, 2, 5], np.int32).reshape(3, 1, 1, 1)
    graph = made()
    operands = [graph.tensor_like(array) for array in (q, *pages)]
    one, table, begins, keys = (
        graph.tensor_like(array) for array in (np.ones((2, 1, 1, 1), np.int32), packed, first, lengths)
    )
    table.set_ragged_offset(begins)
    o, _ = graph.sdpa(*operands, use_padding_mask=True, seq_len_q=one, seq_len_kv=keys, paged_attention_k_table=table,
                      paged_attention_v_table=table, paged_attention_max_seq_len_kv=8)  # fmt: skip
    o.set_output(True)
    result = np.empty((2, 1, 1, 4), F32)
    given = {one: np.ones((2, 1, 1, 1), np.int32), table: packed, begins: first, keys: lengths, o: result}
    arrays = dict(zip(operands, (q, *pages)))
    graph.execute({**arrays, **given})
    for batch, (use, length) in enumerate((([4, 1], 3), ([0, 3, 5], 5))):
        k, v = (of[use].reshape(1, 1, -1, 4)[:, :, :length] for of in pages)
        np.testing.assert_allclose(result[batch], attention(q[batch : batch + 1], k, v)[0][0], atol=1e-5)
    del given[begins]
    with pytest.raises(cudnn.ArrayError, match="batches"):
        graph.execute({**arrays, **given})


def test_calls_take_views_in_the_order_of_their_tensors():
    a, b = np.zeros((2, 3), F32), np.full((3, 2), 2, F32)
    graph = made()
    first, second, third = (graph.tensor_like(array) for array in (a, b, a))
    graph.sub(third, graph.add(first, graph.transpose(second, [1, 0]))).set_output(True)
    assert (graph(a, b, a + 5) == 3).all()
    other = made()
    x, y = other.tensor_like(a), other.tensor_like(b)
    out = other.sub(x, other.transpose(y, [1, 0])).set_output(True).set_stride([3, 1])
    result = np.empty((2, 3), F32)
    other.execute({x: a, y: b, out: result})
    assert (result == -2).all()


def test_threads_override_shapes():
    graph = made(is_override_shape_enabled=True)
    plain = np.ones((4, 4), F32)
    x = graph.tensor_like(plain)
    y = graph.mul(graph.exp(x), 2.0).set_output(True)
    graph.execute({x: plain, y: np.empty((4, 4), F32)})
    wrong = []

    def work(number):
        for at in range(20):
            rows = 2 + (number + at) % 5
            given, result = np.full((rows, 3), at / 10, F32), np.empty((rows, 3), F32)
            graph.execute(
                {x: given, y: result},
                override_uids=[x.uid, y.uid],
                override_shapes=[[rows, 3]] * 2,
                override_strides=[[3, 1]] * 2,
            )
            same = graph(plain)
            if not (
                np.allclose(result, 2 * np.exp(given)) and same.shape == (4, 4) and np.allclose(same, 2 * np.exp(plain))
            ):
                wrong.append((number, at))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and x.dim == (4, 4)
