"""More networks with random weights: older and smaller ones, that run on many devices, and a language model that decodes."""

import numpy as np
from networks import Maker, attention, bert_base, image
from onnx import TensorProto


def head(m, x, channels):
    """Mean of an image, then 1,000 classes."""
    x = m.node("Flatten", m.node("GlobalAveragePool", x), axis=1)
    return m.node("Gemm", x, m.normal(1000, channels), m.weight(np.zeros(1000)), transB=1)


def pool(m, x, size=3, stride=2, pad=1, kind="MaxPool"):
    more = {"count_include_pad": 1} if kind == "AveragePool" else {}
    return m.node(kind, x, kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4, **more)


def unit(m, x, a, b, size=1, stride=1, groups=1, act="Relu"):
    """Convolution and batch normalization, which exporters fold into it, then an activation."""
    y = m.conv(x, a, b, size, stride, groups)
    return m.node(act, y) if act else y


def resnet18(batch):
    m = Maker(11)
    x, channels = pool(m, unit(m, "x", 3, 64, 7, 2)), 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            step = 2 if block == 0 and width > 64 else 1
            y = unit(m, unit(m, x, channels, width, 3, step), width, width, 3, act=None)
            x = unit(m, x, channels, width, 1, step, act=None) if channels != width else x
            x, channels = m.node("Relu", m.node("Add", y, x)), width
    return m.model(image(batch, 224), [head(m, x, 512)]), {"x": (3, 224, 224)}


def vgg11(batch):
    m = Maker(12)
    x, channels = "x", 3
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width == 0:
            x = pool(m, x, 2, 2, 0)
        else:
            x, channels = unit(m, x, channels, width, 3), width
    x = m.node("Flatten", x, axis=1)
    for a, b, act in ((25088, 4096, "Relu"), (4096, 4096, "Relu"), (4096, 1000, None)):
        x = m.node("Gemm", x, m.normal(b, a), m.weight(np.zeros(b)), transB=1)
        x = m.node(act, x) if act else x
    return m.model(image(batch, 224), [x]), {"x": (3, 224, 224)}


def bottlenecks(m, x):
    """The body of MobileNetV2."""

    def clip(x):
        return m.node("Clip", x, low, high)

    low, high = m.weight(0.0), m.weight(6.0)
    x, channels = clip(m.conv(x, 3, 32, 3, 2)), 32
    for wider, width, blocks, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        for block in range(blocks):
            step, wide = stride if block == 0 else 1, wider * channels
            y = clip(m.conv(x, channels, wide)) if wider > 1 else x
            y = m.conv(clip(m.conv(y, wide, wide, 3, step, groups=wide)), wide, width, gain=1.0)
            x = m.node("Add", x, y) if step == 1 and channels == width else y
            channels = width
    return clip(m.conv(x, 320, 1280))


def mobilenet_v2(batch):
    m = Maker(13)
    return m.model(image(batch, 224), [head(m, bottlenecks(m, "x"), 1280)]), {"x": (3, 224, 224)}


