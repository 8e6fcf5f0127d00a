"""Programs written for cuDNN: arrays as operands, calls by name, composed operations, addresses and overrides."""

from __future__ import annotations

import hipdnn as cudnn
import numpy as np
import pytest

F32 = np.float32
TRAINING = cudnn.norm_forward_phase.TRAINING


def product(**options):
    a, b, d = (np.random.default_rng(at).random((1, 4, 4), F32) for at in range(3))
    with cudnn.Graph(**options) as graph:
        ab = graph.matmul(name="mm", A=a, B=b)
        graph.bias(name="bias", input=ab, bias=d).set_output(True).set_name("out")
    return graph, (a, b, d), a @ b + d


def test_arrays_are_operands_and_calls_take_them_by_name():
    graph, (a, b, d), wanted = product(inputs=["bias::bias", "mm::B", "mm::A"], outputs=["out"], workspace_alloc=False)
    handle = cudnn.create_handle()
    np.testing.assert_allclose(graph(d, b, a, handle=handle, workspace=None), wanted, rtol=1e-6)
    graph.set_io_tuples([a, b, d], ["bias::OUT_0"])
    np.testing.assert_allclose(graph(a, b, d), wanted, rtol=1e-6)
    given = {"mm::A": a, "mm::B": b, "bias::bias": d}
    assert graph(given) is given
    np.testing.assert_allclose(given["bias::OUT_0"], wanted, rtol=1e-6)
    out = np.zeros_like(wanted)
    graph({"mm::A": a, "mm::B": b, "bias::bias": d, "out": out})
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "inputs, outputs, text",
    [(["mm::A", "mm::B"], ["out"], "lacks"), (["mm::A", "mm::X", "bias::bias"], ["out"], "'mm::X' is not found"),
     (["mm::A", "mm::A", "mm::B", "bias::bias"], ["out"], "duplicate"), (["mm::A", "mm::B", "bias::bias"], ["mm::C"], "lacks"),
     ("mm::A", ["out"], "expected a list")],
)  # fmt: skip
def test_wrong_names_are_told(inputs, outputs, text):
    graph, _, _ = product()
    with pytest.raises(ValueError, match=text):
        graph.set_io_tuples(inputs, outputs)


def test_names_are_made_up_as_in_cudnn():
    x = np.array([[-1, 2]], F32)
    graph = cudnn.Graph()
    y = graph.abs(graph.relu(x))
    graph.set_io_tuples(["relu.0::input"], ["abs.0::OUT_0"])
    assert (graph(x) == [[0, 2]]).all() and y.get_name()


def test_jit_builds_and_the_cache_keeps():
    made = []

    @cudnn.jit(heur_modes=[cudnn.heur_mode.A])
    @cudnn.graph_cache(key_fn=lambda handle, x: x.shape, maxsize=1)
    def negated(handle, x):
        with cudnn.graph(handle, io_data_type="float") as (g, _):
            made.append(g)
            t = g.tensor_like(x)
            return g, [t, g.neg(t).set_output(True)]

    handle, x = cudnn.create_handle(), np.ones((2, 3), F32)
    graph, (a, b) = negated(handle, x)
    assert negated(handle, x)[0] is graph and len(made) == 1
    y = np.zeros_like(x)
    graph.execute({a: x, b: y}, None)
    assert (y == -1).all()
    negated(handle, np.ones((4, 3), F32))
    negated(handle, x)
    assert len(made) == 3


def test_bytes_are_read_into_an_empty_graph():
    graph, (a, b, d), wanted = product()
    uids = [graph._find(name).get_uid() for name in ("mm::A", "mm::B", "bias::bias", "out")]
    other, out = cudnn.pygraph(), np.zeros_like(wanted)
    other.deserialize(list(graph.serialize()))
    other.execute(dict(zip(uids, (a, b, d, out))))
    np.testing.assert_allclose(out, wanted, rtol=1e-6)
    with pytest.raises(TypeError, match="cannot be changed"):
        other.tensor([1])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="empty graph"):
        graph.deserialize(graph.serialize())


