"""Operators of detectors: images sampled at places, and results that are counted at the end. They match CPUExecutionProvider's, every node computed here."""

import sys
import tempfile

import numpy as np
import onnxruntime as ort
import provider
from onnx import TensorProto, helper
from operator_tests import KINDS, RANDOM, check, floats, made, model
from session_tests import compiled


def test_places_of_a_grid():
    x, grid = floats(2, 3, 7, 5), floats(2, 9, 11, 2) * 0.9
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                of = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                check([made("GridSample", "x g", "y", "", **of)], {"x": x, "g": grid}, {"y": TensorProto.FLOAT})
    volume = {"x": floats(1, 2, 4, 5, 6), "g": floats(1, 3, 4, 5, 3)}
    check([made("GridSample", "x g", "y", "", mode="linear")], volume, {"y": TensorProto.FLOAT})


def test_boxes_that_overlap():
    """A result whose rows are counted at the end, and nodes that read it."""
    corners = RANDOM.random((2, 60, 2)).astype(np.float32)
    feeds = {
        "boxes": np.concatenate([corners, corners + RANDOM.random((2, 60, 2)).astype(np.float32) * 0.4], -1),
        "scores": RANDOM.random((2, 3, 60)).astype(np.float32).round(1),
    }
    limits = {"most": np.array([9], np.int64), "iou": np.array([0.3], np.float32), "least": np.array([0.4], np.float32)}
    outputs = {"y": TensorProto.INT64}
    for inputs in ("boxes scores most iou least", "boxes scores most iou", "boxes scores most", "boxes scores"):
        for centered in (0, 1):
            node = made("NonMaxSuppression", inputs, "y", "", center_point_box=centered)
            own = {name: of for name, of in limits.items() if name in inputs.split()}
            check([node], feeds, outputs, own)
            check([node], {**feeds, **own}, outputs)
    none = {**limits, "least": np.array([2], np.float32)}
    node = made("NonMaxSuppression", "boxes scores most iou least", "y", "")
    check([node], feeds, outputs, none)
    weights = {**limits, "two": np.array([2], np.int64), "table": floats(60, 4)}
    readers = [
        made("Sigmoid", "scores", "s", ""),
        made("NonMaxSuppression", "boxes s most iou least", "y", ""),
        helper.make_node("Gather", ["y", "two"], ["i"], name="columns", axis=1),
        made("Gather", "table i", "t", "", axis=0),
        made("Exp", "t", "z", ""),
    ]
    check(readers, feeds, {**outputs, "z": TensorProto.FLOAT}, weights)


def test_many_boxes():
    """Thousands of boxes of classes that lie apart, as detectors move them, are worth a subgraph of their own."""
    corners = RANDOM.random((1, 3000, 2)).astype(np.float32)
    corners = np.concatenate([corners, corners + RANDOM.random((1, 3000, 2)).astype(np.float32) * 0.4], -1)
    feeds = {
        "boxes": corners,
        "class": RANDOM.integers(0, 30, (1, 3000, 1)).astype(np.float32),
        "x": floats(1, 1, 3000),
    }
    weights = {"most": np.array([3000]), "iou": np.float32(0.4), "two": np.float32(2)}
    nodes = [
        made("Mul", "class two", "m", ""),
        made("Add", "boxes m", "b", ""),
        made("Sigmoid", "x", "s", ""),
        made("NonMaxSuppression", "b s most iou", "y", ""),
    ]
    data = model(nodes, feeds, {"y": TensorProto.INT64}, weights)
    own, seen = provider.reported(data)
    assert {node["subgraph"] for node in seen} == {0}, [node["reason"] for node in seen]
    assert np.array_equal(own.run(None, feeds)[0], provider.plain(data).run(None, feeds)[0])