def densenet121(batch):
    m = Maker(14)

    def before(x, channels):
        return m.node("Relu", m.batch_norm(x, channels))

    x, channels = pool(m, unit(m, "x", 3, 64, 7, 2)), 64
    for layers in (6, 12, 24, 16):
        for _ in range(layers):
            y = unit(m, before(x, channels), channels, 128)
            x = m.node("Concat", x, m.conv(y, 128, 32, 3, bias=False), axis=1)
            channels += 32
        if layers != 16:
            x = pool(m, m.conv(before(x, channels), channels, channels // 2, bias=False), 2, 2, 0, "AveragePool")
            channels //= 2
    return m.model(image(batch, 224), [head(m, before(x, channels), channels)]), {"x": (3, 224, 224)}


def regnet_y_800mf(batch):
    m = Maker(15)
    x, channels = unit(m, "x", 3, 32, 3, 2), 32
    for width, blocks in ((64, 1), (144, 3), (320, 8), (784, 2)):
        for block in range(blocks):
            step, squeezed = 2 if block == 0 else 1, channels // 4
            y = unit(m, x, channels, width)
            y = unit(m, y, width, width, 3, step, groups=width // 16)
            gate = m.node("Relu", m.conv(m.node("GlobalAveragePool", y), width, squeezed))
            y = m.node("Mul", y, m.node("Sigmoid", m.conv(gate, squeezed, width)))
            y = unit(m, y, width, width, act=None)
            x = unit(m, x, channels, width, 1, step, act=None) if block == 0 else x
            x, channels = m.node("Relu", m.node("Add", x, y)), width
    return m.model(image(batch, 224), [head(m, x, 784)]), {"x": (3, 224, 224)}


def squeezenet1_1(batch):
    m = Maker(16)
    x, channels = pool(m, unit(m, "x", 3, 64, 3, 2), pad=0), 64
    for squeezed, width in (
        (16, 64), (16, 64), (0, 0), (32, 128), (32, 128), (0, 0), (48, 192), (48, 192), (64, 256), (64, 256)
    ):  # fmt: skip
        if width == 0:
            x = pool(m, x, pad=0)
            continue
        y = unit(m, x, channels, squeezed)
        x = m.node("Concat", unit(m, y, squeezed, width), unit(m, y, squeezed, width, 3), axis=1)
        channels = 2 * width
    x = m.node("GlobalAveragePool", unit(m, x, 512, 1000))
    return m.model(image(batch, 224), [m.node("Flatten", x, axis=1)]), {"x": (3, 224, 224)}


def inception_v3(batch):
    m = Maker(17)

    def conv(x, a, b, height, width=None, stride=1, pads=None):
        width = height if width is None else width
        pads = (height // 2, width // 2) if pads is None else pads
        w = m.normal(b, a, height, width, gain=1.4)
        bias = m.weight(np.zeros(b))
        shape = {"kernel_shape": [height, width], "strides": [stride, stride], "pads": [*pads, *pads]}
        return m.node("Relu", m.node("Conv", x, w, bias, **shape))

    def mean(x):
        return pool(m, x, 3, 1, 1, "AveragePool")

    def joined(*parts):
        return m.node("Concat", *parts, axis=1)

    x = conv(conv("x", 3, 32, 3, stride=2, pads=(0, 0)), 32, 32, 3, pads=(0, 0))
    x = pool(m, conv(x, 32, 64, 3), pad=0)
    x = pool(m, conv(conv(x, 64, 80, 1), 80, 192, 3, pads=(0, 0)), pad=0)
    channels = 192
    for last in (32, 64, 64):
        far = conv(conv(conv(x, channels, 64, 1), 64, 96, 3), 96, 96, 3)
        near = conv(conv(x, channels, 48, 1), 48, 64, 5)
        x = joined(conv(x, channels, 64, 1), near, far, conv(mean(x), channels, last, 1))
        channels = 224 + last
    far = conv(conv(conv(x, 288, 64, 1), 64, 96, 3), 96, 96, 3, stride=2, pads=(0, 0))
    x = joined(conv(x, 288, 384, 3, stride=2, pads=(0, 0)), far, pool(m, x, pad=0))
    for width in (128, 160, 160, 192):
        near = conv(conv(conv(x, 768, width, 1), width, width, 1, 7), width, 192, 7, 1)
        far = conv(conv(conv(x, 768, width, 1), width, width, 7, 1), width, width, 1, 7)
        far = conv(conv(far, width, width, 7, 1), width, 192, 1, 7)
        x = joined(conv(x, 768, 192, 1), near, far, conv(mean(x), 768, 192, 1))
    near = conv(conv(x, 768, 192, 1), 192, 320, 3, stride=2, pads=(0, 0))
    far = conv(conv(conv(x, 768, 192, 1), 192, 192, 1, 7), 192, 192, 7, 1)
    x = joined(near, conv(far, 192, 192, 3, stride=2, pads=(0, 0)), pool(m, x, pad=0))
    channels = 1280
    for _ in range(2):
        near = conv(x, channels, 384, 1)
        far = conv(conv(x, channels, 448, 1), 448, 384, 3)
        pairs = [conv(y, 384, 384, *shape) for y in (near, far) for shape in ((1, 3), (3, 1))]
        x = joined(conv(x, channels, 320, 1), *pairs, conv(mean(x), channels, 192, 1))
        channels = 2048
    return m.model(image(batch, 299), [head(m, x, 2048)]), {"x": (3, 299, 299)}


def shufflenet_v2(batch):
    m = Maker(18)

    def shuffled(x, channels, size):
        x = m.node("Reshape", x, m.integers(0, 2, channels // 2, size, size))
        return m.node("Reshape", m.node("Transpose", x, perm=[0, 2, 1, 3, 4]), m.integers(0, channels, size, size))

    x, channels, size = pool(m, unit(m, "x", 3, 24, 3, 2)), 24, 56
    for width, blocks in ((116, 4), (232, 8), (464, 4)):
        half = width // 2
        for block in range(blocks):
            if block == 0:
                size //= 2
                left = m.conv(x, channels, channels, 3, 2, groups=channels)
                left, right, step, a = unit(m, left, channels, half), x, 2, channels
            else:
                left = m.node("Slice", x, m.integers(0), m.integers(half), m.integers(1))
                right, step, a = m.node("Slice", x, m.integers(half), m.integers(width), m.integers(1)), 1, half
            right = m.conv(unit(m, right, a, half), half, half, 3, step, groups=half)
            right = unit(m, right, half, half)
            x, channels = shuffled(m.node("Concat", left, right, axis=1), width, size), width
    return m.model(image(batch, 224), [head(m, unit(m, x, 464, 1024), 1024)]), {"x": (3, 224, 224)}


def deeplabv3(batch):
    """MobileNetV2 as a backbone, then atrous pyramid pooling: dilated convolutions, and bilinear upsampling."""
    m = Maker(19)

    def dilated(x, rate):
        w, shape = m.normal(256, 1280, 3, 3, gain=1.4), {"kernel_shape": [3, 3], "dilations": [rate, rate]}
        return m.node("Relu", m.node("Conv", x, w, m.weight(np.zeros(256)), pads=[rate] * 4, **shape))

    def resized(x, factor):
        sizes = m.weight([1.0, 1.0, factor, factor])
        return m.node("Resize", x, "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")

    x = bottlenecks(m, "x")
    mean = resized(unit(m, m.node("GlobalAveragePool", x), 1280, 256), 10.0)
    x = m.node("Concat", unit(m, x, 1280, 256), *[dilated(x, rate) for rate in (3, 6, 9)], mean, axis=1)
    x = m.conv(unit(m, unit(m, x, 1280, 256), 256, 256, 3), 256, 21)
    return m.model(image(batch, 320), [resized(x, 32.0)]), {"x": (3, 320, 320)}


def distilbert(batch):
    return bert_base(batch, layers=6)


def swin_t(batch):
    m = Maker(20)

    def windows(x, size, channels, back=False):
        many = size // 7
        if back:
            x = m.node("Reshape", x, m.integers(-1, many, many, 7, 7, channels))
            x = m.node("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
            return m.node("Reshape", x, m.integers(-1, size, size, channels))
        x = m.node("Reshape", x, m.integers(-1, many, 7, many, 7, channels))
        return m.node("Reshape", m.node("Transpose", x, perm=[0, 1, 3, 2, 4, 5]), m.integers(-1, 49, channels))

    def rolled(x, by):
        for axis in (1, 2):
            start, end, one = m.integers(by), m.integers(1 << 40), m.integers(axis)
            first = m.node("Slice", x, m.integers(-(1 << 40)), start, one)
            x = m.node("Concat", m.node("Slice", x, start, end, one), first, axis=axis)
        return x

    x = m.node("Transpose", m.conv("x", 3, 96, 4, 4, pad=0), perm=[0, 2, 3, 1])
    x, size, channels = m.layer_norm(x, 96), 56, 96
    for blocks, heads in ((2, 3), (2, 6), (6, 12), (2, 24)):
        for block in range(blocks):
            y, shifted = m.layer_norm(x, channels), block % 2 == 1 and size > 7
            y = windows(rolled(y, 3) if shifted else y, size, channels)
            bias = m.weight(m.random.standard_normal((1, heads, 49, 49)) * 0.02)
            y = windows(attention(m, y, channels, heads, 49, bias), size, channels, back=True)
            x = m.node("Add", x, rolled(y, -3) if shifted else y)
            y = m.node("Gelu", m.linear(m.layer_norm(x, channels), channels, 4 * channels))
            x = m.node("Add", x, m.linear(y, 4 * channels, channels))
        if size > 7:
            half = size // 2
            y = m.node("Reshape", x, m.integers(-1, half, 2, half, 2, channels))
            y = m.node(
                "Reshape", m.node("Transpose", y, perm=[0, 1, 3, 4, 2, 5]), m.integers(-1, half, half, 4 * channels)
            )
            x = m.linear(m.layer_norm(y, 4 * channels), 4 * channels, 2 * channels, bias=False)
            size, channels = half, 2 * channels
    x = m.node("ReduceMean", m.layer_norm(x, channels), m.integers(1, 2), keepdims=0)
    return m.model(image(batch, 224), [m.linear(x, channels, 1000)]), {"x": (3, 224, 224)}


def gpt2_decoding(batch, layers=12, past=256):
    """One token of GPT-2 with a cache of keys and values, without the copies of the cache."""
    m = Maker(21)
    size, heads = 768, 12
    table = m.weight(m.random.standard_normal((3000, size)) * 0.1)
    x = m.node("Reshape", m.node("Gather", table, "ids"), m.integers(-1, 1, size))
    inputs, shapes = [("ids", TensorProto.INT64, [batch, 1])], {"ids": (1,)}
    for layer in range(layers):
        for name in (f"k{layer}", f"v{layer}"):
            inputs.append((name, TensorProto.FLOAT, [batch, heads, past, 64]))
            shapes[name] = (heads, past, 64)
        y = m.linear(m.layer_norm(x, size), size, 3 * size)
        y = m.node("Transpose", m.node("Reshape", y, m.integers(-1, 1, 3, heads, 64)), perm=[2, 0, 3, 1, 4])
        q, k, v = (m.node("Gather", y, m.weight(np.array(at), np.int64), axis=0) for at in range(3))
        k, v = (m.node("Concat", f"{name}{layer}", new, axis=2) for name, new in (("k", k), ("v", v)))
        scores = m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = m.node("Softmax", m.node("Mul", scores, m.weight(0.125)), axis=-1)
        y = m.node("Transpose", m.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = m.node("Add", x, m.linear(m.node("Reshape", y, m.integers(-1, 1, size)), size, size))
        y = m.node("Gelu", m.linear(m.layer_norm(x, size), size, 4 * size), approximate="tanh")
        x = m.node("Add", x, m.linear(y, 4 * size, size))
    y = m.node("MatMul", m.layer_norm(x, size), m.normal(size, 8192))
    return m.model(inputs, [y]), shapes


MORE = (
    resnet18, vgg11, mobilenet_v2, densenet121, regnet_y_800mf, squeezenet1_1, inception_v3, shufflenet_v2, deeplabv3,
    distilbert, swin_t, gpt2_decoding,
)  # fmt: skip
NETWORKS = {of.__name__: of for of in MORE}
