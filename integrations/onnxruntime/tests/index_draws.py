"""How random nodes of further operators are drawn: repetitions, places, bits, sequences, ONNX Runtime's products and embeddings."""

import ml_dtypes
import numpy as np
from draws import FLOATS, INTEGERS, broadcast
from onnx import helper

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def tile(draw, _):
    dims = draw.dims()
    draw.input(draw.numbers(dims, draw.pick(FLOATS + INTEGERS + ("bool",))), 0)
    draw.integers([draw.pick([1, 1, 2, 3]) for _ in dims])


def infinite(draw, _):
    draw.input(
        draw.numbers(draw.dims(0), draw.pick(("float32", "float64") + FLOATS[: 0 if draw.opset < 20 else 5]), 0.8), 0
    )
    for name in ("detect_negative", "detect_positive"):
        if draw.chance(0.5):
            draw.attributes[name] = int(draw.chance(0.5))


def shrink(draw, _):
    # ONNX Runtime computes doubles in single precision.
    kind = draw.pick(FLOATS)
    draw.input(draw.numbers(draw.dims(), kind, 0.0 if kind == "float64" else 0.3), 0)
    draw.attributes.update(lambd=draw.pick([0.5, 1.0]), bias=draw.pick([0.0, 0.25]))


def bits(draw, operator):
    kind, dims = draw.pick(UNSIGNED if operator == "BitShift" else INTEGERS), draw.dims()
    draw.input(draw.numbers(dims, kind), 0)
    if operator == "BitShift":
        draw.attributes["direction"] = draw.pick(["LEFT", "RIGHT"])
        draw.input(draw.random.integers(0, 8, broadcast(draw, dims)).astype(kind))
    elif operator != "BitwiseNot":
        draw.input(draw.numbers(broadcast(draw, dims), kind))


def one_hot(draw, _):
    depth, kind = int(draw.random.integers(1, 9)), draw.pick(("int64", "int32", "float32"))
    dims = draw.dims(1, 3)
    draw.input(draw.random.integers(-depth - 1, depth + 1, dims).astype(kind if kind != "int32" else "int64"), 0)
    draw.input(np.array(depth, np.int64), 0.7)
    draw.input(draw.numbers([2], "float32" if kind == "float32" else draw.pick(("float32", "int64"))), 0.7)
    draw.attributes["axis"] = int(draw.random.integers(-len(dims) - 1, len(dims) + 1))


def eye(draw, _):
    draw.input(draw.numbers(draw.dims(2, 2), draw.pick(("float32", "int32", "int64"))), 0)
    draw.attributes["k"] = int(draw.random.integers(-3, 4))
    if draw.chance(0.5):
        draw.attributes["dtype"] = helper.np_dtype_to_tensor_dtype(
            np.dtype(draw.pick(("float32", "float64", "int64", "uint64")))
        )


def hardmax(draw, _):
    dims = draw.dims()
    draw.input(draw.numbers(dims, draw.pick(("float32", "float32", "float64"))), 0)
    draw.attributes["axis"] = draw.axis(len(dims)) if draw.opset >= 11 else int(draw.random.integers(0, len(dims)))


def reverse(draw, _):
    dims, is_batch_first = draw.dims(2, 4), draw.chance(0.5)
    draw.input(draw.numbers(dims, draw.pick(FLOATS + INTEGERS)), 0)
    batch, time = (0, 1) if is_batch_first else (1, 0)
    draw.attributes.update(batch_axis=batch, time_axis=time)
    draw.input(draw.random.integers(1, dims[time] + 1, dims[batch]).astype(np.int64), 0.3)


def by_norm(draw, operator):
    # Equal numbers have no variance: ONNX Runtime's result is NaN, and that of the definition zero.
    dims = [2, 3, 4, *draw.dims(1, 1)] if operator == "MeanVarianceNormalization" else draw.dims()
    draw.input(draw.numbers(dims, "float32" if len(dims) == 4 else draw.pick(("float32", "float64"))), 0)
    if operator == "LpNormalization":
        draw.attributes.update(axis=draw.axis(len(dims)), p=draw.pick([1, 2]))
    elif draw.chance(0.5):
        draw.attributes["axes"] = draw.pick([[2, 3], [0, 2, 3], [1, 2, 3]])