def test_regions_of_images():
    """Regions inside of an image, across its edges, beyond it, and empty; both layouts of the image, by the number of regions."""
    corners = RANDOM.random((40, 4)).astype(np.float32) * 24 - 4
    corners[:5, 2:] = corners[:5, :2]
    corners[5:, 2:] = corners[5:, :2] + RANDOM.random((35, 2)).astype(np.float32) * 20
    for count in (40, 1):
        feeds = {"x": floats(2, 19, 9, 13), "r": corners[:count], "i": RANDOM.integers(0, 2, count)}
        for samples in (0, 2, 3):
            for mode, result in (("half_pixel", "avg"), ("output_half_pixel", "avg"), ("half_pixel", "max")):
                of = {"sampling_ratio": samples, "coordinate_transformation_mode": mode, "spatial_scale": 0.6}
                of["mode"] = result
                node = made("RoiAlign", "x r i", "y", "", output_height=5, output_width=4, **of)
                check([node], feeds, {"y": TensorProto.FLOAT})
                # An image whose channels are last in memory, read where it is.
                turned = [
                    made("Transpose", "x", "c", "", perm=[0, 3, 1, 2]),
                    made("RoiAlign", "c r i", "y", "", output_height=3, **of),
                ]
                last = {**feeds, "x": np.ascontiguousarray(feeds["x"].transpose(0, 2, 3, 1))}
                check(turned, last, {"y": TensorProto.FLOAT})
    # Bins much longer than the image, whose samples are beyond it for the most part.
    long = np.array([[-30000, -2, 30000, 11], [-9, -12000, 12, 9000]], np.float32)
    feeds = {"x": floats(1, 3, 9, 13), "r": long, "i": np.zeros(2, np.int64)}
    for mode in ("avg", "max"):
        node = made("RoiAlign", "x r i", "y", "", output_height=2, output_width=3, mode=mode)
        check([node], feeds, {"y": TensorProto.FLOAT}, tolerance=1e-4)


