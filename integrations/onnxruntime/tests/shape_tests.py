"""Models that leave sizes open: one subgraph, whatever the sizes, with CPUExecutionProvider's results."""

import sys

import numpy as np
import provider
from onnx import TensorProto, helper
from session_tests import RANDOM, agree, model

FLOAT = TensorProto.FLOAT


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
    """NonZero is left, and its number of columns is not known; the branches behind it are joined."""
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
    whole(data, [{"x": floats(9, 11)}, {"x": floats(30, 3)}], left=1)


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


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
