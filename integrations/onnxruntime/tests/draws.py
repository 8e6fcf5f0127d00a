"""How a random node of each operator is drawn: attributes, tensors, types."""

import numpy as np
from onnx import helper

FLOATS = ("float32", "float32", "float32", "float16", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
UNARY = (
    "Abs Neg Ceil Floor Erf Exp Log Sqrt Reciprocal Sin Cos Tan Tanh Sigmoid Relu LeakyRelu Elu Selu Celu Softplus Softsign Mish HardSigmoid "
    "HardSwish ThresholdedRelu Gelu Sign IsNaN Round Acos Asin Atan Sinh Cosh Asinh Acosh Atanh Identity Swish"
).split()
BINARY = "Add Sub Mul Div Pow PRelu Mod Max Min Sum Mean".split()
COMPARE = "Equal Greater Less GreaterOrEqual LessOrEqual".split()
REDUCE = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp"
).split()


class Draw:
    """A node and its tensors."""

    def __init__(self, seed, opset):
        self.random = np.random.default_rng(seed)
        self.opset = opset
        self.feeds, self.weights, self.attributes = {}, {}, {}
        self.inputs, self.outputs = [], 1
        # Operators of another domain, whose results' types are given.
        self.domain, self.kinds = "", []

    def pick(self, of):
        return of[int(self.random.integers(len(of)))]

    def chance(self, of):
        return self.random.random() < of

    def dims(self, low=1, high=4, most=9):
        return [int(of) for of in self.random.integers(1, most, int(self.random.integers(low, high + 1)))]

    def numbers(self, dims, kind, special=0.0, wide=True):
        kind = np.dtype(kind)
        if kind.kind == "b":
            return self.random.random(dims) < 0.5
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            low, high = (limits.min, limits.max) if wide and self.chance(0.2) else (max(limits.min, -9), 9)
            return self.random.integers(low, high, dims, dtype=kind, endpoint=True)
        of = (self.random.standard_normal(dims) * self.pick([0.3, 1, 4])).astype(kind)
        if special and of.size and self.chance(special):
            limits = np.finfo(kind)
            some = [np.inf, -np.inf, np.nan, 0.0, -0.0, limits.max, limits.min, limits.tiny, 1e4]
            flat = of.reshape(-1)
            for _ in range(1 + flat.size // 4):
                flat[int(self.random.integers(flat.size))] = self.pick(some)
        return of

    def input(self, array, constant=0.3):
        name = f"x{len(self.inputs)}"
        array = np.asarray(array)
        (self.weights if self.chance(constant) else self.feeds)[name] = array
        self.inputs.append(name)
        return array

    def integers(self, list_, kind=np.int64):
        return self.input(np.array(list_, kind), constant=0.9)

    def axis(self, rank):
        return int(self.random.integers(-rank, rank))


def broadcast(draw, dims):
    own = [dim if draw.chance(0.7) else 1 for dim in dims]
    return own[int(draw.random.integers(0, len(own))) :] if draw.chance(0.3) else own


def unary(draw, operator):
    # ONNX Runtime's GELU of -∞ is NaN, and its Softplus of large doubles is infinite.
    special = 0.0 if operator in ("Gelu", "Softplus") else 0.4
    draw.input(draw.numbers(draw.dims(0), draw.pick(FLOATS), special), 0)
    if operator in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "HardSigmoid", "Swish") and draw.chance(0.6):
        draw.attributes["alpha"] = float(draw.pick([0.1, 0.5, 1.5]))
    if operator == "Gelu":
        draw.attributes["approximate"] = draw.pick(["none", "tanh"])


