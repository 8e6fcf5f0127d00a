"""Single operators and the few that a network uses together, in the sizes that networks have: where the provider loses time."""

import numpy as np
from networks import Maker
from onnx import TensorProto

CASES = {}


def case(name, dims, more=None):
    """Adds a case: `build` gets a maker, and `x` is an input of these sizes, the first one for each item of the batch."""

    def add(build):
        def make(batch):
            m = Maker(len(name))
            shapes = {"x": dims[1:], **(more or {})}
            values = [(key, TensorProto.FLOAT, [batch * dims[0], *of]) for key, of in shapes.items()]
            return m.model(values, [build(m)]), shapes, batch * dims[0]

        CASES[name] = make

    return add


def convolution(a, b, size, image, stride=1, groups=1, act="Relu", dilation=1):
    name = f"conv {size}x{size} {a}>{b} {image}" + (f" /{stride}" if stride > 1 else "")
    name += (f" groups {groups}" if groups > 1 else "") + (f" dilation {dilation}" if dilation > 1 else "")

    @case(name, (1, a, image, image))
    def _(m):
        w, bias = m.normal(b, a // groups, size, size), m.weight(np.zeros(b))
        pads, sizes = [dilation * (size // 2)] * 4, {"kernel_shape": [size, size], "dilations": [dilation] * 2}
        y = m.node("Conv", "x", w, bias, **sizes, strides=[stride] * 2, pads=pads, group=groups)
        return m.node(act, y) if act else y


for of in (
    (3, 32, 3, 224, 2), (3, 64, 7, 224, 2), (3, 64, 3, 112), (3, 96, 4, 224, 4), (16, 96, 1, 112), (96, 24, 1, 56), (64, 256, 1, 56),
    (256, 64, 1, 56), (128, 512, 1, 28), (512, 128, 1, 28), (1024, 256, 1, 14), (256, 1024, 1, 14), (2048, 512, 1, 7),
    (512, 2048, 1, 7), (160, 960, 1, 7), (320, 1280, 1, 7), (512, 1000, 1, 13), (64, 64, 3, 56), (128, 128, 3, 28),
    (256, 256, 3, 14), (512, 512, 3, 7), (128, 128, 3, 56, 2), (128, 32, 3, 28), (128, 32, 3, 14), (4, 320, 3, 64),
    (320, 320, 3, 32), (64, 3, 3, 128), (64, 128, 5, 28),
):  # fmt: skip
    convolution(*of)
for of in ((32, 3, 112, 1), (96, 3, 112, 2), (144, 3, 56, 1), (384, 3, 14, 1), (960, 3, 7, 1), (240, 5, 28, 1), (672, 5, 14, 1),
           (96, 7, 56, 1), (384, 7, 14, 1), (64, 9, 32, 1)):  # fmt: skip
    convolution(of[0], of[0], of[1], of[2], of[3], groups=of[0])
convolution(144, 144, 3, 56, groups=9)
convolution(320, 320, 3, 14, groups=20)
convolution(58, 58, 1, 28)
convolution(256, 256, 3, 28, dilation=2)
convolution(512, 256, 3, 33, dilation=6)
convolution(96, 96, 3, 32, groups=96, dilation=2)


def quantized(a, b, size, image, stride=1, groups=1, zero=128):
    """A convolution of bytes alone: dequantized, computed and quantized. Weights have a scale and a zero point of each channel."""
    name = f"bytes conv {size}x{size} {a}>{b} {image}" + (f" /{stride}" if stride > 1 else "")
    name += (f" groups {groups}" if groups > 1 else "") + f" zero {zero}"

    def make(batch):
        m = Maker(len(name))
        w = m.weight(m.random.integers(-127, 128, (b, a // groups, size, size)), np.int8)
        scales, zeros = m.weight(m.random.uniform(0.004, 0.02, b)), m.weight(np.zeros(b), np.int8)
        of_x, of_y, point = m.weight(0.02), m.weight(0.1), m.weight(zero, np.uint8)
        x, w = m.node("DequantizeLinear", "bytes", of_x, point), m.node("DequantizeLinear", w, scales, zeros, axis=0)
        sizes = {"kernel_shape": [size, size], "strides": [stride] * 2, "pads": [size // 2] * 4, "group": groups}
        y = m.node("QuantizeLinear", m.node("Conv", x, w, **sizes), of_y, point)
        shapes = {"bytes": (a, image, image)}
        return m.model([("bytes", TensorProto.UINT8, [batch, a, image, image])], [y]), shapes, batch

    CASES[name] = make


for of in ((16, 96, 1, 112), (96, 24, 1, 56), (256, 256, 1, 14), (960, 160, 1, 7), (3, 32, 3, 224, 2), (64, 64, 3, 56),
           (128, 128, 3, 28), (512, 512, 3, 7), (32, 32, 3, 112, 1, 32), (144, 144, 3, 56, 1, 144)):  # fmt: skip
    quantized(*of)
    quantized(*of, **{"zero": 0})


def product(rows, k, n, act=None):
    @case(f"product {rows}x{k}x{n}" + (f" {act}" if act else ""), (rows, k))
    def _(m):
        y = m.node("Gemm", "x", m.normal(n, k), m.weight(np.zeros(n)), transB=1)
        return m.node(act, y) if act else y


for of in ((1, 512, 1000), (1, 1280, 1000), (1, 768, 3072), (1, 4096, 4096), (4, 768, 768), (16, 768, 3072), (128, 768, 768),
           (128, 768, 3072), (128, 3072, 768), (197, 384, 1536), (512, 512, 512)):  # fmt: skip
    product(*of)
product(128, 768, 3072, "Gelu")


def batched(heads, rows, k, n):
    @case(f"batched product {heads} of {rows}x{k}x{n}", (1, heads, rows, k), {"y": (heads, k, n)})
    def _(m):
        return m.node("MatMul", "x", "y")


for of in ((12, 128, 64, 128), (12, 128, 128, 64), (12, 1, 64, 128), (32, 1, 128, 512)):
    batched(*of)


@case("attention of four nodes, 12 heads of 128x64", (1, 12, 128, 64), {"k": (12, 64, 128), "v": (12, 128, 64)})
def attention(m):
    scores = m.node("Mul", m.node("MatMul", "x", "k"), m.weight(0.125))
    return m.node("MatMul", m.node("Softmax", scores, axis=-1), "v")


@case("rotary embedding, 12 heads of 128x64", (1, 12, 128, 64), {"c": (1, 128, 64), "s": (1, 128, 64)})
def rotary(m):
    first, second = ([m.integers(of), m.integers(of + 32), m.integers(3)] for of in (0, 32))
    turned = m.node("Concat", m.node("Neg", m.node("Slice", "x", *second)), m.node("Slice", "x", *first), axis=3)
    return m.node("Add", m.node("Mul", "x", "c"), m.node("Mul", turned, "s"))


@case("RMSNorm of six nodes, 128x768", (128, 768))
def rms_norm(m):
    mean = m.node("ReduceMean", m.node("Pow", "x", m.weight(2.0)), m.integers(-1))
    y = m.node("Div", "x", m.node("Sqrt", m.node("Add", mean, m.weight(1e-5))))
    return m.node("Mul", y, m.weight(np.ones(768)))


@case("squeeze and excite, 96 of 56", (1, 96, 56, 56))
def squeeze(m):
    gate = m.node("Relu", m.conv(m.node("GlobalAveragePool", "x"), 96, 24))
    return m.node("Mul", "x", m.node("Sigmoid", m.conv(gate, 24, 96)))


@case("batch norm and RELU behind a concatenation, 96 + 32 of 56", (1, 96, 56, 56), {"y": (32, 56, 56)})
def dense(m):
    return m.node("Relu", m.batch_norm(m.node("Concat", "x", "y", axis=1), 128))


@case("channel shuffle, 116 of 28", (1, 116, 28, 28))
def shuffle(m):
    y = m.node("Transpose", m.node("Reshape", "x", m.integers(0, 2, 58, 28, 28)), perm=[0, 2, 1, 3, 4])
    return m.node("Reshape", y, m.integers(0, 116, 28, 28))


@case("ConvTranspose 2x2 128>64 32 /2", (1, 128, 32, 32))
def transposed(m):
    return m.node("ConvTranspose", "x", m.normal(128, 64, 2, 2), kernel_shape=[2, 2], strides=[2, 2])


def single(name, dims, operator, *numbers, **attributes):
    @case(name, dims)
    def _(m):
        return m.node(operator, "x", *[m.weight(of, np.asarray(of).dtype) for of in numbers], **attributes)


for operator in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Gelu", "Erf", "Exp", "Softplus"):
    single(f"{operator}, 96 of 56", (1, 96, 56, 56), operator)
f32 = np.float32
single("Clip, 96 of 112", (1, 96, 112, 112), "Clip", f32(0), f32(6))
single("softmax, 1536 rows of 128", (1536, 128), "Softmax", axis=-1)
single("softmax, 8 rows of 32000", (8, 32000), "Softmax", axis=-1)
single("layer norm, 128x768", (128, 768), "LayerNormalization", np.ones(768, f32), np.zeros(768, f32), axis=-1)
single("instance norm, 64 of 64", (1, 64, 64, 64), "InstanceNormalization", np.ones(64, f32), np.zeros(64, f32))
single("MaxPool 3x3 /2, 64 of 112", (1, 64, 112, 112), "MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
single("MaxPool 2x2 /2, 64 of 112", (1, 64, 112, 112), "MaxPool", kernel_shape=[2, 2], strides=[2, 2])
single("MaxPool 5x5, 256 of 20", (1, 256, 20, 20), "MaxPool", kernel_shape=[5, 5], pads=[2] * 4)
single("AveragePool 3x3, 192 of 35", (1, 192, 35, 35), "AveragePool", kernel_shape=[3, 3], pads=[1] * 4)
single("GlobalAveragePool, 1280 of 7", (1, 1280, 7, 7), "GlobalAveragePool")
single("mean of rows, 1536x128", (1536, 128), "ReduceMean", np.array([-1]))
single("mean of columns, 1536x128", (1536, 128), "ReduceMean", np.array([0]))
single("transpose of heads, 128x12x64", (1, 128, 12, 64), "Transpose", perm=[0, 2, 1, 3])
single("transpose of channels, 64 of 56", (1, 64, 56, 56), "Transpose", perm=[0, 2, 3, 1])
scales = np.array([1, 1, 2, 2], f32)
single("Resize nearest by 2, 128 of 32", (1, 128, 32, 32), "Resize", np.array([], f32), scales, mode="nearest")
single("Resize linear by 2, 64 of 32", (1, 64, 32, 32), "Resize", np.array([], f32), scales, mode="linear")


@case("ArgMax of channels, 21 of 128", (1, 21, 128, 128))
def argmax(m):
    return m.node("Cast", m.node("ArgMax", "x", axis=1), to=TensorProto.FLOAT)
