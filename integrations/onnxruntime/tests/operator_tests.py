"""Operators that ONNX's own tests lack: quantized ones, and those of ONNX Runtime's domain. Results match CPUExecutionProvider's, every node computed here."""

import sys

import numpy as np
import onnxruntime as ort
import provider
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(1)
KINDS = {
    np.dtype(of): helper.np_dtype_to_tensor_dtype(np.dtype(of)) for of in ("f4", "f2", "i8", "u1", "i1", "i4", "?")
}


def model(nodes, feeds, outputs, weights):
    inputs = [helper.make_tensor_value_info(name, KINDS[array.dtype], array.shape) for name, array in feeds.items()]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "operators", inputs, results, initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def check(nodes, feeds, outputs, weights=None, tolerance=1e-5, steps=0):
    """`steps` is how much integers may differ, in one place and two of a thousand."""
    data = model(nodes, feeds, outputs, weights or {})
    try:
        plain = provider.plain(data)
    except Exception as error:
        # Older releases compute fewer types.
        assert "NOT_IMPLEMENTED" in str(error), error
        return
    own, seen = provider.reported(data, {"take": "all"})
    left = [f"{node['operator']}: {node['reason']}" for node in seen if node["subgraph"] is None]
    assert not left, f"left {left}"
    for name, have, want in zip(outputs, own.run(None, feeds), plain.run(None, feeds)):
        if want.dtype.kind in "iu" and steps:
            gap = np.abs(have.astype(np.int64) - want.astype(np.int64))
            assert gap.max() <= steps and (gap > 0).sum() <= 1 + 2e-3 * gap.size, (
                f"{name}: off by {gap.max()}, {(gap > 0).mean()} of all"
            )
        else:
            gap = provider.difference(have, want)
            assert gap <= tolerance, f"{name} differs by {gap}"


def floats(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def bytes_of(kind, *dims):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max + 1, dims).astype(kind)


def absent(inputs):
    """Inputs, with - for an absent one."""
    return ["" if name == "-" else name for name in inputs.split()]


def made(operator, inputs, outputs="y", domain="com.microsoft", **attributes):
    return helper.make_node(
        operator, absent(inputs), absent(outputs), domain=domain, name=operator.lower(), **attributes
    )


def test_infinity_and_nan():
    """Activations without an upper bound keep infinity, and NaN has no sign."""
    x = np.array([[np.inf, -np.inf, np.nan, 0, -0.0, 3e38, -3e38, 1.5]], np.float32)
    for operator, attributes in (("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Sign", {}), ("Abs", {})):
        node = helper.make_node(operator, ["x"], ["y"], **attributes)
        check([node], {"x": x}, {"y": TensorProto.FLOAT}, tolerance=1e-6)


def test_bytes_and_back():
    for kind, zero in (("u1", 100), ("i1", -7), ("u1", 0)):
        zero = np.array(zero, kind)
        weights = {"s": np.float32(0.0371), "z": zero}
        nodes = [made("QuantizeLinear", "x s z", "q", ""), made("DequantizeLinear", "q s z", "y", "")]
        x = floats(5, 700) * 4
        x[0, :4] = [1e9, -1e9, np.inf, -np.inf]
        check(nodes, {"x": x}, {"q": KINDS[zero.dtype], "y": TensorProto.FLOAT}, weights)
    # Ties: to even.
    x = (np.arange(-40, 40) / 2).astype(np.float32)
    check(
        [made("QuantizeLinear", "x s z", "y", "")],
        {"x": x},
        {"y": TensorProto.INT8},
        {"s": np.float32(1), "z": np.int8(3)},
    )
    # One scale per channel, or per block.
    weights = {"s": np.abs(floats(6)) + 0.01, "z": bytes_of("i1", 6)}
    check(
        [made("QuantizeLinear", "x s z", "y", "", axis=1)], {"x": floats(3, 6, 5) * 9}, {"y": TensorProto.INT8}, weights
    )
    check(
        [made("DequantizeLinear", "x s z", "y", "", axis=-2)],
        {"x": bytes_of("i1", 3, 6, 5)},
        {"y": TensorProto.FLOAT},
        weights,
    )
    weights = {"s": np.abs(floats(3, 2, 5)) + 0.01, "z": bytes_of("u1", 3, 2, 5)}
    check(
        [made("DequantizeLinear", "x s z", "y", "", axis=1, block_size=4)],
        {"x": bytes_of("u1", 3, 8, 5)},
        {"y": TensorProto.FLOAT},
        weights,
    )
    check(
        [made("DequantizeLinear", "x s", "y", "")],
        {"x": np.array([2**31 - 1, -5], np.int32)},
        {"y": TensorProto.FLOAT},
        {"s": np.float32(0.5)},
    )