def binary(draw, operator):
    kind = draw.pick(FLOATS + INTEGERS)
    dims = draw.dims()
    special = 0.3 if operator != "Mod" else 0.0
    x = draw.input(draw.numbers(dims, kind, special, wide=operator != "Pow"), 0)
    if operator == "Pow" and draw.chance(0.6):
        y = np.array(draw.pick([0.5, 1, 2, 3, -1, 0.3, 1.7, -0.5, 0]), kind if x.dtype.kind == "f" else np.float32)
    else:
        y = draw.numbers(broadcast(draw, dims), kind, special)
    if x.dtype.kind in "iu" and operator in ("Div", "Mod", "Pow"):
        y = np.where(y == 0, np.ones_like(y), np.abs(y) % 5 + 1).astype(y.dtype)
        if operator == "Div" and x.dtype.kind == "i":
            x[...] = np.where(x == np.iinfo(x.dtype).min, 1, x)
    draw.input(y)
    if operator == "Mod" and x.dtype.kind == "f":
        draw.attributes["fmod"] = 1


def compare(draw, _):
    kind, dims = draw.pick(FLOATS + INTEGERS + ("bool",)), draw.dims()
    draw.input(draw.numbers(dims, kind, 0.3), 0)
    draw.input(draw.numbers(broadcast(draw, dims), kind, 0.3))


def logic(draw, operator):
    dims = draw.dims()
    draw.input(draw.numbers(dims, "bool"), 0)
    if operator != "Not":
        draw.input(draw.numbers(broadcast(draw, dims), "bool"))


def where(draw, _):
    kind, dims = draw.pick(FLOATS + INTEGERS + ("bool",)), draw.dims()
    draw.input(draw.numbers(broadcast(draw, dims), "bool"), 0)
    draw.input(draw.numbers(dims, kind, 0.3), 0)
    draw.input(draw.numbers(broadcast(draw, dims), kind, 0.3))


def clip(draw, _):
    kind = draw.pick(FLOATS + (INTEGERS if draw.opset >= 12 else ()))
    draw.input(draw.numbers(draw.dims(), kind, 0.3), 0)
    limits = sorted(draw.numbers([2], kind))
    if np.dtype(kind).kind == "f" and draw.chance(0.5):
        most = np.finfo(kind).max
        limits = [draw.pick([np.inf, -np.inf, np.nan, most, -most, 0.0, limits[0]]) for _ in limits]
    elif draw.chance(0.2):
        limits.reverse()
    if draw.opset < 11:
        draw.attributes.update(min=float(limits[0]), max=float(limits[1]))
        return
    for limit in limits[: int(draw.random.integers(0, 3))]:
        if draw.chance(0.1) and len(draw.inputs) == 1:
            draw.inputs.append("")
        else:
            draw.input(np.array(limit, kind), 0.7)


def cast(draw, _):
    kinds = FLOATS + INTEGERS + ("bool",)
    draw.input(draw.numbers(draw.dims(0), draw.pick(kinds), 0.2), 0)
    draw.attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(draw.pick(kinds)))


def reduce(draw, operator):
    kind = draw.pick(FLOATS if operator == "ReduceProd" else FLOATS + ("int32", "int64"))
    dims = draw.dims()
    # ONNX Runtime's largest of NaN and numbers depends on their order.
    special = 0.0
    # Integers wrap, where ONNX Runtime saturates some.
    draw.input(draw.numbers(dims, kind, special, wide=False), 0)
    axes = sorted({int(of) for of in draw.random.integers(0, len(dims), 2)})
    draw.attributes["keepdims"] = int(draw.chance(0.5))
    if draw.chance(0.8):
        if draw.opset < (13 if operator == "ReduceSum" else 18):
            draw.attributes["axes"] = axes
        else:
            draw.integers(axes)


def softmax(draw, _):
    dims = draw.dims()
    draw.input(draw.numbers(dims, draw.pick(FLOATS)), 0)
    draw.attributes["axis"] = draw.axis(len(dims))


