"""Models that leave sizes open: one subgraph, whatever the sizes, with CPUExecutionProvider's results."""

import gc
import sys

import ml_dtypes
import numpy as np
import onnxruntime as ort
import provider
from onnx import TensorProto, helper, numpy_helper
from session_tests import RANDOM, agree, model, resident

FLOAT = TensorProto.FLOAT
DOUBLE = TensorProto.DOUBLE


def floats(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def whole(data, feeds, left=0, groups=1):
    """A session that leaves this many nodes, with the right results for each of the feeds."""
    own, nodes = provider.reported(data)
    reasons = [f"{node['operator']}: {node['reason']}" for node in nodes if node["subgraph"] is None]
    assert len(reasons) == left, reasons
    found = {node["subgraph"] for node in nodes} - {None}
    assert len(found) == groups, found
    plain = provider.plain(data)
    for of in feeds:
        agree(own, plain, of)
    return own


def pyramid():
    """Five halvings, then twice × 2 joined with the level before."""
    nodes, weights, x, channels = [], [("up", np.array([1, 1, 2, 2], np.float32))], "x", 3
    for level in range(5):
        weights.append((f"w{level}", floats(8, channels, 3, 3) * 0.2))
        nodes.append(
            helper.make_node(
                "Conv",
                [x, f"w{level}"],
                [f"c{level}"],
                pads=[1] * 4,
                strides=[2, 2],
                kernel_shape=[3, 3],
                name=f"conv{level}",
            )
        )
        x, channels = f"c{level}", 8
    for level in (3, 2):
        nodes.append(helper.make_node("Resize", [x, "", "up"], [f"u{level}"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor", name=f"up{level}"))  # fmt: skip
        nodes.append(helper.make_node("Concat", [f"u{level}", f"c{level}"], [f"j{level}"], axis=1, name=f"join{level}"))
        weights.append((f"v{level}", floats(8, 16, 1, 1) * 0.2))
        nodes.append(helper.make_node("Conv", [f"j{level}", f"v{level}"], [f"o{level}"], name=f"out{level}"))
        x = f"o{level}"
    return model(nodes, [("x", FLOAT, ["N", 3, "H", "W"])], [(x, FLOAT)], weights)


def test_levels_of_an_image_fit():
    whole(pyramid(), [{"x": floats(1, 3, *size)} for size in ((64, 96), (320, 320), (64, 96))])


def test_a_long_window_fits():
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["u"], name="channel"),
        helper.make_node("Conv", ["u", "w"], ["c"], strides=[160], name="frames"),
        helper.make_node("Conv", ["c", "v"], ["d"], pads=[1, 1], name="mix"),
        helper.make_node("Relu", ["d"], ["y"], name="relu"),
    ]
    weights = [("axis", np.array([1])), ("w", floats(64, 1, 512) * 0.1), ("v", floats(64, 64, 3) * 0.1)]
    data = model(nodes, [("x", FLOAT, ["batch", "samples"])], [("y", FLOAT)], weights)
    whole(data, [{"x": floats(2, 4000)}, {"x": floats(1, 16000)}])


def test_a_table_of_positions_is_long_enough():
    """A slice of a table of 80 rows by the length of the input."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1, end=2, name="shape"),
        helper.make_node("Slice", ["table", "zero", "s", "zero"], ["p"], name="rows"),
        helper.make_node("Add", ["x", "p"], ["a"], name="add"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="product"),
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ]
    weights = [("table", floats(80, 64)), ("zero", np.array([0])), ("w", floats(64, 512))]
    data = model(nodes, [("x", FLOAT, ["batch", "length", 64])], [("y", FLOAT)], weights)
    whole(data, [{"x": floats(2, 33, 64)}, {"x": floats(1, 80, 64)}])


def test_what_is_behind_an_unknown_size_is_taken():
    """The number of columns is not known; the branches behind it are joined."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"], name="nonzero"),
        helper.make_node("Cast", ["n"], ["f"], to=FLOAT, name="cast"),
        helper.make_node("MatMul", ["w", "f"], ["a"], name="first"),
        helper.make_node("MatMul", ["v", "f"], ["b"], name="second"),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=0, name="join"),
        helper.make_node("MatMul", ["u", "c"], ["y"], name="third"),
    ]
    weights = [("w", floats(48, 2)), ("v", floats(16, 2)), ("u", floats(256, 64))]
    data = model(nodes, [("x", FLOAT, ["N", "M"])], [("y", FLOAT)], weights)
    whole(data, [{"x": floats(9, 11)}, {"x": floats(30, 3)}])


