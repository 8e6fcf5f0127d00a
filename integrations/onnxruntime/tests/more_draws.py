"""How random nodes of further operators are drawn: images and sequences, products of bytes, those of ONNX Runtime's domain."""

import numpy as np
from draws import FLOATS, INTEGERS, broadcast, conv

BYTES = ("int8", "uint8")


def split(draw, _):
    dims = draw.dims(1, 4)
    at = draw.axis(len(dims))
    draw.input(draw.numbers(dims, draw.pick(FLOATS + INTEGERS)), 0)
    draw.attributes["axis"] = at
    first = int(draw.random.integers(0, dims[at] + 1))
    sizes = [first, dims[at] - first]
    draw.outputs = 2
    if draw.opset < 13:
        draw.attributes["split"] = sizes
    else:
        draw.integers(sizes)


def squeeze(draw, _):
    dims = draw.dims(1, 3)
    draw.input(draw.numbers([1, *dims, 1], draw.pick(FLOATS + INTEGERS)), 0)
    axes = draw.pick([[0], [0, -1], [len(dims) + 1]])
    if draw.opset < 11:
        axes = [at for at in axes if at >= 0]
    if draw.opset < 13:
        draw.attributes["axes"] = axes
    else:
        draw.integers(axes)


def blocks(draw, operator):
    size = draw.pick([2, 3])
    batch, channels, height, width = (int(of) for of in draw.random.integers(1, 4, 4))
    dims = [batch, channels * size * size, height, width]
    if operator == "SpaceToDepth":
        dims = [batch, channels, height * size, width * size]
    elif draw.opset >= 11:
        draw.attributes["mode"] = draw.pick(["DCR", "CRD"])
    draw.input(draw.numbers(dims, draw.pick(("float32", "float64", "uint8"))), 0)
    draw.attributes["blocksize"] = size


def global_pool(draw, _):
    draw.input(draw.numbers(draw.dims(3, 5), draw.pick(FLOATS)), 0)


def rms(draw, _):
    dims, kind = draw.dims(2, 4), draw.pick(("float32", "float16", "float64"))
    draw.input(draw.numbers(dims, kind) * np.asarray(draw.pick([1, 1, 1e3]), kind), 0)
    draw.attributes["axis"] = -1
    draw.input(draw.numbers(dims[-1:], kind), 0.7)


def einsum(draw, _):
    sizes = dict(zip("abcdij", (int(of) for of in draw.random.integers(1, 7, 6))))
    of = draw.pick(
        [
            "abi,bij->abj",
            "ij,jd->id",
            "abij->abji",
            "abid,abjd->abij",
            "ab,ab->a",
            "aij,aij->a",
            "i,j->ij",
            "aii->ai",
            "ii->",
            "ai,ij,jb->ab",
            "aii,ij->aj",
            "a,b,c->abc",
            "abc->",
            "...ij,...jd->...id",
            "ia,ja",
        ]  # fmt: skip
    )
    draw.attributes["equation"] = of
    kind = draw.pick(("float32", "float32", "float64"))
    for letters in of.split("->")[0].split(","):
        more = draw.dims(0, 2) if letters.startswith("...") and not draw.inputs else []
        draw.input(draw.numbers([*more, *[sizes[letter] for letter in letters.strip(".")]], kind), 0)


def filled(draw, operator):
    if operator == "ConstantOfShape":
        draw.input(np.array(draw.dims(1, 3), np.int64), 0)
        return
    kind = draw.pick(["int32", "int64", "float32"])
    start, count, delta = int(draw.random.integers(-5, 5)), int(draw.random.integers(0, 9)), draw.pick([1, 2, -3])
    for of in (start, start + count * delta, delta):
        draw.input(np.array(of, kind), 0 if kind != "float32" else 1)