def window(draw, spatial, sizes, kernel, name="kernel_shape"):
    del sizes
    draw.attributes[name] = kernel
    if draw.chance(0.6):
        draw.attributes["strides"] = [int(of) for of in draw.random.integers(1, 4, spatial)]
    auto = draw.pick(["NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    if auto != "NOTSET":
        draw.attributes["auto_pad"] = auto
    elif draw.chance(0.6):
        draw.attributes["pads"] = [int(draw.random.integers(0, k)) for k in kernel] * 2


def pool(draw, operator):
    spatial = int(draw.random.integers(1, 4))
    sizes = [int(of) for of in draw.random.integers(5, 12, spatial)]
    draw.input(draw.numbers([draw.pick([1, 2]), draw.pick([1, 3, 8]), *sizes], draw.pick(FLOATS)), 0)
    window(draw, spatial, sizes, [int(of) for of in draw.random.integers(1, 4, spatial)])
    if draw.opset >= 10 and draw.chance(0.4):
        draw.attributes["ceil_mode"] = 1
    if operator == "AveragePool":
        draw.attributes["count_include_pad"] = int(draw.chance(0.5))
    dilates = draw.opset >= (10 if operator == "MaxPool" else 19)
    if dilates and draw.chance(0.3):
        draw.attributes["dilations"] = [int(of) for of in draw.random.integers(1, 3, spatial)]
    if operator == "MaxPool" and draw.opset >= 8 and draw.chance(0.25):
        draw.outputs = 2
        draw.attributes["storage_order"] = int(draw.chance(0.4))


def conv(draw, operator):
    spatial = int(draw.random.integers(1, 4))
    group = draw.pick([1, 1, 2, 4])
    channels, filters = group * draw.pick([1, 2, 5]), group * draw.pick([1, 3, 4])
    sizes = [int(of) for of in draw.random.integers(6, 12, spatial)]
    kernel = [int(of) for of in draw.random.integers(1, 4, spatial)]
    kind = draw.pick(("float32", "float32", "float16", "float64"))
    draw.input(draw.numbers([draw.pick([1, 2]), channels, *sizes], kind), 0)
    pair = [filters, channels // group] if operator == "Conv" else [channels, filters // group]
    draw.input(draw.numbers([*pair, *kernel], kind), 0.7)
    if draw.chance(0.5):
        draw.input(draw.numbers([filters], kind), 0.7)
    window(draw, spatial, sizes, kernel)
    draw.attributes["group"] = group
    if operator == "ConvTranspose" and draw.chance(0.2):
        draw.attributes["output_shape"] = [int(of) for of in draw.random.integers(12, 30, spatial)]
    if draw.chance(0.3):
        draw.attributes["dilations"] = [int(of) for of in draw.random.integers(1, 3, spatial)]


def matmul(draw, _):
    kind, batch = draw.pick(FLOATS), draw.dims(0, 2)
    m, k, n = (int(of) for of in draw.random.integers(1, 20, 3))
    draw.input(draw.numbers([*batch, m, k], kind), 0)
    draw.input(draw.numbers([*([] if draw.chance(0.5) else batch), k, n], kind), 0.5)


def gemm(draw, _):
    kind = draw.pick(("float32", "float32", "float64"))
    m, k, n = (int(of) for of in draw.random.integers(1, 20, 3))
    a, b = int(draw.chance(0.5)), int(draw.chance(0.5))
    draw.input(draw.numbers([k, m] if a else [m, k], kind), 0)
    draw.input(draw.numbers([n, k] if b else [k, n], kind), 0.5)
    draw.attributes.update(transA=a, transB=b, alpha=draw.pick([1.0, 0.5]), beta=draw.pick([1.0, 2.0]))
    if draw.opset < 11 or draw.chance(0.7):
        draw.input(draw.numbers(draw.pick([[n], [m, n], [1, n], [m, 1], [1]]), kind), 0.5)


def pad(draw, _):
    kind, dims = draw.pick(FLOATS + INTEGERS), draw.dims(1, 4)
    x = draw.input(draw.numbers(dims, kind), 0)
    modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if draw.opset >= 19 else [])
    mode = draw.attributes["mode"] = draw.pick(modes)
    most = [max(dim - 1, 0) if mode in ("reflect", "wrap") else 3 for dim in dims] * 2
    pads = [
        int(draw.random.integers(-1 if dim > 3 and mode == "constant" else 0, most + 1))
        for dim, most in zip(dims * 2, most)
    ]
    if draw.opset < 11:
        draw.attributes["pads"] = pads
        return
    draw.integers(pads)
    if mode == "constant" and draw.chance(0.6):
        draw.input(np.array(draw.pick([0, 1, 3]), x.dtype), 0.7)


def slice_(draw, _):
    dims = draw.dims(1, 4)
    draw.input(draw.numbers(dims, draw.pick(FLOATS + INTEGERS)), 0)
    axes = sorted({int(of) for of in draw.random.integers(0, len(dims), 2)})
    steps = [draw.pick([1, 1, 2, -1, -2]) if draw.opset >= 10 else 1 for _ in axes]
    starts = [int(draw.random.integers(-dims[at], dims[at])) for at in axes]
    ends = [draw.pick([2**31, -(2**31), *range(-dims[at], dims[at] + 1)]) for at in axes]
    if draw.opset < 10:
        draw.attributes.update(axes=axes, starts=starts, ends=ends)
        return
    for of in (starts, ends, axes, steps):
        draw.integers(of)


def moved(draw, operator):
    dims = draw.dims(1, 4)
    draw.input(draw.numbers(dims, draw.pick(FLOATS + INTEGERS)), 0)
    if operator == "Transpose":
        draw.attributes["perm"] = [int(of) for of in draw.random.permutation(len(dims))]
    elif operator == "Flatten":
        draw.attributes["axis"] = int(draw.random.integers(0, len(dims) + 1))
    elif operator == "Reshape":
        draw.integers(draw.pick([[-1], [1, -1], [-1, 1, dims[-1]]]))
    elif operator == "Expand":
        draw.integers([2, *[draw.pick([1, dim]) for dim in dims]])
    elif operator == "Unsqueeze":
        if draw.opset < 13:
            draw.attributes["axes"] = [0, 2]
        else:
            draw.integers([0, -1])


def concat(draw, _):
    dims, kind = draw.dims(1, 4), draw.pick(FLOATS + INTEGERS)
    at = draw.attributes["axis"] = draw.axis(len(dims)) if draw.opset >= 11 else 0
    for _ in range(int(draw.random.integers(1, 4))):
        dims[at] = int(draw.random.integers(1, 5))
        draw.input(draw.numbers(dims, kind), 0.2)


def gather(draw, operator):
    dims = draw.dims(1, 3)
    at = draw.axis(len(dims)) if operator != "GatherND" else 0
    draw.input(draw.numbers(dims, draw.pick(FLOATS + INTEGERS)), 0)
    size = dims[at]
    own = draw.dims(0, 2) if operator == "Gather" else [*dims[:at], 3, *dims[at:][1:]]
    if operator == "GatherND":
        draw.input(draw.random.integers(-dims[0], dims[0], [3, 1]), 0.5)
        return
    draw.attributes["axis"] = at
    draw.input(draw.random.integers(-size, size, own).astype(draw.pick(["int64", "int32"])), 0.5)


def scatter(draw, operator):
    dims, kind = draw.dims(1, 3), draw.pick(FLOATS + INTEGERS)
    draw.input(draw.numbers(dims, kind), 0)
    if operator == "ScatterND":
        rows = draw.random.permutation(dims[0])[: draw.pick([1, 2])].reshape(-1, 1)
        draw.input(rows.astype(np.int64), 0.5)
        draw.input(draw.numbers([len(rows), *dims[1:]], kind), 0.3)
        return
    indices = np.argsort(draw.random.random(dims), axis=0)[: draw.pick([1, 2])]
    draw.attributes["axis"] = 0
    draw.input(indices.astype(draw.pick(["int64", "int32"])), 0.5)
    draw.input(draw.numbers(indices.shape, kind), 0.3)


def norm(draw, operator):
    kind = draw.pick(("float32", "float32", "float16", "float64"))
    dims = [draw.pick([1, 2]), draw.pick([2, 4, 6]), *draw.dims(1, 2)]
    # ONNX Runtime's rounding of a single element's normalization is coarse.
    dims[-1] += int(operator == "InstanceNormalization")
    draw.input(draw.numbers(dims, kind) * np.asarray(draw.pick([1, 1, 1e3]), kind), 0)
    if operator == "LayerNormalization":
        draw.attributes["axis"] = -1
        draw.input(draw.numbers(dims[-1:], kind), 0.7)
        if draw.chance(0.7):
            draw.input(draw.numbers(dims[-1:], kind), 0.7)
        return
    count = {"BatchNormalization": 4, "InstanceNormalization": 2, "GroupNormalization": 2}[operator]
    if operator == "GroupNormalization":
        draw.attributes["num_groups"] = 2
    for at in range(count):
        of = draw.numbers([2 if operator == "GroupNormalization" and draw.opset < 21 else dims[1]], kind)
        draw.input(np.abs(of) + np.asarray(0.5, kind) if at == 3 else of, 0.7)


def ordered(draw, operator):
    dims = draw.dims(1, 3)
    draw.input(draw.numbers(dims, draw.pick(FLOATS + ("int8", "uint8", "int16", "int32", "int64"))), 0)
    at = draw.axis(len(dims)) if draw.opset >= 11 else 0
    if operator == "TopK":
        draw.integers([int(draw.random.integers(1, dims[at] + 1))])
        draw.attributes["axis"] = at
        draw.outputs = 2
        if draw.opset >= 11:
            draw.attributes["largest"] = int(draw.chance(0.5))
    elif operator == "CumSum":
        draw.integers(at)
        draw.attributes.update(exclusive=int(draw.chance(0.5)), reverse=int(draw.chance(0.5)))
    else:
        draw.attributes.update(axis=at, keepdims=int(draw.chance(0.5)))
        if draw.opset >= 12:
            draw.attributes["select_last_index"] = int(draw.chance(0.5))


def trilu(draw, _):
    draw.input(draw.numbers(draw.dims(2, 4), draw.pick(("float32", "float64", "int64"))), 0)
    draw.attributes["upper"] = int(draw.chance(0.5))
    if draw.chance(0.6):
        draw.integers(int(draw.random.integers(-3, 4)))


def recurrent(draw, operator):
    gates, outputs = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 2)}[operator]
    length, batch, width, size = (int(of) for of in draw.random.integers(1, 9, 4))
    direction = draw.attributes["direction"] = draw.pick(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    draw.attributes["hidden_size"] = size
    if operator == "GRU":
        draw.attributes["linear_before_reset"] = int(draw.chance(0.5))
    if operator == "RNN":
        draw.attributes["activations"] = [draw.pick(["Tanh", "Relu", "Sigmoid"])] * count
    draw.outputs = outputs
    draw.input(draw.numbers([length, batch, width], "float32"), 0)
    draw.input(draw.numbers([count, gates * size, width], "float32"), 0.8)
    # Larger weights would amplify differences from step to step.
    draw.input(draw.numbers([count, gates * size, size], "float32") / np.float32(size), 0.8)
    if draw.chance(0.7):
        draw.input(draw.numbers([count, 2 * gates * size], "float32"), 0.8)
        if draw.chance(0.5):
            draw.input(draw.random.integers(1, length + 1, [batch]).astype(np.int32), 0.3)
            for _ in range(outputs - 1):
                draw.input(draw.numbers([count, batch, size], "float32"), 0.3)


def resize(draw, _):
    dims = [draw.pick([1, 2]), draw.pick([1, 3]), *[int(of) for of in draw.random.integers(2, 9, 2)]]
    draw.input(draw.numbers(dims, "float32"), 0)
    mode = draw.attributes["mode"] = draw.pick(["nearest", "linear", "cubic"])
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    of = draw.attributes["coordinate_transformation_mode"] = draw.pick([*modes, "tf_crop_and_resize"])
    if mode != "nearest" and draw.opset >= 18 and of in modes[:1] and draw.chance(0.5):
        draw.attributes["antialias"] = 1
    if mode == "nearest":
        draw.attributes["nearest_mode"] = draw.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        draw.attributes["exclude_outside"] = int(draw.chance(0.4))
    if of == "tf_crop_and_resize":
        draw.attributes["extrapolation_value"] = draw.pick([0.0, 2.5])
        draw.input(
            np.array(
                [0, 0, *draw.pick([[0.1, 0.2], [-0.3, 0.0]]), 1, 1, *draw.pick([[0.7, 1.0], [1.2, 0.9]])], np.float32
            ),
            1,
        )
    else:
        draw.inputs.append("")
    if draw.chance(0.5):
        draw.input(np.array([1, 1, draw.pick([2, 0.5, 1.5]), draw.pick([2, 3])], np.float32), 1)
    else:
        draw.inputs.append("")
        draw.integers([dims[0], dims[1], int(draw.random.integers(1, 12)), int(draw.random.integers(1, 12))])


def quantized(draw, operator):
    kinds, dims = ["int8", "uint8", *(["int16", "uint16"] if draw.opset >= 21 or draw.domain else [])], draw.dims()
    kind, at = draw.pick(kinds), draw.axis(len(dims))
    # Of all elements, or of each along an axis.
    own = [dims[at]] if draw.opset >= 13 and draw.chance(0.4) else []
    if own:
        draw.attributes["axis"] = at
    draw.input(draw.numbers(dims, "float32" if operator == "QuantizeLinear" else kind), 0)
    draw.input(np.asarray(np.abs(draw.numbers(own, "float32")) + np.float32(0.01), np.float32), 0.7)
    if kind == "uint8" and draw.chance(0.2):
        return
    draw.input(draw.numbers(own, kind), 0.7)


def quantized_by_microsoft(draw, operator):
    draw.domain = "com.microsoft"
    quantized(draw, operator)
    zero = draw.feeds.get("x2", draw.weights.get("x2"))
    quantizes = operator == "QuantizeLinear"
    draw.kinds = [("uint8" if zero is None else zero.dtype.name) if quantizes else "float32"]


OPERATORS = {
    **dict.fromkeys(UNARY, unary), **dict.fromkeys(BINARY, binary), **dict.fromkeys(COMPARE, compare), **dict.fromkeys(REDUCE, reduce),
    **dict.fromkeys(["And", "Or", "Xor", "Not"], logic), "Where": where, "Clip": clip, "Cast": cast, "Softmax": softmax, "LogSoftmax": softmax,
    "MaxPool": pool, "AveragePool": pool, "Conv": conv, "ConvTranspose": conv, "MatMul": matmul, "Gemm": gemm, "Pad": pad, "Slice": slice_,
    **dict.fromkeys(["Transpose", "Flatten", "Reshape", "Expand", "Unsqueeze"], moved), "Concat": concat, "Gather": gather,
    "GatherElements": gather, "GatherND": gather, "ScatterElements": scatter, "ScatterND": scatter,
    **dict.fromkeys(["LayerNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization"], norm),
    **dict.fromkeys(["TopK", "CumSum", "ArgMax", "ArgMin"], ordered), "Trilu": trilu, "LSTM": recurrent, "GRU": recurrent, "RNN": recurrent, "Resize": resize,
    "QuantizeLinear": quantized, "DequantizeLinear": quantized,
    **dict.fromkeys(["microsoft QuantizeLinear", "microsoft DequantizeLinear"], quantized_by_microsoft),
}  # fmt: skip
