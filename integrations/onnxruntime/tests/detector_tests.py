"""Operators of detectors: images sampled at places, boxes. They match CPUExecutionProvider's, every node computed here."""

import sys

import numpy as np
import provider
from onnx import TensorProto, helper
from operator_tests import RANDOM, check, floats, made


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


def test_regions_of_images():
    """Regions inside of an image, across its edges, beyond it, and empty; both layouts of the image, by the number of regions."""
    corners = RANDOM.random((40, 4)).astype(np.float32) * 24 - 4
    corners[:5, 2:] = corners[:5, :2]
    corners[5:, 2:] = corners[5:, :2] + RANDOM.random((35, 2)).astype(np.float32) * 20
    for count in (40, 1):
        feeds = {"x": floats(2, 19, 9, 13), "r": corners[:count], "i": RANDOM.integers(0, 2, count)}
        for samples in (0, 2, 3):
            for mode in ("half_pixel", "output_half_pixel"):
                of = {"sampling_ratio": samples, "coordinate_transformation_mode": mode, "spatial_scale": 0.6}
                node = made("RoiAlign", "x r i", "y", "", output_height=5, output_width=4, **of)
                convolved = [made("Relu", "x", "c", ""), made("RoiAlign", "c r i", "y", "", output_height=3, **of)]
                for nodes in ([node], convolved):
                    check(nodes, feeds, {"y": TensorProto.FLOAT})


def main():
    return provider.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
