"""Networks with random weights, made with onnx.helper, layer by layer as published by their authors."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 20


class Maker:
    """A graph under construction."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, array, kind=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def normal(self, *dims, gain=1.0):
        fan = int(np.prod(dims[1:])) if len(dims) > 2 else dims[0]
        return self.weight(self.random.standard_normal(dims) * gain / np.sqrt(fan))

    def node(self, operator, *inputs, **attributes):
        self.count += 1
        name = f"{operator}_{self.count}"
        self.nodes.append(helper.make_node(operator, list(inputs), [f"t{self.count}"], name=name, **attributes))
        return f"t{self.count}"

    def integers(self, *values):
        return self.weight(list(values), np.int64)

    def conv(self, x, channels_in, channels_out, size=1, stride=1, groups=1, bias=True, gain=1.4, pad=None):
        pad = size // 2 if pad is None else pad
        w = self.normal(channels_out, channels_in // groups, size, size, gain=gain)
        b = [self.weight(self.random.standard_normal(channels_out) * 0.1)] if bias else []
        return self.node(
            "Conv", x, w, *b, kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4, group=groups
        )

    def batch_norm(self, x, channels):
        uniform = self.random.uniform
        numbers = [
            uniform(0.8, 1.2, channels),
            uniform(-0.1, 0.1, channels),
            uniform(-0.1, 0.1, channels),
            uniform(0.8, 1.2, channels),
        ]
        return self.node("BatchNormalization", x, *[self.weight(of) for of in numbers])

    def linear(self, x, size_in, size_out, bias=True, gain=1.0):
        y = self.node("MatMul", x, self.normal(size_in, size_out, gain=gain))
        return self.node("Add", y, self.weight(self.random.standard_normal(size_out) * 0.02)) if bias else y

    def layer_norm(self, x, size):
        scale, shift = self.random.uniform(0.9, 1.1, size), self.random.uniform(-0.1, 0.1, size)
        return self.node("LayerNormalization", x, self.weight(scale), self.weight(shift), axis=-1)

    def model(self, inputs, outputs):
        values = [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs]
        kind = TensorProto.UINT8 if inputs[0][0] == "bytes" else TensorProto.FLOAT
        outputs = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", values, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        return model.SerializeToString()


def image(batch, size):
    return [("x", TensorProto.FLOAT, [batch, 3, size, size])]


def resnet50(batch):
    m = Maker()

    def unit(x, a, b, size=1, stride=1):
        return m.batch_norm(m.conv(x, a, b, size, stride, bias=False), b)

    x = m.node("Relu", unit("x", 3, 64, 7, 2))
    x = m.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = m.node("Relu", unit(x, channels, width))
            y = m.node("Relu", unit(y, width, width, 3, step))
            y = unit(y, width, 4 * width)
            if block == 0:
                x = unit(x, channels, 4 * width, 1, step)
            channels = 4 * width
            x = m.node("Relu", m.node("Add", y, x))
    x = m.node("Flatten", m.node("GlobalAveragePool", x), axis=1)
    y = m.node("Gemm", x, m.normal(1000, 2048), m.weight(np.zeros(1000)), transB=1)
    return m.model(image(batch, 224), [y]), {"x": (3, 224, 224)}


def mobilenet_v3(batch):
    m = Maker(1)

    def act(x, kind):
        return m.node("HardSwish" if kind == "HS" else "Relu", x)

    def gate(x, channels):
        squeezed = (channels // 4 + 7) // 8 * 8
        y = m.node("GlobalAveragePool", x)
        y = m.node("Relu", m.conv(y, channels, squeezed))
        y = m.node("HardSigmoid", m.conv(y, squeezed, channels), alpha=1 / 6, beta=0.5)
        return m.node("Mul", x, y)

    x = act(m.conv("x", 3, 16, 3, 2), "HS")
    channels = 16
    table = (
        (3, 16, 16, 0, "RE", 1), (3, 64, 24, 0, "RE", 2), (3, 72, 24, 0, "RE", 1), (5, 72, 40, 1, "RE", 2),
        (5, 120, 40, 1, "RE", 1), (5, 120, 40, 1, "RE", 1), (3, 240, 80, 0, "HS", 2), (3, 200, 80, 0, "HS", 1),
        (3, 184, 80, 0, "HS", 1), (3, 184, 80, 0, "HS", 1), (3, 480, 112, 1, "HS", 1), (3, 672, 112, 1, "HS", 1),
        (5, 672, 160, 1, "HS", 2), (5, 960, 160, 1, "HS", 1), (5, 960, 160, 1, "HS", 1),
    )  # fmt: skip
    for size, wide, out, gated, kind, stride in table:
        y = x if wide == channels else act(m.conv(x, channels, wide), kind)
        y = act(m.conv(y, wide, wide, size, stride, groups=wide), kind)
        y = gate(y, wide) if gated else y
        y = m.conv(y, wide, out, gain=1.0)
        x = m.node("Add", x, y) if stride == 1 and channels == out else y
        channels = out
    x = act(m.conv(x, 160, 960), "HS")
    x = m.node("Flatten", m.node("GlobalAveragePool", x), axis=1)
    x = act(m.node("Gemm", x, m.normal(1280, 960), m.weight(np.zeros(1280)), transB=1), "HS")
    y = m.node("Gemm", x, m.normal(1000, 1280), m.weight(np.zeros(1000)), transB=1)
    return m.model(image(batch, 224), [y]), {"x": (3, 224, 224)}


def efficientnet_b0(batch):
    m = Maker(7)

    def swish(x):
        return m.node("Mul", x, m.node("Sigmoid", x))

    def gate(x, channels, squeezed):
        y = swish(m.conv(m.node("GlobalAveragePool", x), channels, squeezed))
        return m.node("Mul", x, m.node("Sigmoid", m.conv(y, squeezed, channels)))

    x = swish(m.conv("x", 3, 32, 3, 2))
    channels = 32
    table = (
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )  # fmt: skip
    for wider, size, stride, out, blocks in table:
        for block in range(blocks):
            wide, step = wider * channels, stride if block == 0 else 1
            y = swish(m.conv(x, channels, wide)) if wider > 1 else x
            y = swish(m.conv(y, wide, wide, size, step, groups=wide))
            y = m.conv(gate(y, wide, channels // 4), wide, out, gain=1.0)
            x = m.node("Add", x, y) if step == 1 and channels == out else y
            channels = out
    x = m.node("Flatten", m.node("GlobalAveragePool", swish(m.conv(x, 320, 1280))), axis=1)
    y = m.node("Gemm", x, m.normal(1000, 1280), m.weight(np.zeros(1000)), transB=1)
    return m.model(image(batch, 224), [y]), {"x": (3, 224, 224)}


def convnext_tiny(batch):
    m = Maker(2)

    def norm(x, channels):
        x = m.node("Transpose", x, perm=[0, 2, 3, 1])
        return m.node("Transpose", m.layer_norm(x, channels), perm=[0, 3, 1, 2])

    x = norm(m.conv("x", 3, 96, 4, 4, pad=0), 96)
    channels = 96
    for width, blocks in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if width != channels:
            x = m.conv(norm(x, channels), channels, width, 2, 2, pad=0)
            channels = width
        for _ in range(blocks):
            y = m.conv(x, width, width, 7, groups=width)
            y = m.layer_norm(m.node("Transpose", y, perm=[0, 2, 3, 1]), width)
            y = m.linear(m.node("Gelu", m.linear(y, width, 4 * width)), 4 * width, width)
            y = m.node("Mul", y, m.weight(m.random.uniform(0.1, 0.3, width)))
            x = m.node("Add", x, m.node("Transpose", y, perm=[0, 3, 1, 2]))
    x = m.node("Flatten", norm(m.node("GlobalAveragePool", x), 768), axis=1)
    y = m.node("Gemm", x, m.normal(1000, 768), m.weight(np.zeros(1000)), transB=1)
    return m.model(image(batch, 224), [y]), {"x": (3, 224, 224)}


def attention(m, x, size, count, tokens, mask=None):
    def heads(of, perm):
        return m.node("Transpose", m.node("Reshape", of, m.integers(0, tokens, count, size // count)), perm=perm)

    q, k, v = (m.linear(x, size, size) for _ in range(3))
    q, k, v = heads(q, [0, 2, 1, 3]), heads(k, [0, 2, 3, 1]), heads(v, [0, 2, 1, 3])
    scores = m.node("Div", m.node("MatMul", q, k), m.weight(np.sqrt(size // count)))
    scores = m.node("Add", scores, mask) if mask else scores
    y = m.node("MatMul", m.node("Softmax", scores, axis=-1), v)
    y = m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.integers(0, tokens, size))
    return m.linear(y, size, size)


def vit_small(batch):
    m = Maker(3)
    size, tokens = 384, 196
    x = m.conv("x", 3, size, 16, 16, pad=0)
    x = m.node("Transpose", m.node("Reshape", x, m.integers(0, size, tokens)), perm=[0, 2, 1])
    x = m.node("Add", x, m.weight(m.random.standard_normal((1, tokens, size)) * 0.02))
    for _ in range(12):
        x = m.node("Add", x, attention(m, m.layer_norm(x, size), size, 6, tokens))
        y = m.node("Gelu", m.linear(m.layer_norm(x, size), size, 4 * size))
        x = m.node("Add", x, m.linear(y, 4 * size, size))
    x = m.node("ReduceMean", m.layer_norm(x, size), m.integers(1), keepdims=0)
    return m.model(image(batch, 224), [m.linear(x, size, 1000)]), {"x": (3, 224, 224)}


def bert_base(batch, layers=12, tokens=128):
    m = Maker(4)
    size = 768
    table = m.weight(m.random.standard_normal((3000, size)) * 0.5)
    x = m.node("Add", m.node("Gather", table, "ids"), m.weight(m.random.standard_normal((1, tokens, size)) * 0.1))
    x = m.layer_norm(x, size)
    mask = m.node("Cast", m.node("Unsqueeze", "mask", m.integers(1, 2)), to=TensorProto.FLOAT)
    mask = m.node("Mul", m.node("Sub", m.weight(1.0), mask), m.weight(-10000.0))
    for _ in range(layers):
        x = m.layer_norm(m.node("Add", x, attention(m, x, size, 12, tokens, mask)), size)
        y = m.linear(x, size, 4 * size)
        half = m.node("Add", m.node("Erf", m.node("Div", y, m.weight(np.sqrt(2.0)))), m.weight(1.0))
        y = m.node("Mul", m.node("Mul", y, half), m.weight(0.5))
        x = m.layer_norm(m.node("Add", x, m.linear(y, 4 * size, size)), size)
    inputs = [("ids", TensorProto.INT64, [batch, tokens]), ("mask", TensorProto.INT64, [batch, tokens])]
    return m.model(inputs, [x]), {"ids": (tokens,), "mask": (tokens,)}


def unet(batch):
    m = Maker(5)

    def double(x, a, b):
        x = m.node("Relu", m.batch_norm(m.conv(x, a, b, 3, bias=False), b))
        return m.node("Relu", m.batch_norm(m.conv(x, b, b, 3, bias=False), b))

    kept, x, channels = [], "x", 3
    for width in (32, 64, 128, 256):
        x = double(x, channels, width)
        kept.append(x)
        x = m.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        channels = width
    x = double(x, 256, 512)
    for width in (256, 128, 64, 32):
        w = m.normal(2 * width, width, 2, 2)
        x = m.node("ConvTranspose", x, w, m.weight(np.zeros(width)), kernel_shape=[2, 2], strides=[2, 2])
        x = double(m.node("Concat", kept.pop(), x, axis=1), 2 * width, width)
    return m.model(image(batch, 128), [m.conv(x, 32, 2)]), {"x": (3, 128, 128)}


def detector(batch):
    """A backbone, a pyramid with nearest upsampling, and heads: the shape of YOLO's newer versions."""
    m = Maker(6)

    def unit(x, a, b, size=3, stride=1):
        y = m.conv(x, a, b, size, stride)
        return m.node("Mul", y, m.node("Sigmoid", y))

    def stage(x, a, count):
        left, right = unit(x, a, a // 2, 1), unit(x, a, a // 2, 1)
        for _ in range(count):
            right = m.node("Add", right, unit(unit(right, a // 2, a // 2, 1), a // 2, a // 2))
        return unit(m.node("Concat", left, right, axis=1), a, a, 1)

    def larger(x):
        return m.node(
            "Resize",
            x,
            "",
            m.weight([1.0, 1.0, 2.0, 2.0]),
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        )

    x = unit(unit("x", 3, 16, 3, 2), 16, 32, 3, 2)
    p3 = stage(unit(stage(x, 32, 1), 32, 64, 3, 2), 64, 2)
    p4 = stage(unit(p3, 64, 128, 3, 2), 128, 2)
    p5 = stage(unit(p4, 128, 256, 3, 2), 256, 1)
    pooled = m.node("MaxPool", unit(p5, 256, 128, 1), kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    p5 = unit(m.node("Concat", p5, pooled, axis=1), 384, 256, 1)
    p4 = stage(m.node("Concat", larger(p5), p4, axis=1), 384, 1)
    p3 = stage(m.node("Concat", larger(p4), p3, axis=1), 448, 1)
    outputs = []
    for level, channels in ((p3, 448), (p4, 384), (p5, 256)):
        y = m.conv(unit(level, channels, 64), 64, 85)
        outputs.append(m.node("Reshape", y, m.integers(0, 85, -1)))
    y = m.node("Transpose", m.node("Concat", *outputs, axis=2), perm=[0, 2, 1])
    return m.model(image(batch, 256), [m.node("Sigmoid", y)]), {"x": (3, 256, 256)}


VISION = (resnet50, mobilenet_v3, efficientnet_b0, convnext_tiny, vit_small, unet, detector)
NETWORKS = {of.__name__: of for of in (*VISION, bert_base)}


def inputs(shapes, batch, seed=0):
    random = np.random.default_rng(seed)
    made = {}
    for name, dims in shapes.items():
        if name == "ids":
            made[name] = random.integers(0, 3000, (batch, *dims))
        elif name == "mask":
            made[name] = (np.arange(dims[0]) < dims[0] - 8 * np.arange(1, batch + 1)[:, None]).astype(np.int64)
        elif name == "bytes":
            made[name] = random.integers(0, 256, (batch, *dims), np.uint8)
        else:
            made[name] = random.standard_normal((batch, *dims)).astype(np.float32)
    return made