def test_versions_and_errors():
    major, minor, patch = map(int, cudnn.backend_version_string().split("."))
    assert cudnn.backend_version() == major * 10000 + minor * 100 + patch >= 91200
    assert issubclass(cudnn.NoEngineError, cudnn.cudnnGraphNotSupportedError)
    graph = cudnn.pygraph()
    x = graph.tensor([2, 2])
    q = graph.tensor([1, 1, 4, 8])
    for refused in (
        lambda: graph.pow(x, x), lambda: graph.mod(x, x), lambda: graph.concatenate([x, x], 0),
        lambda: graph.sdpa(q, q, q, use_causal_mask=True, score_mod=lambda g, s: s),
        lambda: graph.transpose(graph.relu(x), [1, 0]),
    ):  # fmt: skip
        with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="expected"):
            refused()


def test_plans_are_made_for_the_device_that_properties_describe():
    """Properties travel to another machine as text, and the saved graph comes back."""
    text = cudnn.create_device_properties(0).serialize()
    properties = cudnn.create_device_properties(text)
    assert properties.serialize() == text
    graph = cudnn.pygraph(device_property=properties)
    x, w = graph.tensor([2, 3, 8, 8]), graph.tensor([4, 3, 3, 3])
    y = graph.conv_fprop(x, w, padding=[1, 1], stride=[1, 1], dilation=[1, 1]).set_output(True)
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    loaded = cudnn.pygraph()
    loaded.deserialize(None, graph.serialize())
    vx, vw, vy = (
        np.ones((2, 3, 8, 8), np.float32),
        np.ones((4, 3, 3, 3), np.float32),
        np.zeros((2, 4, 8, 8), np.float32),
    )
    loaded.execute({x: vx, w: vw, y: vy}, None)
    assert vy[0, 0, 4, 4] == 27 and vy[0, 0, 0, 0] == 12

    other = cudnn.DeviceProperties("sm_30", 1, 1)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match=r"sm_30, which is not here: Graph.compile"):
        cudnn.pygraph(device_property=other)
    for wrong in (-1, 1000, "", "{}", "[1]"):
        with pytest.raises(cudnn.GraphError, match="create_device_properties: device: is"):
            cudnn.create_device_properties(wrong)
    with pytest.raises(cudnn.GraphError, match="expected what create_device_properties answers"):
        cudnn.pygraph(device_property="sm_90")


def reference(x, scale, bias, dy, axes, summed):
    """Result, statistics and gradients in double precision."""
    x, scale, bias, dy = (of.astype(np.float64) for of in (x, scale, bias, dy))
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    normalized = (x - mean) * inverse
    g = dy * scale
    dx = inverse * (g - g.mean(axes, keepdims=True) - normalized * (g * normalized).mean(axes, keepdims=True))
    dscale, dbias = ((of).sum(summed, keepdims=True) for of in (dy * normalized, dy))
    return [normalized * scale + bias, mean, inverse], [dx, dscale, dbias]


@pytest.mark.parametrize(
    "name, shape, factors, axes, summed",
    [
        ("instancenorm", (3, 4, 5, 6), (1, 4, 1, 1), (2, 3), (0, 2, 3)),
        ("adalayernorm", (3, 5, 8), (3, 1, 8), (2,), (1,)),
    ],
)
def test_norms_of_cudnn(random, name, shape, factors, axes, summed):
    x, dy = (random.normal(size=shape).astype(F32) for _ in range(2))
    scale, bias = (random.normal(size=factors).astype(F32) for _ in range(2))
    forward, backward = reference(x, scale, bias, dy, axes, summed)
    graph = cudnn.Graph(compute_data_type="float")
    for tensor in getattr(graph, name)(TRAINING, x, scale, bias, 1e-3, name="n"):
        tensor.set_output(True)
    results = graph(x, scale, bias)
    for found, wanted in zip(results, forward):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    graph = cudnn.Graph(compute_data_type="float")
    _, mean, inverse = results
    for tensor in getattr(graph, f"{name}_backward")(dy, x, scale, mean, inverse, name="n"):
        tensor.set_output(True)
    graph.set_io_tuples([dy, x, scale, mean, inverse], ["n::DX", "n::DSCALE", "n::DBIAS"])
    for found, wanted in zip(graph(dy, x, scale, mean, inverse), backward):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    inference = getattr(cudnn.Graph(), name)(cudnn.norm_forward_phase.INFERENCE, x, scale, bias, 1e-3)
    assert inference[1:] == [None, None]