def test_shapes_are_built_from_ranges_and_fills():
    """A grid of positions, as detectors make it."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Shape", ["c"], ["s"], name="shape"),
        helper.make_node("Gather", ["s", "three"], ["n"], name="width"),
        helper.make_node("Cast", ["n"], ["f"], to=FLOAT, name="number"),
        helper.make_node("Range", ["zero", "f", "one"], ["r"], name="range"),
        helper.make_node("ConstantOfShape", ["s"], ["o"], name="zeros"),
        helper.make_node("Add", ["o", "r"], ["g"], name="grid"),
        helper.make_node("Add", ["c", "g"], ["y"], name="sum"),
    ]
    weights = [("w", floats(32, 16, 1, 1)), ("three", np.array(3)), ("zero", np.float32(0)), ("one", np.float32(1))]
    data = model(nodes, [("x", FLOAT, [1, 16, "H", "W"])], [("y", FLOAT)], weights)
    whole(data, [{"x": floats(1, 16, 24, 20)}, {"x": floats(1, 16, 40, 33)}])
    nodes[3:5] = [
        helper.make_node("Cast", ["n"], ["f"], to=DOUBLE, name="number"),
        helper.make_node("Range", ["zero", "f", "one"], ["d"], name="range"),
        helper.make_node("Cast", ["d"], ["r"], to=FLOAT, name="single"),
    ]
    weights[2:] = [("zero", np.float64(0)), ("one", np.float64(1))]
    data = model(nodes, [("x", FLOAT, [1, 16, "H", "W"])], [("y", FLOAT)], weights)
    whole(data, [{"x": floats(1, 16, 24, 20)}, {"x": floats(1, 16, 40, 33)}])


def test_voices_have_states():
    """Padding, a convolution and an LSTM with a state of zeros in the shape of the batch."""
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect", name="pad"),
        helper.make_node("Conv", ["p", "w"], ["c"], strides=[4], name="conv"),
        helper.make_node("Transpose", ["c"], ["t"], perm=[2, 0, 1], name="turn"),
        helper.make_node("Shape", ["x"], ["n"], start=0, end=1, name="batch"),
        helper.make_node("Concat", ["one", "n", "size"], ["s"], axis=0, name="sizes"),
        helper.make_node("ConstantOfShape", ["s"], ["h"], name="zeros"),
        helper.make_node("LSTM", ["t", "wi", "wr", "b", "", "h", "h"], ["y", "", "z"], hidden_size=48, name="lstm"),
    ]
    weights = [
        ("pads", np.array([0, 0, 3, 0, 0, 3])), ("w", floats(32, 8, 7) * 0.2), ("one", np.array([1])), ("size", np.array([48])),
        ("wi", floats(1, 192, 32) * 0.2), ("wr", floats(1, 192, 48) * 0.2), ("b", floats(1, 384) * 0.2),
    ]  # fmt: skip
    outputs = [("y", FLOAT), ("z", FLOAT)]
    data = model(nodes, [("x", FLOAT, ["batch", 8, "length"])], outputs, weights)
    whole(data, [{"x": floats(2, 8, 100)}, {"x": floats(1, 8, 400)}])


def as_written(data):
    """Sessions with the provider and without, of the model as it is written: ONNX Runtime folds no constants."""
    sessions = []
    for is_own in (True, False):
        of = provider.options()
        of.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if is_own:
            of.add_provider_for_devices(provider.DEVICES, {"take": "all"})
        of_plain = {} if is_own else {"providers": ["CPUExecutionProvider"]}
        sessions.append(ort.InferenceSession(data, of, enable_fallback=0, **of_plain))
    return sessions


def test_padding_is_computed_of_constants():
    """As PyTorch exports it: pairs in reverse order. The second padding passes through nodes that are no part of a shape elsewhere."""
    nodes = [
        helper.make_node("Reshape", ["pairs", "rows"], ["r"], name="rows"),
        helper.make_node("Slice", ["r", "last", "first", "zero", "back"], ["v"], name="reverse"),
        helper.make_node("Transpose", ["v"], ["t"], perm=[1, 0], name="turn"),
        helper.make_node("Reshape", ["t", "all"], ["p"], name="flat"),
        helper.make_node("Pad", ["x", "p"], ["a"], mode="reflect", name="pad"),
        helper.make_node("Abs", ["p"], ["q"], name="size"),
        helper.make_node("Pad", ["a", "q"], ["b"], mode="edge", name="more"),
        helper.make_node("Conv", ["b", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    weights = [
        ("pairs", np.array([3, 2, 0, 0, 0, 0])), ("rows", np.array([-1, 2])), ("last", np.array([-1])), ("all", np.array([-1])),
        ("first", np.array([np.iinfo(np.int64).min + 1])), ("zero", np.array([0])), ("back", np.array([-1])), ("w", floats(8, 4, 5)),
    ]  # fmt: skip
    data = model(nodes, [("x", FLOAT, ["N", 4, "L"])], [("y", FLOAT)], weights)
    own, plain = as_written(data)
    for sizes in ((1, 4, 20), (2, 4, 33)):
        agree(own, plain, {"x": floats(*sizes)})


def test_images_are_enlarged_between_convolutions():
    """In one subgraph with them, in both layouts, and made smaller."""
    for operator, attributes, last in (
        ("Resize", {"mode": "linear"}, np.array([1, 1, 2, 2], np.float32)),
        (
            "Resize",
            {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
            np.array([1, 1, 1.5, 3], np.float32),
        ),
        ("Resize", {"mode": "nearest", "nearest_mode": "ceil"}, np.array([1, 1, 0.5, 1.5], np.float32)),
    ):
        nodes = [
            helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4, name="first"),
            helper.make_node(operator, ["a", "", "scales"], ["b"], name="resize", **attributes),
            helper.make_node("Conv", ["b", "w"], ["y"], pads=[1] * 4, name="second"),
        ]
        weights = [("v", floats(16, 16, 3, 3) * 0.2), ("scales", last), ("w", floats(8, 16, 3, 3) * 0.2)]
        data = model(nodes, [("x", FLOAT, ["N", 16, "H", "W"])], [("y", FLOAT)], weights)
        whole(data, [{"x": floats(1, 16, 24, 20)}, {"x": floats(2, 16, 40, 33)}])


def test_messages_are_added_at_the_nodes_of_a_graph():
    """A network of a graph whose numbers of nodes and edges are open: what edges carry is added up at their ends."""
    nodes = [
        helper.make_node("Gather", ["x", "from"], ["a"], name="ends"),
        helper.make_node("MatMul", ["a", "v"], ["m"], name="message"),
        helper.make_node("Unsqueeze", ["to", "one"], ["u"], name="column"),
        helper.make_node("Expand", ["u", "wide"], ["e"], name="columns"),
        helper.make_node("Mul", ["x", "nothing"], ["z"], name="zeros"),
        helper.make_node("ScatterElements", ["z", "e", "m"], ["s"], axis=0, reduction="add", name="sums"),
        helper.make_node("Gemm", ["s", "w"], ["g"], transB=1, name="update"),
        helper.make_node("Relu", ["g"], ["y"], name="relu"),
    ]
    weights = [
        ("v", floats(32, 32)), ("one", np.array([1])), ("wide", np.array([1, 32])), ("nothing", np.float32(0)), ("w", floats(64, 32)),
    ]  # fmt: skip
    values = [("x", FLOAT, ["nodes", 32]), ("from", TensorProto.INT64, ["edges"]), ("to", TensorProto.INT64, ["edges"])]
    data = model(nodes, values, [("y", FLOAT)], weights)

    def feeds(count, edges):
        ends = {name: RANDOM.integers(0, count, edges) for name in ("from", "to")}
        return {"x": floats(count, 32), **ends}

    whole(data, [feeds(50, 400), feeds(7, 30)])


def products(count, size, seed):
    """Layers whose number of rows is open."""
    nodes, weights, x, random = [], [], "x", np.random.default_rng(seed)
    for at in range(count):
        weights.append((f"w{at}", random.standard_normal((size, size)).astype(np.float32) * 1.4 / size**0.5))
        nodes.append(helper.make_node("MatMul", [x, f"w{at}"], [f"p{at}"], name=f"product{at}"))
        nodes.append(helper.make_node("Relu", [f"p{at}"], [f"y{at}"], name=f"relu{at}"))
        x = f"y{at}"
    return model(nodes, [("x", FLOAT, ["N", size])], [(x, FLOAT)], weights)


def test_plans_of_all_lengths_share_their_weights():
    count, size = 8, 768
    data = products(count, size, 1)
    own, plain = provider.session(data, {"take": "all", "plans": "64"}, 1), provider.plain(data, 1)
    agree(own, plain, {"x": floats(3, size)})
    before = resident()
    for rows in range(20, 60):
        own.run(None, {"x": floats(rows, size)})
    # Each plan would have packed all weights.
    of_weights = 4 * count * size * size
    assert resident() - before < 4 * of_weights, f"{(resident() - before) >> 20} MiB for 40 plans"
    for rows in (1, 2, 4, 16, 25, 300):
        agree(own, plain, {"x": floats(rows, size)})


def test_weights_of_sessions_that_ended_are_forgotten():
    """Whose memory the next ones get."""
    for seed in range(6):
        data = products(3, 256, seed)
        own, plain = provider.session(data, {"take": "all"}, 1), provider.plain(data, 1)
        for rows in (5, 40, 5):
            agree(own, plain, {"x": floats(rows, 256)})
        del own
        gc.collect()


def test_threads_make_plans_for_their_lengths():
    data = products(4, 128, 2)
    own, plain, wrong = provider.session(data, {"take": "all"}, 1), provider.plain(data, 1), []
    feeds = [{"x": floats(rows, 128)} for rows in range(1, 60)]
    wanted = [plain.run(None, of)[0] for of in feeds]

    def work(seed):
        for at in np.random.default_rng(seed).permutation(len(feeds)):
            gap = provider.difference(own.run(None, feeds[at])[0], wanted[at])
            if not gap < 1e-5:
                wrong.append((at, gap))

    provider.in_threads(work, 6)
    assert not wrong, wrong


def test_weights_of_4_bits_are_dequantized():
    """In blocks, whose scales and zero points are constants; ONNX Runtime multiplies bytes instead."""
    random, (depth, columns, block) = np.random.default_rng(4), (64, 24, 16)
    for kind, limits in ((ml_dtypes.int4, (-8, 8)), (ml_dtypes.uint4, (0, 16))):
        weights, zeros = (random.integers(*limits, (rows, columns)) for rows in (depth, depth // block))
        scales = (random.random((depth // block, columns)) * 0.1).astype(np.float32)
        nodes = [
            helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=block),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ]
        pairs = (("w", weights.astype(kind)), ("s", scales), ("z", zeros.astype(kind)))
        graph = helper.make_graph(
            nodes,
            "of 4 bits",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", depth])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])],
            [numpy_helper.from_array(array, name) for name, array in pairs],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        own, seen = provider.reported(model.SerializeToString(), {"take": "all"})
        assert [node["subgraph"] for node in seen] == [0, 0], seen
        numbers = (weights - zeros.repeat(block, 0)) * scales.repeat(block, 0)
        for rows in (1, 9):
            x = random.standard_normal((rows, depth)).astype(np.float32)
            assert provider.difference(own.run(None, {"x": x})[0], (x @ numbers).astype(np.float32)) < 1e-5


def test_floats_between_shapes_divide_nothing():
    """The padding that fills the last window, by a quotient rounded up; and that to whole windows, by a rest."""
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=2, end=3),
        helper.make_node("Cast", ["length"], ["l"], to=FLOAT),
        helper.make_node("Div", ["l", "four"], ["q"]),
        helper.make_node("Ceil", ["q"], ["c"]),
        helper.make_node("Mul", ["c", "four"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["w"], to=TensorProto.INT64),
        helper.make_node("Sub", ["w", "length"], ["more"]),
        helper.make_node("Concat", ["zeros", "more"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"),
        helper.make_node("Conv", ["p", "k"], ["y"], strides=[4]),
        helper.make_node("Shape", ["y"], ["s"], start=2, end=3),
        helper.make_node("Mod", ["s", "seven"], ["rest"]),
        helper.make_node("Sub", ["seven", "rest"], ["lack"]),
        helper.make_node("Mod", ["lack", "seven"], ["last"]),
        helper.make_node("Concat", ["zeros", "last"], ["pads2"], axis=0),
        helper.make_node("Pad", ["y", "pads2"], ["p2"]),
        helper.make_node("Reshape", ["p2", "windows"], ["z"]),
        helper.make_node("MatMul", ["z", "v"], ["out"]),
    ]
    weights = [
        ("four", np.array([4], np.float32)),
        ("zeros", np.zeros(5, np.int64)),
        ("seven", np.array([7])),
        ("windows", np.array([0, 32, -1, 7])),
        ("k", floats(32, 3, 4)),
        ("v", floats(7, 64)),
    ]
    data = model(nodes, [("x", FLOAT, ["batch", 3, "length"])], [("out", FLOAT)], weights)
    whole(data, [{"x": floats(1, 3, length)} for length in (1001, 64, 4003, 28)])


def test_shapes_are_split_and_cut_to_nothing():
    """As ONNX Runtime saves reads of several sizes, and as a tensor is cut before sizes that are not there."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Split", ["s", "ones"], ["a", "b", "c"]),
        helper.make_node("Mul", ["b", "c"], ["bc"]),
        helper.make_node("Slice", ["s", "three", "end"], ["none"]),
        helper.make_node("Concat", ["a", "bc", "none"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["flat"]),
        helper.make_node("Concat", ["a", "b", "c"], ["back"], axis=0),
        helper.make_node("Relu", ["flat"], ["r"]),
        helper.make_node("Reshape", ["r", "back"], ["y"]),
        helper.make_node("MatMul", ["y", "w"], ["z"]),
    ]
    weights = [
        ("ones", np.ones(3, np.int64)),
        ("three", np.array([3])),
        ("end", np.array([1 << 40])),
        ("w", floats(64, 256)),
    ]
    data = model(nodes, [("x", FLOAT, ["batch", "rows", 64])], [("z", FLOAT)], weights)
    whole(data, [{"x": floats(*dims, 64)} for dims in ((1, 200), (3, 7), (2, 1))])


def test_integers_of_data_are_no_shape():
    """More than a shape has, whose number of dimensions is not known, as a node left to others makes them."""
    nodes = [
        helper.make_node("CDist", ["x", "x"], ["d"], domain="com.microsoft"),
        helper.make_node("Cast", ["d"], ["i"], to=TensorProto.INT32),
        helper.make_node("Add", ["i", "one"], ["j"]),
        helper.make_node("Cast", ["j"], ["f"], to=FLOAT),
        helper.make_node("Mul", ["f", "f"], ["g"]),
        helper.make_node("Sqrt", ["g"], ["z"]),
    ]
    weights = [("one", np.ones((1, 1), np.int32))]
    data = model(nodes, [("x", FLOAT, ["rows", 3])], [("z", FLOAT)], weights)
    own, seen = provider.reported(data, {"take": "all"})
    assert any(node["subgraph"] is not None for node in seen), seen
    agree(own, provider.plain(data), {"x": floats(90, 3)})


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