def attention(draw, _):
    batch, heads, size = draw.pick([1, 2]), draw.pick([1, 2, 4]), draw.pick([4, 8])
    rows, keys = (int(of) for of in draw.random.integers(1, 9, 2))
    kind, groups = draw.pick(("float32", "float32", "float16")), draw.pick([heads, 1])
    draw.input(draw.numbers([batch, heads, rows, size], kind), 0)
    for _ in range(2):
        draw.input(draw.numbers([batch, groups, keys, size], kind), 0)
    if draw.chance(0.3):
        draw.attributes["is_causal"] = 1
    elif draw.chance(0.5):
        draw.input(draw.numbers([rows, keys], kind), 0.5)
    if draw.chance(0.3):
        draw.attributes["scale"] = 0.3
    if draw.chance(0.2):
        draw.attributes["softcap"] = 2.0


def grid(draw, _):
    axes = 2 if draw.opset < 20 else draw.pick([2, 2, 3])
    batch, outer = draw.pick([1, 2]), [int(of) for of in draw.random.integers(1, 9, axes)]
    draw.input(
        draw.numbers([batch, draw.pick([1, 3]), *(int(of) for of in draw.random.integers(1, 9, axes))], "float32"), 0
    )
    draw.input(draw.numbers([batch, *outer, axes], "float32"), 0)
    names = ["bilinear", "nearest", "bicubic"] if draw.opset < 20 else ["linear", "nearest", "cubic"]
    draw.attributes["mode"] = draw.pick(names[: 5 - axes])
    draw.attributes["padding_mode"] = draw.pick(["zeros", "border", "reflection"])
    draw.attributes["align_corners"] = int(draw.chance(0.5))


def overlapping(draw, _):
    batch, classes, count = (int(of) for of in draw.random.integers(1, [3, 4, 30]))
    corners = draw.random.random((batch, count, 2)).astype(np.float32)
    draw.input(np.concatenate([corners, corners + draw.random.random((batch, count, 2)).astype(np.float32)], -1), 0)
    draw.input(draw.numbers([batch, classes, count], "float32"), 0)
    limits = [np.array([draw.pick([0, 1, 5, 100])]), np.array([draw.pick([0.0, 0.3, 1.0])], np.float32)]
    for of in [*limits, np.array([0.2], np.float32)][: int(draw.random.integers(0, 4))]:
        draw.input(of, 0.5)
    draw.attributes["center_point_box"] = int(draw.chance(0.3))


def scale(draw, count=None):
    of = np.abs(draw.numbers([] if count is None else [count], "float32")) + np.float32(0.01)
    draw.input(np.asarray(of, np.float32), 0.8)


def zero(draw, kind, count=None, is_zero=False):
    of = draw.numbers([] if count is None else [count], kind)
    draw.input(np.zeros_like(of) if is_zero else of, 0.8)


def dynamic(draw, _):
    draw.input(draw.numbers(draw.dims(), "float32"), 0)
    draw.outputs = 3


