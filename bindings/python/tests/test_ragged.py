"""Batches of ragged sequences, without padding between them."""

from __future__ import annotations

import warnings

import hipdnn
import numpy as np
import pytest
from hipdnn import GraphError

F32 = np.float32
B, H, S, D = 3, 2, 6, 8
LENGTHS = (4, 6, 1)
FIRST = np.concatenate([[0], np.cumsum(LENGTHS)])
#: Tokens are outermost: [token, head, number].
STRIDES = (S * H * D, D, H * D, 1)


def packed(random):
    """A buffer for all sequences at their longest, with the actual ones at the front."""
    memory = np.full(B * S * H * D, np.nan, F32)
    tokens = random.uniform(-1, 1, (FIRST[-1], H, D)).astype(F32)
    memory[: tokens.size] = tokens.ravel()
    return memory, tokens


def as_tensor(memory):
    """The buffer as an array with the shape and strides of its tensor."""
    return np.lib.stride_tricks.as_strided(memory, (B, H, S, D), [4 * stride for stride in STRIDES])


def ragged_graph(multiplier, kind):
    graph = hipdnn.Graph(io_data_type="float")
    offset = graph.tensor([B + 1, 1, 1, 1], data_type=kind, name="first")
    lengths = [graph.tensor([B, 1, 1, 1], data_type="int32", name=name) for name in ("seq_q", "seq_kv")]
    inputs = [
        graph.tensor([B, H, S, D], STRIDES, ragged_offset=offset, ragged_offset_multiplier=multiplier) for _ in range(3)
    ]
    y, _ = graph.sdpa(
        *inputs, attn_scale=0.3, use_padding_mask=True, seq_len_q=lengths[0], seq_len_kv=lengths[1], generate_stats=False,
        max_total_seq_len_q=int(FIRST[-1]), max_total_seq_len_kv=int(FIRST[-1]),
    )  # fmt: skip
    y.set_output(True).set_dim([B, H, S, D]).set_stride(STRIDES)
    y.set_ragged_offset(offset).set_ragged_offset_multiplier(multiplier)
    return graph, offset, lengths, inputs, y


def attention(q, k, v):
    scores = np.einsum("qhd,khd->hqk", q, k) * 0.3
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("multiplier, kind", [(1, "int32"), (H * D, "int64")])
def test_ragged_attention(multiplier, kind, random):
    graph, offset, lengths, inputs, y = ragged_graph(multiplier, kind)
    buffers, tokens = zip(*(packed(random) for _ in range(3)))
    result = np.full(B * S * H * D, 7, F32)
    first = (FIRST * (H * D // multiplier)).astype(kind).reshape(-1, 1, 1, 1)
    seq = np.array(LENGTHS, np.int32).reshape(-1, 1, 1, 1)
    of = {offset: first, lengths[0]: seq, lengths[1]: seq, y: as_tensor(result)}
    of.update({tensor: as_tensor(memory) for tensor, memory in zip(inputs, buffers)})
    graph.execute(of)
    got = result[: FIRST[-1] * H * D].reshape(-1, H, D)
    for start, end in zip(FIRST, FIRST[1:]):
        wanted = attention(*(t[start:end].astype(float) for t in tokens))
        np.testing.assert_allclose(got[start:end], wanted, rtol=1e-5, atol=1e-5)
    # Nothing is written beyond the last sequence.
    assert (result[FIRST[-1] * H * D :] == 7).all()
    # Saved, too.
    loaded = hipdnn.load(graph.save())
    again = np.full_like(result, 7)
    loaded.execute({**{tensor.uid: array for tensor, array in of.items()}, y.uid: as_tensor(again)})
    np.testing.assert_array_equal(again, result)
    tensors = {tensor.get_uid(): tensor for tensor in loaded.tensors}
    for tensor in (*inputs, y):
        got = tensors[tensor.get_uid()]
        assert got.get_ragged_offset() is tensors[offset.get_uid()]
        assert got.ragged_offset_multiplier == multiplier
    assert tensors[offset.get_uid()].get_ragged_offset() is None


@pytest.mark.parametrize("wrong", [[0, 4, -3, 11], [0, 4, 18, 19], [0, 4, 2**40, 2**40 + 1]])
def test_offsets_that_lead_elsewhere_are_told(wrong, random):
    graph, offset, lengths, inputs, y = ragged_graph(H * D, "int64")
    seq = np.array(LENGTHS, np.int32).reshape(-1, 1, 1, 1)
    of = {offset: np.array(wrong, np.int64).reshape(-1, 1, 1, 1), lengths[0]: seq, lengths[1]: seq}
    of.update({tensor: as_tensor(packed(random)[0]) for tensor in (*inputs, y)})
    graph.build()
    # Every engine refuses them, so no other engine takes over.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(hipdnn.EngineError, match="ragged offsets of"):
            graph.execute(of)


def test_offsets_are_tensors_that_are_given():
    graph, offset, *_, y = ragged_graph(1, "int32")
    assert y.get_ragged_offset() is offset
    for wrong in (hipdnn.Graph().tensor([4, 1, 1, 1], data_type="int32"), [0, 1], None):
        with pytest.raises(GraphError, match="expected a tensor of this graph"):
            y.set_ragged_offset(wrong)
    y.set_ragged_offset(graph.neg(offset))
    with pytest.raises(GraphError, match="ragged_offset of"):
        graph.validate()