def deformed(x, w, offset, bias, mask, groups, offset_groups, strides, pads, dilations):
    """The definition of DeformConv, element by element."""
    (n, c, height, width), (filters, _, tall, wide) = x.shape, w.shape
    y = np.zeros((n, filters, *offset.shape[2:]), np.float64)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 2), (1, 2)))
    for at in np.ndindex(n, *y.shape[2:], tall * wide, c):
        item, row, column, tap, channel = at
        index = channel * offset_groups // c * tall * wide + tap
        place = (item, slice(2 * index, 2 * index + 2), row, column)
        window = np.array(
            [row * strides[0] + tap // wide * dilations[0], column * strides[1] + tap % wide * dilations[1]]
        )
        p = window - pads[:2] + offset[place].astype(np.float64)
        if not (-1 < p[0] < height and -1 < p[1] < width):
            continue
        low = np.floor(p).astype(int)
        (a, b), plane = p - low, padded[item, channel, low[0] + 1 : low[0] + 3, low[1] + 1 : low[1] + 3]
        value = np.array([1 - a, a]) @ plane @ np.array([1 - b, b])
        value *= 1 if mask is None else mask[item, index, row, column]
        group = channel // (c // groups)
        own = slice(group * filters // groups, (group + 1) * filters // groups)
        y[item, own, row, column] += w[own, channel % (c // groups), tap // wide, tap % wide] * value
    return y + (0 if bias is None else bias[:, None, None])


def test_windows_that_are_deformed():
    """DeformConv by its definition: CPUExecutionProvider of older releases lacks it."""
    for groups, offset_groups, strides, dilations in (
        (1, 1, [1, 1], [1, 1]),
        (2, 1, [2, 1], [1, 2]),
        (2, 4, [1, 2], [2, 1]),
    ):
        of = {
            "group": groups,
            "offset_group": offset_groups,
            "strides": strides,
            "dilations": dilations,
            "pads": [1, 0, 1, 2],
        }
        x, w, bias = floats(2, 8, 7, 6), floats(6, 8 // groups, 3, 2), floats(6)
        rows = (7 + 2 - 2 * dilations[0] - 1) // strides[0] + 1
        columns = (6 + 2 - dilations[1] - 1) // strides[1] + 1
        offset, mask = floats(2, offset_groups * 12, rows, columns) * 2, floats(2, offset_groups * 6, rows, columns)
        feeds, outputs = {"x": x, "o": offset, "m": mask}, {"y": TensorProto.FLOAT}
        for inputs, weights in (("x w o", {"w": w}), ("x w o b m", {"w": w, "b": bias}), ("x w o - m", {})):
            given = {**feeds, **({} if weights else {"w": w})}
            given = {name: array for name, array in given.items() if name in inputs.split()}
            data = model([made("DeformConv", inputs, "y", "", **of)], given, outputs, weights)
            own, seen = provider.reported(data, {"take": "all"})
            assert seen[0]["subgraph"] == 0, seen[0]["reason"]
            own_bias, own_mask = bias if "b" in inputs.split() else None, mask if "m" in inputs else None
            want = deformed(x, w, offset, own_bias, own_mask, groups, offset_groups, strides, [1, 0, 1, 2], dilations)
            gap = provider.difference(own.run(None, given)[0], want.astype(np.float32))
            assert gap < 1e-5, f"{inputs} in {groups} and {offset_groups} groups differs by {gap}"


def test_large_images_that_are_deformed():
    """Images computed one after the other, as their samples take much memory, are those of each alone."""
    weights, outputs = {"w": floats(4, 8, 3, 3), "b": floats(4)}, {"y": TensorProto.FLOAT}
    feeds = {"x": floats(3, 8, 700, 700), "o": floats(3, 18, 700, 700), "m": floats(3, 9, 700, 700)}
    node = made("DeformConv", "x w o b m", "y", "", pads=[1] * 4)

    def run(fed):
        return provider.session(model([node], fed, outputs, weights), {"take": "all"}).run(None, fed)[0]

    alone = [run({name: array[at : at + 1] for name, array in feeds.items()}) for at in range(3)]
    assert provider.difference(run(feeds), np.concatenate(alone)) < 1e-6


def test_elements_that_are_counted():
    """Indices and parts whose number is known at the end, of none to all elements, along each axis, and nodes that read them."""
    for kind in ("f4", "i8", "i4", "u1", "?"):
        for share in (0.0, 0.3, 1.0):
            for dims in ((7,), (3, 5), (2, 3, 4)):
                x = ((RANDOM.random(dims) < share) * 5).astype(kind)
                check([made("NonZero", "x", "y", "")], {"x": x}, {"y": TensorProto.INT64})
    x = floats(3, 5, 4)
    for share in (0.0, 0.5, 1.0):
        for axis, size in ((0, 3), (1, 4), (2, 4), (-1, 2), (None, 50)):
            of = {} if axis is None else {"axis": axis}
            feeds = {"x": x, "c": RANDOM.random(size) < share}
            check([made("Compress", "x c", "y", "", **of)], feeds, {"y": TensorProto.FLOAT})
    weights = {"least": np.float32(0.4), "table": floats(60, 6), "w": floats(6, 3), "one": np.array([1])}
    readers = [
        made("Greater", "x least", "c", ""),
        made("NonZero", "c", "n", ""),
        made("Squeeze", "n", "i", ""),
        made("Gather", "table i", "t", "", axis=0),
        made("MatMul", "t w", "z", ""),
        made("Compress", "x c", "s", "", axis=0),
        made("Exp", "s", "e", ""),
    ]
    check(readers, {"x": floats(60)}, {"z": TensorProto.FLOAT, "e": TensorProto.FLOAT}, weights)


def test_different_elements():
    """Elements and parts without their equals, sorted or as they come, with all or some of the results, and nodes that read them."""
    kinds = {"y": TensorProto.FLOAT, **dict.fromkeys("icn", TensorProto.INT64)}
    for kind in ("f4", "f2", "i8", "i1"):
        for most in (1, 3, 90):
            for dims, axes in (((7,), (None, 0)), ((5, 3), (None, 0, -1)), ((2, 6, 2), (None, 0, 1, 2))):
                x = RANDOM.integers(0, most, dims).astype(kind)
                for axis in axes:
                    of = {"sorted": int(most != 3), **({} if axis is None else {"axis": axis})}
                    check([made("Unique", "x", "y i c n", "", **of)], {"x": x}, {**kinds, "y": KINDS[x.dtype]})
    special = np.array([1, np.nan, -0.0, 0, -np.inf, np.nan, 1, np.inf], np.float32)
    for x in (special, special[1:], special[::-1].copy()):
        check([made("Unique", "x", "y i c n", "")], {"x": x}, kinds)
    x = RANDOM.integers(0, 5, (40, 2)).astype(np.float32)
    check([made("Unique", "x", "y - c", "", axis=0)], {"x": x}, {name: kinds[name] for name in "yc"})
    check([made("Unique", "x", "y - - n", "", sorted=0)], {"x": x}, {name: kinds[name] for name in "yn"})
    readers = [
        made("Unique", "x", "y i c n", "", axis=0),
        made("Gather", "table i", "t", "", axis=0),
        made("MatMul", "t w", "z", ""),
        helper.make_node("Gather", ["y", "c"], ["again"], name="again", axis=0),
        made("Sub", "again x", "d", ""),
        made("ReduceSum", "n", "s", ""),
    ]
    outputs = {"z": TensorProto.FLOAT, "d": TensorProto.FLOAT, "s": TensorProto.INT64, "i": TensorProto.INT64}
    check(readers, {"x": x}, outputs, {"table": floats(40, 6), "w": floats(6, 3)})


def test_sums_of_halves():
    """Sums and products of 16-bit floats, which CPUExecutionProvider lacks: those of single precision, rounded."""
    x, updates = (floats(6, 4).astype(np.float16) for _ in range(2))
    rows = RANDOM.integers(-6, 6, (6, 1))
    for reduction, update in (("add", np.add), ("mul", np.multiply), ("max", np.maximum)):
        want = x.astype(np.float32)
        update.at(want, rows[:, 0], updates.astype(np.float32))
        everywhere = np.broadcast_to(rows, x.shape).copy()
        for operator, indices in (("ScatterND", rows), ("ScatterElements", everywhere)):
            feeds = {"x": x, "i": indices, "u": updates}
            nodes = [made(operator, "x i u", "y", "", reduction=reduction)]
            data = model(nodes, feeds, {"y": TensorProto.FLOAT16}, {})
            own, seen = provider.reported(data, {"take": "all"})
            assert seen[0]["subgraph"] == 0, seen[0]["reason"]
            assert np.array_equal(own.run(None, feeds)[0], want.astype(np.float16)), (operator, reduction)


def test_what_follows_a_count_is_in_the_same_subgraph():
    """Steps of one subgraph, each with the sizes of the one before; a result that is read later; runs with other counts; no element."""
    weights = {
        "least": np.float32(0.4),
        "table": floats(600, 24),
        "w": floats(24, 32),
        "v": floats(32, 8),
        "k": np.int64(5),
    }
    nodes = [
        made("Greater", "x least", "c", ""),
        made("NonZero", "c", "n", ""),
        made("Squeeze", "n", "i", ""),
        made("Gather", "table i", "t", "", axis=0),
        made("MatMul", "t w", "z", ""),
        made("ReduceMax", "z", "m", "", keepdims=0),
        made("GreaterOrEqual", "z m", "g", ""),
        made("NonZero", "g", "p", ""),
        made("MatMul", "z v", "y", ""),
        made("Shape", "y", "s", ""),
        made("Expand", "x1 s", "e", ""),
        made("Mul", "e y", "q", ""),
    ]
    for at, node in enumerate(nodes):
        node.name = f"{node.op_type}_{at}"
    feeds = {"x": floats(600), "x1": floats(1, 1)}
    outputs = {"z": TensorProto.FLOAT, "p": TensorProto.INT64, "q": TensorProto.FLOAT}
    data = model(nodes, feeds, outputs, weights)
    own, seen = provider.reported(data)
    assert {node["subgraph"] for node in seen} == {0}, [(node["name"], node["reason"]) for node in seen]
    plain = provider.plain(data)
    for scale in (1, 3, 0.2, 1, 0.5):
        fed = {**feeds, "x": feeds["x"] * np.float32(scale)}
        for have, want in zip(own.run(None, fed), plain.run(None, fed)):
            assert provider.difference(have, want) < 1e-5
    with tempfile.TemporaryDirectory() as folder:
        loaded = provider.session(compiled(data, folder, True))
        for have, want in zip(loaded.run(None, feeds), plain.run(None, feeds)):
            assert provider.difference(have, want) < 1e-5
    # A result in the memory of an input that a later step reads.
    nodes = [
        made("Exp", "x", "y", ""),
        made("NonZero", "x", "n", ""),
        made("Transpose", "n", "i", ""),
        made("GatherND", "x i", "g", ""),
        made("Sqrt", "g", "q", ""),
    ]
    outputs = {"y": TensorProto.FLOAT, "q": TensorProto.FLOAT}
    x = np.abs(floats(600, 400))
    data = model(nodes, {"x": x}, outputs, {})
    want = provider.plain(data).run(None, {"x": x})
    own = provider.session(data, {"take": "all"})
    bound, binding = ort.OrtValue.ortvalue_from_numpy(x.copy()), own.io_binding()
    binding.bind_ortvalue_input("x", bound)
    binding.bind_ortvalue_output("y", bound)
    binding.bind_output("q")
    own.run_with_iobinding(binding)
    for have, right in zip(binding.get_outputs(), want):
        assert provider.difference(have.numpy(), right) < 1e-6


def test_constants_that_are_counted():
    """A count of constants, which ONNX Runtime would fold, is known before nodes that read it are planned."""
    own = provider.options()
    own.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    own.add_provider_for_devices(provider.DEVICES, {"take": "all"})
    nodes = [
        made("NonZero", "c", "n", ""),
        made("Squeeze", "n", "i", ""),
        made("Gather", "x i", "t", "", axis=0),
        made("Exp", "t", "y", ""),
    ]
    feeds = {"x": floats(5, 40)}
    data = model(nodes, feeds, {"y": TensorProto.FLOAT}, {"c": np.array([0, 3, 0, 1, 2], np.int64)})
    have = ort.InferenceSession(data, own, enable_fallback=0).run(None, feeds)[0]
    assert provider.difference(have, np.exp(feeds["x"][[1, 3, 4]])) < 1e-5


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