def test_sums_of_channels_and_cosines(random):
    x = random.normal(size=(2, 3, 4, 5)).astype(F32)
    graph = cudnn.Graph()
    for tensor in (*graph.genstats(x), graph.cos(x)):
        tensor.set_output(True)
    total, squares, cosine = graph(x)
    np.testing.assert_allclose(total, x.sum((0, 2, 3), keepdims=True), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(squares, (x * x).sum((0, 2, 3), keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(cosine, np.cos(x), atol=1e-6)


def test_other_shapes_of_what_is_given(random):
    x = random.normal(size=(4, 6, 8)).astype(F32)
    for build, wanted in (
        (lambda g, t: g.slice(t, [slice(1, None), slice(None, None, 2), slice(2, 6)]), x[1:, ::2, 2:6]),
        (lambda g, t: g.transpose(t, [2, 0, 1]), x.transpose(2, 0, 1)),
        (lambda g, t: g.reshape(t).set_dim([24, 8]), x.reshape(24, 8)),
        (
            lambda g, t: g.slice(g.transpose(t, [1, 0, 2]), [slice(3, 4), slice(None), slice(None)]),
            x.transpose(1, 0, 2)[3:4],
        ),
    ):
        graph = cudnn.Graph()
        graph.neg(build(graph, graph.tensor_like(x)))
        assert (graph(x) == -wanted).all()
    graph = cudnn.Graph()
    graph.neg(graph.reshape(graph.tensor([2, 3])).set_dim([3, 3]))
    with pytest.raises(cudnn.GraphError, match="expected elements of"):
        graph.build()
    graph = cudnn.Graph()
    graph.neg(graph.transpose(graph.tensor([2, 3]), [1, 0]))
    with pytest.raises(cudnn.ArrayError, match=r"expected \[2, 3\]"):
        graph(np.zeros((3, 2), F32))


def test_addresses_none_and_overrides():
    x, y = np.array([[-1, 2], [3, -4]], F32), np.zeros((2, 2), F32)
    graph = cudnn.pygraph(is_override_shape_enabled=True)
    a = graph.tensor_like(x)
    b = graph.abs(graph.neg(a)).set_output(True)
    graph.execute({a: x.ctypes.data, b.get_uid(): y.ctypes.data, None: None}, 0)
    assert (y == abs(x)).all()
    more, out = np.arange(-3, 3, dtype=F32).reshape(3, 2), np.zeros((3, 2), F32)
    uids = [a.get_uid(), b.get_uid()]
    graph.execute({a: more, b: out}, override_uids=uids, override_shapes=[[3, 2]] * 2, override_strides=[[2, 1]] * 2)
    assert (out == abs(more)).all() and a.get_dim() == [2, 2]
    for wrong in (0, x.ctypes.data + 1):
        with pytest.raises(cudnn.ArrayError, match="an address is"):
            graph.execute({a: wrong, b: y})
    with pytest.raises(cudnn.GraphError, match="override_shapes"):
        graph.execute({a: x, b: y}, override_uids=uids)


def test_masks_of_bits(random):
    x = random.normal(size=(2, 8, 3, 4)).astype(F32)
    graph = cudnn.Graph()
    a = graph.tensor_like(x)
    mask = graph.cmp_gt(a, 0.0).set_output(True).set_data_type(cudnn.data_type.BOOLEAN)
    bits = np.zeros((2, 1, 3, 4), np.uint8)
    graph.execute({a: x, mask: bits})
    assert (bits.ravel() == np.packbits((x > 0).ravel(), bitorder="little")).all()
    graph = cudnn.Graph()
    a, kept = graph.tensor_like(x), graph.tensor_like(x > 0)
    y = graph.mul(a, kept).set_output(True).set_data_type("float")
    out = np.zeros_like(x)
    graph.execute({a: x, kept: bits, y: out})
    assert (out == np.maximum(x, 0)).all()


def test_attention_takes_long_lengths(random):
    q, k, v = (random.normal(size=(2, 1, 8, 16)).astype(F32) for _ in range(3))
    results = []
    for kind in (np.int32, np.int64):
        lengths = np.array([3, 8], kind).reshape(2, 1, 1, 1)
        graph = cudnn.Graph()
        o, _ = graph.sdpa(
            q,
            k,
            v,
            use_padding_mask=True,
            seq_len_q=lengths,
            seq_len_kv=lengths,
            implementation=cudnn.attention_implementation.AUTO,
        )
        o.set_output(True)
        results.append(graph(q, k, v, lengths))
    np.testing.assert_array_equal(*results)


def test_notes_choose_candidates(random):
    graph = cudnn.pygraph()
    graph.relu(graph.tensor([2, 3]))
    graph.validate()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.OPENSOURCE])
    count = graph.get_execution_plan_count()
    graph.deselect_behavior_notes([cudnn.behavior_note.RUNTIME_COMPILATION])
    assert graph.get_execution_plan_count() == count == graph.get_engine_count()
    assert graph.get_behavior_notes_for_plan_at_index(0) == []
    graph.select_behavior_notes([cudnn.behavior_note.RUNTIME_COMPILATION])
    with pytest.raises(cudnn.GraphError, match="deselected"):
        graph.check_support()


@pytest.mark.parametrize("activation", ["silu", "identity"])
def test_causal_convolution_and_its_gradients(activation):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    torch.manual_seed(0)
    operands = [torch.randn(shape, requires_grad=True) for shape in ((2, 6, 20), (6, 4), (6,))]
    y = cudnn.ops.causal_conv1d(*operands, activation=activation)
    x, weight, bias = operands
    wanted = torch.nn.functional.conv1d(torch.nn.functional.pad(x, (3, 0)), weight.unsqueeze(1), bias, groups=6)
    wanted = torch.nn.functional.silu(wanted) if activation == "silu" else wanted
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-5)
    dy = torch.randn_like(y)
    for found, right in zip(torch.autograd.grad(y, operands, dy), torch.autograd.grad(wanted, operands, dy)):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    with pytest.raises(cudnn.GraphError, match="expected 'silu'"):
        cudnn.ops.causal_conv1d(*operands, activation="relu")