def combined(draw, operator):
    """Scattering with a reduction; the names of the operators have that word in front."""
    kind, dims = draw.pick(FLOATS + INTEGERS[:-1]), draw.dims(1, 3)
    draw.input(draw.numbers(dims, kind), 0)
    if operator == "ScatterElements":
        at = draw.axis(len(dims))
        own = [int(draw.random.integers(1, dim + 1)) for dim in dims]
        own[at] = int(draw.random.integers(1, 2 * dims[at] + 1))
        draw.input(draw.random.integers(-dims[at], dims[at], own).astype(np.int64), 0.3)
        draw.input(draw.numbers(own, kind), 0)
        draw.attributes["axis"] = at
    else:
        width, count = int(draw.random.integers(1, len(dims) + 1)), int(draw.random.integers(1, 6))
        rows = [draw.random.integers(-dim, dim, count) for dim in dims[:width]]
        draw.input(np.stack(rows, -1).astype(np.int64), 0.3)
        draw.input(draw.numbers([count, *dims[width:]], kind), 0)
    if draw.opset >= 16:
        draw.attributes["reduction"] = draw.pick(["add", "mul", "max", "min"] if draw.opset >= 18 else ["add", "mul"])


def unique(draw, _):
    dims = draw.dims(0, 3)
    draw.outputs, draw.attributes["sorted"] = 4, int(draw.chance(0.6))
    if dims and draw.chance(0.6):
        draw.attributes["axis"] = draw.axis(len(dims))
    kind = draw.pick(("float32", "float64", "float16", "int64", "int8"))
    # Where parts are compared, ONNX Runtime's order of NaN depends on its tree.
    draw.input(draw.numbers(dims, kind, 0.0 if "axis" in draw.attributes else 0.3).round(), 0)


def regions(draw, _):
    dims = draw.dims(4, 4)
    draw.input(draw.numbers(dims, "float32"), 0)
    count = int(draw.random.integers(1, 6))
    draw.input((draw.random.random([count, 4]) * 24 - 6).astype(np.float32), 0)
    draw.input(draw.random.integers(0, dims[0], count), 0)
    draw.attributes.update(mode=draw.pick(["avg", "max"]), sampling_ratio=draw.pick([0, 0, 1, 2, 3]))
    draw.attributes.update(
        output_height=draw.pick([1, 2, 5]), output_width=draw.pick([1, 3]), spatial_scale=draw.pick([0.5, 1.0])
    )
    if draw.opset >= 16:
        draw.attributes["coordinate_transformation_mode"] = draw.pick(["half_pixel", "output_half_pixel"])


def kept(draw, operator):
    """Without a change, or only the dimensions."""
    draw.input(draw.numbers(draw.dims(0), draw.pick(FLOATS if operator == "Dropout" else FLOATS + INTEGERS)), 0)
    if operator == "Dropout" and draw.opset < 12:
        draw.attributes["ratio"] = 0.4
    elif operator == "Dropout" and draw.chance(0.5):
        draw.input(np.array(0.4, np.float32), 1)