def test_a_dynamic_scale():
    outputs = {"y": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8}
    for x in (floats(40, 9), np.abs(floats(7)), np.zeros((3, 3), np.float32), -np.abs(floats(50))):
        check([made("DynamicQuantizeLinear", "x", "y s z", "")], {"x": x}, outputs, steps=1)


def test_convolutions_of_bytes():
    for of_x, of_w, channels, group, pads in (("u1", "i1", 8, 1, 1), ("i1", "i1", 8, 8, 0), ("u1", "u1", 8, 2, 1)):
        weights = {
            "xs": np.float32(0.02),
            "xz": np.array(5, of_x),
            "w": bytes_of(of_w, 16, channels // group, 3, 3),
            "ys": np.float32(0.5),
        }
        weights |= {
            "ws": (np.abs(floats(16)) + 1) * 0.01,
            "wz": np.zeros(16, of_w) + (128 if of_w == "u1" else 0),
            "yz": np.array(9, of_x),
        }
        weights |= {"b": RANDOM.integers(-999, 999, 16).astype(np.int32)}
        weights["wz"] = weights["wz"].astype(of_w)
        feeds = {"x": bytes_of(of_x, 2, channels, 9, 7)}
        call = made("QLinearConv", "x xs xz w ws wz ys yz b", "y", "", group=group, pads=[pads] * 4)
        check([call], feeds, {"y": KINDS[np.dtype(of_x)]}, weights, steps=1)
    for zero, of_w, pads in ((0, "i1", [1, 1, 1, 1]), (77, "i1", [1, 0, 2, 1]), (77, "u1", [0, 0, 0, 0])):
        weights = {"xz": np.uint8(zero), "w": bytes_of(of_w, 6, 4, 3, 3)}
        feeds = {"x": bytes_of("u1", 2, 4, 9, 7)}
        check([made("ConvInteger", "x w xz", "y", "", pads=pads)], feeds, {"y": TensorProto.INT32}, weights)


def test_products_of_bytes():
    # Sums of larger ones saturate in ONNX Runtime on processors without dot products of bytes.
    a, b = bytes_of("u1", 3, 17, 70), bytes_of("i1", 70, 33) // 2
    zeros = {"az": np.uint8(131), "bz": np.int8(-3)}
    check([made("MatMulInteger", "a b", "y", "")], {"a": a}, {"y": TensorProto.INT32}, {"b": b})
    check([made("MatMulInteger", "a b az bz", "y", "")], {"a": a}, {"y": TensorProto.INT32}, {"b": b, **zeros})
    check([made("MatMulInteger", "a b az bz", "y", "")], {"a": a, "b": b}, {"y": TensorProto.INT32}, zeros)
    columns = {"az": np.uint8(131), "bz": bytes_of("i1", 33)}
    check([made("MatMulInteger", "a b az bz", "y", "")], {"a": a}, {"y": TensorProto.INT32}, {"b": b, **columns})
    scales = {"as": np.float32(0.01), "bs": np.float32(0.02), "ys": np.float32(0.3), "yz": np.uint8(120)}
    call = made("QLinearMatMul", "a as az b bs bz ys yz", "y", "")
    check([call], {"a": a}, {"y": TensorProto.UINT8}, {"b": b, **zeros, **scales}, steps=1)
    scales |= {"c": RANDOM.integers(-999, 999, 33).astype(np.int32)}
    call = made("QGemm", "a as az b bs bz c ys yz")
    check([call], {"a": a[0]}, {"y": TensorProto.UINT8}, {"b": b, **zeros, **scales}, steps=1)
    call = made("MatMulIntegerToFloat", "a b as bs az bz bias")
    check(
        [call],
        {"a": a},
        {"y": TensorProto.FLOAT},
        {"b": b, **zeros, "as": scales["as"], "bs": scales["bs"], "bias": floats(33)},
    )
    call = made("DynamicQuantizeMatMul", "x b bs bz bias")
    check(
        [call],
        {"x": floats(9, 70)},
        {"y": TensorProto.FLOAT},
        {"b": b, "bz": zeros["bz"], "bs": scales["bs"], "bias": floats(33)},
        tolerance=5e-3,
    )


def test_other_operators_on_bytes():
    weights = {
        "as": np.float32(0.03),
        "az": np.uint8(100),
        "bs": np.float32(0.01),
        "bz": np.uint8(9),
        "ys": np.float32(0.0413),
        "yz": np.uint8(80),
    }
    feeds = {"a": bytes_of("u1", 2, 8, 6, 6)}
    for operator in ("QLinearAdd", "QLinearMul"):
        call = made(operator, "a as az b bs bz ys yz")
        check([call], {**feeds, "b": bytes_of("u1", 2, 8, 6, 6)}, {"y": TensorProto.UINT8}, weights, steps=1)
    for operator in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool"):
        check(
            [made(operator, "a as az ys yz")],
            feeds,
            {"y": TensorProto.UINT8},
            {**weights, "ys": np.float32(0.02)},
            steps=1,
        )
    for settings in ({"opset": 13, "axis": 1}, {"opset": 12, "axis": 2}, {"opset": 17}):
        call = made("QLinearSoftmax", "a as az ys yz", **settings)
        check(
            [call], feeds, {"y": TensorProto.UINT8}, {**weights, "ys": np.float32(1 / 256), "yz": np.uint8(0)}, steps=1
        )
    call = made("QLinearConcat", "ys yz a as az b bs bz", axis=1)
    check([call], {**feeds, "b": bytes_of("u1", 2, 3, 6, 6)}, {"y": TensorProto.UINT8}, weights, steps=1)


def test_weights_of_few_bits():
    for bits, size, k, n in ((4, 32, 96, 24), (4, 16, 40, 9), (8, 32, 64, 10), (4, 128, 256, 16)):
        blocks = -(-k // size)
        weights = {"b": bytes_of("u1", n, blocks, size * bits // 8), "s": np.abs(floats(n * blocks)) * 0.1}
        outputs, numbers = {"y": TensorProto.FLOAT}, {"K": k, "N": n, "bits": bits, "block_size": size}
        # Few rows, which are multiplied with packed weights, and more.
        for rows in ((1, 1), (2, 3), (2, 5)):
            some, feeds = dict(weights), {"x": floats(*rows, k)}
            check([made("MatMulNBits", "x b s", **numbers)], feeds, outputs, some)
            some["z"] = bytes_of("u1", n * -(-blocks * bits // 8))
            check([made("MatMulNBits", "x b s z", **numbers)], feeds, outputs, some)
            some["c"] = floats(n)
            check([made("MatMulNBits", "x b s - - c", **numbers)], feeds, outputs, some)


def test_attention_of_many_heads():
    q, k, v = floats(2, 5, 32), floats(2, 7, 32), floats(2, 7, 48)
    outputs, feeds = {"y": TensorProto.FLOAT}, {"q": q, "k": k, "v": v}
    check([made("MultiHeadAttention", "q k v", num_heads=4)], feeds, outputs)
    check([made("MultiHeadAttention", "q k v bias", num_heads=4)], feeds, outputs, {"bias": floats(112)})
    check(
        [made("MultiHeadAttention", "q k v - - bias", num_heads=4, scale=0.3)],
        {**feeds, "bias": floats(2, 4, 5, 7)},
        outputs,
    )
    mask = np.ones((2, 7), np.int32)
    mask[1, 4:] = 0
    check([made("MultiHeadAttention", "q k v - mask", num_heads=4)], {**feeds, "mask": mask}, outputs)
    past = {"pk": floats(2, 4, 3, 8), "pv": floats(2, 4, 3, 8)}
    outputs |= {"nk": TensorProto.FLOAT, "nv": TensorProto.FLOAT}
    check([made("MultiHeadAttention", "q q q - - - pk pv", "y nk nv", num_heads=4)], {"q": q, **past}, outputs)
    check(
        [made("MultiHeadAttention", "q q q - - - pk pv", "y nk nv", num_heads=4, unidirectional=1)],
        {"q": q, **past},
        outputs,
    )
    # CPUExecutionProvider lacks the packed form.
    whole, outputs = floats(2, 5, 4, 3, 8), {"y": TensorProto.FLOAT}
    apart = {name: np.ascontiguousarray(whole[:, :, :, at]).reshape(2, 5, 32) for at, name in enumerate("qkv")}
    have = provider.session(
        model([made("MultiHeadAttention", "q", num_heads=4)], {"q": whole}, outputs, {}), {"take": "all"}
    )
    want = provider.plain(model([made("MultiHeadAttention", "q k v", num_heads=4)], apart, outputs, {}))
    assert provider.difference(have.run(None, {"q": whole})[0], want.run(None, apart)[0]) < 1e-5


def test_attention_of_an_encoder():
    weights, feeds, outputs = (
        {"w": floats(24, 96) * 0.2, "b": floats(96)},
        {"x": floats(2, 6, 24)},
        {"y": TensorProto.FLOAT},
    )
    check([made("Attention", "x w b", num_heads=4)], feeds, outputs, weights)
    check([made("Attention", "x w b", num_heads=4, unidirectional=1)], feeds, outputs, weights)
    mask = np.ones((2, 6), np.int32)
    mask[0, 3:] = 0
    check([made("Attention", "x w b mask", num_heads=4)], {**feeds, "mask": mask}, outputs, weights)


def test_a_query_that_sees_no_key():
    """Attention as networks are exported, with zeros instead of NaN, also where heads are too long for one operation."""
    nodes = [
        made("MatMul", "q k", "s", ""),
        made("Add", "s m", "a", ""),
        made("Softmax", "a", "p", "", axis=-1),
        made("IsNaN", "p", "n", ""),
        made("Where", "n zero p", "w", ""),
        made("MatMul", "w v", "y", ""),
    ]
    nodes[-1].name = "last"
    mask = np.zeros((1, 1, 3, 5), np.float32)
    mask[..., 1, :], mask[..., 2, 3:] = -np.inf, -np.inf
    for size in (8, 2056):
        feeds = {"q": floats(1, 2, 3, size), "k": floats(1, 2, size, 5) / size, "v": floats(1, 2, 5, 8), "m": mask}
        check(nodes, feeds, {"y": TensorProto.FLOAT}, {"zero": np.float32(0)})


def rotations(size, count=64):
    angles = np.arange(count)[:, None] / 100 ** (np.arange(size) / size)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def test_rotary_embedding():
    at = np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]], np.int64)
    for interleaved in (0, 1):
        for feeds in ({"x": floats(2, 5, 48)}, {"x": floats(2, 3, 5, 16)}):
            call = made("RotaryEmbedding", "x at cos sin", interleaved=interleaved)
            check([call], {**feeds, "at": at}, {"y": TensorProto.FLOAT}, rotations(8))
        call = made("RotaryEmbedding", "x at cos sin", interleaved=interleaved, num_heads=3, rotary_embedding_dim=8)
        check([call], {"x": floats(2, 5, 48), "at": at}, {"y": TensorProto.FLOAT}, rotations(4))


GROUPS = {"num_heads": 4, "kv_num_heads": 2}


def group_feeds(batch, queries, lengths, room, size=16):
    feeds = {
        "q": floats(batch, queries, 4 * size),
        "k": floats(batch, queries, 2 * size),
        "v": floats(batch, queries, 2 * size),
    }
    feeds |= {"pk": floats(batch, 2, room, size), "pv": floats(batch, 2, room, size)}
    return feeds | {"last": np.asarray(lengths, np.int32) - 1, "total": np.array(max(lengths), np.int32)}


def test_group_query_attention():
    outputs = {name: TensorProto.FLOAT for name in ("y", "nk", "nv")}
    for attributes in (
        {},
        {"local_window_size": 3},
        {"scale": 0.5},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ):
        if provider.VERSION < 24 and "local_window_size" in attributes:
            # ONNX Runtime 1.23 counts one key more.
            continue
        tables = rotations(8) if "do_rotary" in attributes else {}
        inputs = "q k v pk pv last total" + (" cos sin" if tables else "")
        call = made("GroupQueryAttention", inputs, "y nk nv", **GROUPS, **attributes)
        # A prompt, a token after 6, and one in sequences of different lengths.
        for feeds in (group_feeds(2, 6, [6, 6], 0), group_feeds(2, 1, [7, 7], 6), group_feeds(1, 1, [9], 8)):
            check([call], feeds, outputs, tables)
    packed = group_feeds(2, 1, [7, 7], 6)
    packed["q"] = np.concatenate([packed.pop(name) for name in "qkv"], axis=-1)
    check([made("GroupQueryAttention", "q - - pk pv last total", "y nk nv", **GROUPS)], packed, outputs)


def test_a_cache_that_is_shared():
    """Past and present share memory, and tokens come one after the other without a new plan."""
    inputs, tables, room = "q k v pk pv last total cos sin", rotations(8), 24
    call = made("GroupQueryAttention", inputs, "y nk nv", **GROUPS, do_rotary=1)
    outputs = {name: TensorProto.FLOAT for name in ("y", "nk", "nv")}
    shapes = group_feeds(1, 1, [1], room)
    data = model([call], shapes, outputs, tables)
    own, plain = provider.session(data, {"take": "all", "plans": "1"}), provider.plain(data)
    empty = np.zeros((1, 2, room, 16), np.float32)
    caches = [[ort.OrtValue.ortvalue_from_numpy(empty.copy()) for _ in range(2)] for _ in range(2)]
    for length in range(1, 20):
        feeds = group_feeds(1, 1, [length], room)
        results = []
        for session, cache in zip((own, plain), caches):
            binding = session.io_binding()
            for name in ("q", "k", "v", "last", "total"):
                binding.bind_cpu_input(name, feeds[name])
            for value, past, present in zip(cache, ("pk", "pv"), ("nk", "nv")):
                binding.bind_ortvalue_input(past, value)
                binding.bind_ortvalue_output(present, value)
            binding.bind_output("y")
            session.run_with_iobinding(binding)
            results.append(binding.get_outputs()[0].numpy())
        gap = provider.difference(*results)
        assert gap < 1e-5, f"token {length} differs by {gap}"
        for have, want in zip(*caches):
            assert provider.difference(have.numpy(), want.numpy()) < 1e-6


def test_norms_of_language_models():
    weights, x = {"s": floats(32)}, floats(2, 5, 32)
    outputs = {"y": TensorProto.FLOAT, "sum": TensorProto.FLOAT}
    call = made("SkipSimplifiedLayerNormalization", "x r s", "y - - sum", epsilon=1e-5)
    check([call], {"x": x, "r": floats(2, 5, 32)}, outputs, weights)
    call = made("SkipLayerNormalization", "x r s b", "y - - sum", epsilon=1e-5)
    check([call], {"x": x, "r": floats(2, 5, 32)}, outputs, {**weights, "b": floats(32)})
    call = made("SimplifiedLayerNormalization", "x s", "y", "", epsilon=1e-5)
    check([call], {"x": x}, {"y": TensorProto.FLOAT}, weights)


def test_norms_written_in_parts():
    """Squares as a power or a product, with a mean first or not, and a reader besides the norm, which stays in parts."""
    weights = {"s": floats(32), "b": floats(32), "two": np.float32(2), "e": np.float32(1e-5), "axes": np.array([-1])}

    def parts(x, square):
        inputs = f"{x} two" if square == "Pow" else f"{x} {x}"
        rows = (("q", square, inputs), ("m", "ReduceMean", "q axes"), ("a", "Add", "m e"), ("r", "Sqrt", "a"))
        return [made(operator, inputs, name, "") for name, operator, inputs in (*rows, ("n", "Div", f"{x} r"))]

    mean = helper.make_node("ReduceMean", ["x", "axes"], ["c"], name="mean")
    centered = [mean, made("Sub", "x c", "d", "")]
    for square in ("Pow", "Mul"):
        scaled = helper.make_node("Mul", ["n", "s"], ["y"], name="scaled")
        check([*parts("x", square), scaled], {"x": floats(3, 7, 32) + 2}, {"y": TensorProto.FLOAT}, weights)
        shifted = [
            helper.make_node("Mul", ["n", "s"], ["t"], name="scaled"),
            helper.make_node("Add", ["t", "b"], ["y"], name="shifted"),
        ]
        for outputs in ("y", "y d"):
            results = {name: TensorProto.FLOAT for name in outputs.split()}
            check([*centered, *parts("d", square), *shifted], {"x": floats(3, 7, 32) + 2}, results, weights)


def test_concatenations_that_grow():
    """Parts of a dense block: each is read alone, together with those before it, or is an output."""
    for batch in (1, 3):
        nodes, weights, last = [], {}, "x"
        for step in range(4):
            channels = 4 + 3 * step
            weights[f"w{step}"] = floats(3, channels, 3, 3)
            nodes.append(helper.make_node("Relu", [last], [f"r{step}"]))
            nodes.append(helper.make_node("Conv", [f"r{step}", f"w{step}"], [f"c{step}"], pads=[1] * 4))
            nodes.append(helper.make_node("Concat", [last, f"c{step}"], [f"d{step}"], axis=1))
            last = f"d{step}"
        # A part that begins two concatenations, the same part twice, another axis, and rows that are no images.
        nodes.append(helper.make_node("Concat", ["c1", "d0"], ["e"], axis=1))
        nodes.append(helper.make_node("Concat", ["c1", "c1"], ["f"], axis=1))
        nodes.append(helper.make_node("Concat", ["r3", "d2"], ["g"], axis=2))
        nodes.append(helper.make_node("Reshape", ["e", "shape"], ["flat"]))
        nodes.append(helper.make_node("Concat", ["flat", "flat"], ["h"], axis=0))
        weights["shape"] = np.array([-1, 5], np.int64)
        kind = TensorProto.FLOAT
        for outputs in ("d3 e f g h", "d0 d3 h", "c1 d1 d2 d3 e f g"):
            check(nodes, {"x": floats(batch, 4, 5, 5)}, {name: kind for name in outputs.split()}, weights)


def test_limits_of_every_kind():
    """Infinite limits, NaN, which has no effect, and limits in the wrong order, of which the upper one wins."""
    x = np.array([[np.inf, -np.inf, np.nan, 0, -3, 3e38, 2.5, 1.5]], np.float32)
    every = [np.inf, -np.inf, np.nan, -1.0, 2.0, None]
    for least, most in ((a, b) for a in every for b in every):
        limits = {name: of for name, of in (("a", least), ("b", most)) if of is not None}
        inputs = " ".join(name if name in limits else "-" for name in "ab")
        for kind in ("f4", "f2"):
            given = {name: np.array(of, kind) for name, of in limits.items()}
            with np.errstate(over="ignore"):
                feeds, node = {"x": x.astype(kind)}, made("Clip", f"x {inputs}", "y", "")
            check([node], feeds, {"y": KINDS[np.dtype(kind)]}, given, tolerance=0)
            # ONNX Runtime 1.23 does not distinguish scalars from unknown shapes.
            if provider.VERSION >= 24:
                check([node], {**feeds, **given}, {"y": KINDS[np.dtype(kind)]}, tolerance=0)


def test_large_numbers():
    """Nothing on the way to a result overflows."""
    x = np.array([[3e38, -3e38, 1.5, -1.5, np.nan]], np.float32)
    check([made("Celu", "x", "y", "", alpha=0.1)], {"x": x}, {"y": TensorProto.FLOAT})
    x = (floats(2, 3, 5, 4) * 2000).astype(np.float16)
    weights = {"s": floats(3).astype(np.float16), "b": floats(3).astype(np.float16)}
    check([made("InstanceNormalization", "x s b", "y", "")], {"x": x}, {"y": TensorProto.FLOAT16}, weights, 4e-3)
    x = np.array([np.nan, -2, 0], np.float16)
    check([made("Sign", "x", "y", "")], {"x": x}, {"y": TensorProto.FLOAT16})


def test_states_of_one_gate():
    """RNN in every direction, with each function, lengths, first states and weights that change."""
    size, width, outputs = 19, 7, {"y": TensorProto.FLOAT, "h": TensorProto.FLOAT}
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        weights = {"w": floats(count, size, width), "r": floats(count, size, size) * 0.3, "b": floats(count, 2 * size)}
        feeds = {"x": floats(5, 4, width)}
        more = {"n": np.array([5, 1, 3, 2], np.int32), "s": floats(count, 4, size)}
        for name in ("Tanh", "Relu", "Sigmoid"):
            of = {"hidden_size": size, "direction": direction, "activations": [name] * count}
            check([made("RNN", "x w r", "y h", "", **of)], feeds, outputs, weights)
            check([made("RNN", "x w r b n s", "y h", "", **of)], {**feeds, **more}, outputs, weights)
        of = {"hidden_size": size, "direction": direction}
        check([made("RNN", "x w r b - s", "y h", "", **of)], {**feeds, **weights, "s": more["s"]}, outputs)


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