def test_graphs_are_for_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr("hipdnn.definition.first_gpu", lambda: (2, 0))
    graph = cudnn.pygraph()
    assert graph.tensor_like(np.ones((1, 1, 1, 1), np.float32)).get_is_pass_by_value()
    assert graph._device == (2, 0), "a number says nothing of the device"
    assert not graph.tensor_like(np.ones((2, 1, 1, 1), np.float32)).get_is_pass_by_value()
    assert not cudnn.Graph().tensor_like(np.ones((1,), np.float32)).get_is_pass_by_value()
    other = cudnn.Graph()
    other._device = (2, 0)
    assert other.tensor_like(np.ones((1,), np.float32)).get_is_pass_by_value(), "beside an array on a GPU"
    one = graph.tensor_like(np.ones((1, 1, 1, 1), np.float32)).set_name("one")
    third = cudnn.pygraph()
    third.add(third.tensor([2, 1, 1, 1]), one)
    assert [tensor.get_is_pass_by_value() for tensor in third.tensors if tensor.name == "one"] == [True]


def test_candidates_for_one_device_are_not_used_for_another(monkeypatch):
    graph = cudnn.pygraph(io_data_type=cudnn.data_type.FLOAT)
    graph.exp(graph.tensor([2, 2])).set_output(True)
    graph.build_operation_graph()
    graph.create_execution_plans()
    graph.build_plans()
    assert graph.engine.startswith("CPU_")
    native = graph._native_graph(graph.to_json())
    monkeypatch.setattr(type(graph), "_native_graph", lambda *_: native)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="does not compute on rocm:0"):
        graph._make_plan(device=(10, 0))
    graph._candidates = None
    with pytest.raises(cudnn.GraphError, match="does not compute on rocm:0"):
        graph._make_plan(device=(10, 0))