def small(draw, operator):
    """Floats of 8 bits and integers of 4; the names of the operators have that word in front."""
    kind = draw.pick(
        ["float8_e4m3fn", "float8_e5m2", *(["int4", "uint4"] * 2 if operator == "DequantizeLinear" else [])]
    )
    # Not cut, ONNX Runtime makes 448 of 480 to 496.
    cuts = int("e4m3" in kind or draw.chance(0.5))
    dims, of = draw.dims(2, 3), np.dtype(getattr(ml_dtypes, kind))
    numbers = draw.numbers(dims, "float32", 0.0 if "int" in kind or operator == "QuantizeLinear" else 0.3)
    if operator == "Cast":
        draw.input(numbers, 0)
        draw.attributes.update(to=helper.np_dtype_to_tensor_dtype(of), saturate=cuts)
        return
    if "int" in kind:
        limits = (-8, 8) if kind == "int4" else (0, 16)
        numbers = draw.random.integers(*limits, dims)
        at, block = draw.axis(len(dims)), draw.pick([0, 0, 2])
        own = draw.pick([[], [dims[at]]])
        if block:
            dims[at] = 2 * ((dims[at] + 1) // 2)
            numbers, own = draw.random.integers(*limits, dims), list(dims)
            own[at] //= 2
            draw.attributes["block_size"] = block
        draw.attributes["axis"] = at
        # Python's interface takes no such inputs.
        draw.input(numbers.astype(of), 1)
        draw.input(np.asarray(np.abs(draw.numbers(own, "float32")) + np.float32(0.01), np.float32), 0.3)
        if draw.chance(0.6):
            draw.input(draw.random.integers(*limits, own).astype(of), 1)
        return
    is_number = operator == "QuantizeLinear"
    draw.input(numbers if is_number else np.nan_to_num(numbers).astype(of), 0 if is_number else 1)
    draw.input(np.array(draw.pick([0.01, 0.5, 2.0]), np.float32), 0.7 if is_number else 0)
    draw.input(np.zeros([], of), 1)
    if operator == "QuantizeLinear":
        draw.attributes["saturate"] = cuts


def upsample(draw, _):
    dims = [draw.pick([1, 2]), draw.pick([1, 3]), *[int(of) for of in draw.random.integers(2, 9, 2)]]
    draw.input(draw.numbers(dims, "float32"), 0)
    draw.attributes["mode"] = draw.pick(["nearest", "linear"])
    scales = [1.0, 1.0, draw.pick([1.0, 1.5, 2.0]), draw.pick([2.0, 3.0])]
    if draw.opset < 9:
        draw.attributes["scales"] = scales
    else:
        draw.input(np.array(scales, np.float32), 1)


def lstm_of_bytes(draw, _):
    """Of one sequence: ONNX Runtime quantizes the states of several ones together or apart."""
    draw.domain, draw.kinds, draw.outputs = "com.microsoft", ["float32"] * 3, 3
    length, width, size = (int(of) for of in draw.random.integers(1, 9, 3))
    direction = draw.attributes["direction"] = draw.pick(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    draw.attributes["hidden_size"] = size
    draw.input(draw.numbers([length, 1, width], "float32"), 0)
    for rows in (width, size):
        draw.input(draw.random.integers(-100, 101, [count, rows, 4 * size]).astype(np.int8), 1)
    draw.input(draw.numbers([count, 8 * size], "float32"), 1)
    draw.inputs.append("")
    is_by_row = draw.chance(0.3)
    for _ in range(2):
        if draw.chance(0.5):
            draw.input(draw.numbers([count, 1, size], "float32"), 0)
        else:
            draw.inputs.append("")
    draw.inputs.append("")
    for _ in range(2):
        dims = [count, 4 * size] if is_by_row else [count]
        draw.input((draw.random.random(dims) * 0.01 + 0.002).astype(np.float32), 1)
        draw.input(np.zeros(dims, np.int8), 1)


def products_of_bytes(draw, operator):
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    m, k, n = (int(of) for of in draw.random.integers(1, 40, 3))
    of_b = draw.pick(("int8", "uint8"))
    b = draw.numbers([k, n], of_b) // 2
    scale = [np.array(draw.random.random() * 0.1 + 0.01, np.float32) for _ in range(2)]
    if operator == "DynamicQuantizeMatMul":
        draw.input(draw.numbers([m, k], "float32"), 0)
        draw.input(b, 0.7)
        draw.input(scale[0], 1)
        draw.input(np.zeros([], of_b), 1)
        return
    draw.input(draw.numbers([m, k], "uint8"), 0)
    draw.input(b, 0.7)
    for of in scale:
        draw.input(of, 0.7)
    draw.input(draw.numbers([], "uint8"), 0.7)
    draw.input(np.zeros([], of_b), 1)


def gemm_of_bytes(draw, _):
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    m, k, n = (int(of) for of in draw.random.integers(1, 40, 3))
    draw.attributes["transB"] = int(draw.chance(0.5))
    of_b = draw.pick(("int8", "uint8"))
    draw.input(draw.numbers([m, k], "uint8"), 0)
    draw.input(np.array(draw.random.random() * 0.1 + 0.01, np.float32), 1)
    draw.input(draw.numbers([], "uint8"), 1)
    draw.input(draw.numbers([n, k] if draw.attributes["transB"] else [k, n], of_b) // 2, 1)
    draw.input(np.array(draw.random.random() * 0.1 + 0.01, np.float32), 1)
    draw.input(np.zeros([], of_b), 1)


def heads(draw, operator):
    """Attention of ONNX Runtime's domain."""
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    batch, count, size, rows = (
        draw.pick([1, 2]),
        draw.pick([1, 2, 4]),
        draw.pick([4, 8]),
        int(draw.random.integers(1, 9)),
    )
    draw.attributes["num_heads"] = count
    width = count * size
    if operator == "Attention":
        draw.input(draw.numbers([batch, rows, width], "float32"), 0)
        draw.input(draw.numbers([width, 3 * width], "float32") * np.float32(0.3), 0.7)
        draw.input(draw.numbers([3 * width], "float32"), 0.7)
        return
    keys = int(draw.random.integers(1, 9))
    draw.input(draw.numbers([batch, rows, width], "float32"), 0)
    for _ in range(2):
        draw.input(draw.numbers([batch, keys, width], "float32"), 0)


def rotary(draw, _):
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    batch, count, size, rows = draw.pick([1, 2]), draw.pick([1, 2]), draw.pick([4, 8]), int(draw.random.integers(1, 7))
    draw.input(draw.numbers([batch, count, rows, size], "float32"), 0)
    draw.input(np.arange(rows)[None].repeat(batch, 0).astype(np.int64), 0)
    for _ in range(2):
        draw.input(draw.numbers([16, size // 2], "float32"), 0.7)
    draw.attributes["interleaved"] = int(draw.chance(0.5))


def four_bits(draw, _):
    draw.domain, draw.kinds = "com.microsoft", ["float32"]
    rows, blocks, n, size = (
        int(draw.random.integers(1, 12)),
        int(draw.random.integers(1, 4)),
        int(draw.random.integers(1, 20)),
        draw.pick([16, 32]),
    )
    draw.attributes.update(K=blocks * size, N=n, bits=4, block_size=size)
    draw.input(draw.numbers([rows, blocks * size], "float32"), 0)
    draw.input(draw.random.integers(0, 256, [n, blocks, size // 2]).astype(np.uint8), 1)
    draw.input((draw.random.random([n, blocks]) * 0.1).astype(np.float32).reshape(-1), 1)
    if draw.chance(0.5):
        draw.input(draw.random.integers(0, 256, [n * ((blocks + 1) // 2)]).astype(np.uint8), 1)


OPERATORS = {
    **dict.fromkeys(["small Cast", "small QuantizeLinear", "small DequantizeLinear"], small),
    "Dropout": kept, "Shape": kept, "Size": kept, "Tile": tile, "IsInf": infinite, "Shrink": shrink, **dict.fromkeys("BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot".split(), bits),
    "Unique": unique, "RoiAlign": regions, "OneHot": one_hot, "EyeLike": eye, "Hardmax": hardmax, "ReverseSequence": reverse,
    **dict.fromkeys(["LpNormalization", "MeanVarianceNormalization"], by_norm),
    **dict.fromkeys(["combined ScatterElements", "combined ScatterND"], combined), "Upsample": upsample, "DynamicQuantizeLSTM": lstm_of_bytes,
    **dict.fromkeys(["DynamicQuantizeMatMul", "MatMulIntegerToFloat"], products_of_bytes), "QGemm": gemm_of_bytes,
    **dict.fromkeys(["microsoft Attention", "MultiHeadAttention"], heads), "microsoft RotaryEmbedding": rotary, "MatMulNBits": four_bits,
}  # fmt: skip