def image_of_bytes(draw, operator):
    group = draw.pick([1, 1, 2, 4])
    channels, filters = group * draw.pick([1, 2, 5, 16]), group * draw.pick([1, 3, 4, 16])
    sizes, kernel = ([int(of) for of in draw.random.integers(*limits, 2)] for limits in ((6, 12), (1, 4)))
    of_x, of_w = draw.pick(BYTES), draw.pick(BYTES)
    is_integer = operator == "ConvInteger"
    if is_integer:
        of_x = "uint8"
    x, w = (
        draw.numbers([draw.pick([1, 2]), channels, *sizes], of_x),
        draw.numbers([filters, channels // group, *kernel], of_w),
    )
    draw.attributes.update(group=group, pads=[int(draw.random.integers(0, size)) for size in kernel] * 2)
    draw.attributes["strides"] = [draw.pick([1, 2])] * 2
    draw.input(x, 0)
    if is_integer:
        draw.input(w, 0.8)
        zero(draw, of_x)
        return
    scale(draw)
    zero(draw, of_x)
    draw.input(w, 0.8)
    count = draw.pick([None, filters])
    scale(draw, count)
    zero(draw, of_w, count, of_w == "int8")
    scale(draw)
    zero(draw, of_x)
    if draw.chance(0.5):
        draw.input(draw.random.integers(-999, 999, filters).astype(np.int32), 1)


def product_of_bytes(draw, operator):
    m, k, n = (int(of) for of in draw.random.integers(1, 40, 3))
    of_a, of_b = ("uint8", draw.pick(BYTES)) if operator == "MatMulInteger" else (draw.pick(BYTES), draw.pick(BYTES))
    # Sums of larger signed ones may saturate in ONNX Runtime.
    a, b = draw.numbers([2, m, k], of_a), draw.numbers([k, n], of_b) // 2
    draw.input(a, 0)
    if operator == "MatMulInteger":
        draw.input(b, 0.7)
        if draw.chance(0.6):
            zero(draw, of_a)
            zero(draw, of_b)
        return
    scale(draw)
    zero(draw, of_a)
    draw.input(b, 0.7)
    scale(draw)
    zero(draw, of_b)
    scale(draw)
    zero(draw, of_a)


def of_bytes(draw, operator):
    """Element-wise operators of ONNX Runtime's domain on quantized tensors."""
    kind, dims = draw.pick(BYTES), draw.dims(4, 4) if operator == "QLinearGlobalAveragePool" else draw.dims(1, 4)
    draw.domain, draw.kinds = "com.microsoft", [kind]
    if operator == "QLinearConcat":
        at = draw.attributes["axis"] = draw.axis(len(dims))
        scale(draw)
        zero(draw, kind)
        for _ in range(2):
            dims[at] = int(draw.random.integers(1, 5))
            draw.input(draw.numbers(dims, kind), 0)
            scale(draw)
            zero(draw, kind)
        return
    operands = [dims, broadcast(draw, dims)] if operator in ("QLinearAdd", "QLinearMul") else [dims]
    for own in operands:
        draw.input(draw.numbers(own, kind), 0)
        scale(draw)
        zero(draw, kind)
    if operator == "QLinearSoftmax":
        draw.attributes.update(axis=-1, opset=13)
        draw.inputs.append("")
        draw.inputs.pop()
    scale(draw)
    zero(draw, kind)
    if operator == "QLinearLeakyRelu":
        draw.attributes["alpha"] = 0.1


def grouped(draw):
    """With a cache, after a prompt or for a token."""
    batch, groups, size = draw.pick([1, 2]), draw.pick([1, 2]), draw.pick([8, 16])
    heads, past, room = groups * draw.pick([1, 2]), draw.pick([0, 0, 3, 6]), 12
    rows = 1 if past else int(draw.random.integers(1, 7))
    draw.feeds.clear(), draw.weights.clear(), draw.inputs.clear()
    draw.attributes.update(num_heads=heads, kv_num_heads=groups)
    for count in (heads, groups, groups):
        draw.input(draw.numbers([batch, rows, count * size], "float32"), 0)
    for _ in range(2):
        draw.input(draw.numbers([batch, groups, past, size], "float32"), 0)
    draw.input(np.full([batch], past + rows - 1, np.int32), 0)
    draw.input(np.array(past + rows, np.int32), 0)
    draw.outputs, draw.kinds = 3, ["float32"] * 3
    if draw.chance(0.4):
        draw.attributes["do_rotary"] = 1
        for _ in range(2):
            draw.input(draw.numbers([room, size // 2], "float32"), 0.7)
    if draw.chance(0.3):
        draw.attributes["local_window_size"] = 3


def microsoft(draw, operator):
    """Other operators of ONNX Runtime's domain."""
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    dims = [draw.pick([1, 2]), *draw.dims(2, 2)]
    draw.input(draw.numbers(dims, "float32"), 0)
    if operator == "BiasGelu":
        draw.input(draw.numbers(dims[-1:], "float32"), 0.7)
    elif operator == "FastGelu" and draw.chance(0.5):
        draw.input(draw.numbers(dims[-1:], "float32"), 0.7)
    elif operator == "SimplifiedLayerNormalization":
        draw.domain, draw.attributes["axis"] = "", -1
        draw.input(draw.numbers(dims[-1:], "float32"), 0.7)
    elif operator == "GroupQueryAttention":
        grouped(draw)
    elif operator.startswith("Skip"):
        draw.input(draw.numbers(dims, "float32"), 0)
        count = 1 if "Simplified" in operator else draw.pick([1, 2, 3])
        for _ in range(count):
            draw.input(draw.numbers(dims[-1:], "float32"), 0.7)


def fused(draw, operator):
    """What ONNX Runtime's optimizations make of several nodes."""
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    if operator == "FusedConv":
        while not draw.inputs or draw.feeds["x0"].dtype != np.float32 or draw.feeds["x0"].ndim < 4:
            draw.inputs, draw.feeds, draw.weights, draw.attributes = [], {}, {}, {}
            conv(draw, "Conv")
        numbers = {
            "Relu": [],
            "Tanh": [],
            "Sigmoid": [],
            "LeakyRelu": [0.1],
            "Clip": [-1.0, 2.0],
            "HardSigmoid": [0.2, 0.4],
        }
        draw.attributes["activation"] = draw.pick(list(numbers))
        if numbers[draw.attributes["activation"]]:
            draw.attributes["activation_params"] = numbers[draw.attributes["activation"]]
        return
    m, k, n = (int(of) for of in draw.random.integers(1, 20, 3))
    a, b = int(draw.chance(0.5)), int(draw.chance(0.5))
    batch = [] if operator == "FusedGemm" else draw.dims(0, 2)
    draw.input(draw.numbers([*batch, *([k, m] if a else [m, k])], "float32"), 0)
    draw.input(draw.numbers([*batch, *([n, k] if b else [k, n])], "float32"), 0.5)
    draw.attributes.update(transA=a, transB=b, alpha=draw.pick([1.0, 0.5]))
    if operator == "FusedGemm":
        draw.input(draw.numbers([n], "float32"), 0.5)
        draw.attributes.update(activation=draw.pick(["Relu", "LeakyRelu", "Tanh"]), activation_alpha=0.2)


def spectra(draw, _):
    length, step = draw.pick([4, 16, 20, 37]), int(draw.random.integers(1, 9))
    dims = [draw.pick([1, 3]), length + int(draw.random.integers(0, 60))]
    draw.input(draw.numbers([*dims, 1] if draw.chance(0.7) else dims, "float32"), 0)
    draw.input(np.array(step), 1)
    draw.attributes["onesided"] = int(draw.chance(0.8))
    if draw.chance(0.7):
        draw.input(draw.numbers([length], "float32"), 1)
        if draw.chance(0.5):
            return
    else:
        draw.inputs.append("")
    draw.input(np.array(length), 1)


OPERATORS = {
    **dict.fromkeys(["FusedMatMul", "FusedGemm", "FusedConv"], fused), "STFT": spectra,
    "Split": split, "Squeeze": squeeze, "DepthToSpace": blocks, "SpaceToDepth": blocks, "Einsum": einsum, "RMSNormalization": rms,
    **dict.fromkeys(["GlobalAveragePool", "GlobalMaxPool"], global_pool), **dict.fromkeys(["ConstantOfShape", "Range"], filled),
    "GridSample": grid, "NonMaxSuppression": overlapping, "Attention": attention, "DynamicQuantizeLinear": dynamic, **dict.fromkeys(["QLinearConv", "ConvInteger"], image_of_bytes),
    **dict.fromkeys(["QLinearMatMul", "MatMulInteger"], product_of_bytes),
    **dict.fromkeys(
        "QLinearAdd QLinearMul QLinearSigmoid QLinearSoftmax QLinearLeakyRelu QLinearConcat QLinearGlobalAveragePool".split(), of_bytes
    ),
    **dict.fromkeys((
        "BiasGelu FastGelu QuickGelu SkipLayerNormalization SkipSimplifiedLayerNormalization SimplifiedLayerNormalization GroupQueryAttention"
    ).split(), microsoft), "microsoft Gelu": microsoft,
}  # fmt: skip
