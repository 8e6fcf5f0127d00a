"""Networks by PyTorch's functions, node by node, on a GPU: the baseline where ONNX Runtime has no GPU provider."""

import functools

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional


def padded(of, x, value):
    """An image padded on both sides of each dimension, and the remaining padding, none."""
    pads = of.get("pads", [0, 0, 0, 0])
    if pads[:2] == pads[2:]:
        return x, pads[:2]
    return functional.pad(x, [pads[1], pads[3], pads[0], pads[2]], value=value), [0, 0]


def conv(of, x, w, b=None):
    x, padding = padded(of, x, 0.0)
    return functional.conv2d(
        x, w, b, of.get("strides", [1, 1]), padding, of.get("dilations", [1, 1]), of.get("group", 1)
    )


def max_pool(of, x):
    x, padding = padded(of, x, float("-inf"))
    return functional.max_pool2d(x, of["kernel_shape"], of.get("strides", 1), padding)


def average_pool(of, x):
    # Padded by the function itself: it counts that padding, or does not.
    counts = bool(of.get("count_include_pad", 0))
    return functional.avg_pool2d(x, of["kernel_shape"], of["strides"], of.get("pads", [0])[:2], False, counts)


def batch_norm(of, x, scale, bias, mean, variance):
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, of.get("epsilon", 1e-5))


def gemm(of, a, b, c):
    return functional.linear(a.T if of.get("transA") else a, b if of.get("transB") else b.T, c)


def reshape(of, x, shape):
    sizes = [x.shape[at] if size == 0 else size for at, size in enumerate(shape)]
    return x.reshape(sizes)


def resize(of, x, _, scales):
    if of["mode"] == b"linear":
        return functional.interpolate(x, scale_factor=scales[2:], mode="bilinear", align_corners=False)
    return functional.interpolate(x, scale_factor=scales[2:], mode="nearest")


def part(_, x, starts, ends, axes):
    for start, end, axis in zip(starts, ends, axes):
        x = x[(slice(None),) * axis + (slice(start, end),)]
    return x


FUNCTIONS = {
    "Add": lambda of, x, y: x + y,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Cast": lambda of, x: x.to({1: torch.float32, 7: torch.int64, 10: torch.float16}[of["to"]]),
    "Clip": lambda of, x, low, high: x.clamp(low, high),
    "Concat": lambda of, *x: torch.cat(x, of["axis"]),
    "Conv": conv,
    "ConvTranspose": lambda of, x, w, b=None: functional.conv_transpose2d(x, w, b, of.get("strides", [1, 1])),
    "Div": lambda of, x, y: x / y,
    "Erf": lambda of, x: torch.erf(x),
    "Flatten": lambda of, x: x.flatten(of.get("axis", 1)),
    "Gather": lambda of, x, at: functional.embedding(at, x),
    "Gelu": lambda of, x: functional.gelu(x, approximate=of.get("approximate", b"none").decode()),
    "Gemm": gemm,
    "GlobalAveragePool": lambda of, x: x.mean((2, 3), keepdim=True),
    "HardSigmoid": lambda of, x: (x * of.get("alpha", 0.2) + of.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": lambda of, x: functional.hardswish(x),
    "LayerNormalization": lambda of, x, w, b: functional.layer_norm(x, w.shape, w, b, of.get("epsilon", 1e-5)),
    "MatMul": lambda of, x, y: x @ y,
    "MaxPool": max_pool,
    "Mul": lambda of, x, y: x * y,
    "ReduceMean": lambda of, x, axes: x.mean(axes, keepdim=bool(of.get("keepdims", 1))),
    "Relu": lambda of, x: functional.relu(x),
    "Reshape": reshape,
    "Resize": resize,
    "Sigmoid": lambda of, x: torch.sigmoid(x),
    "Slice": part,
    "Softmax": lambda of, x: torch.softmax(x, of.get("axis", -1)),
    "Sub": lambda of, x, y: x - y,
    "Transpose": lambda of, x: x.permute(of["perm"]),
    "Unsqueeze": lambda of, x, axes: functools.reduce(torch.unsqueeze, sorted(axes), x),
}

# Operands that are parameters, not data: they stay lists.
LISTS = {"Clip": [1, 2], "Reshape": [1], "Resize": [2], "ReduceMean": [1], "Slice": [1, 2, 3], "Unsqueeze": [1]}

# As the engines compute without being asked for less.
torch.backends.cudnn.allow_tf32 = False


class Session:
    """A model, whose weights are on the GPU."""

    def __init__(self, model):
        graph = onnx.load_from_string(model).graph
        arrays = {of.name: numpy_helper.to_array(of) for of in graph.initializer}
        self.weights = {name: torch.from_numpy(array.copy()).cuda() for name, array in arrays.items()}
        self.outputs = [of.name for of in graph.output]
        self.nodes = []
        for node in graph.node:
            of = {each.name: helper.get_attribute_value(each) for each in node.attribute}
            lists = LISTS.get(node.op_type, [])
            inputs = [arrays[name].tolist() if at in lists else name for at, name in enumerate(node.input)]
            self.nodes.append((FUNCTIONS[node.op_type], of, inputs, node.output[0]))

    def run(self, _, feeds):
        outputs = self.compute({name: torch.from_numpy(array).cuda() for name, array in feeds.items()})
        return [of.cpu().numpy() for of in outputs]

    @torch.no_grad()
    def compute(self, feeds):
        """The outputs on the GPU, for inputs that are there."""
        values = {**self.weights, **feeds}
        for function, of, inputs, output in self.nodes:
            operands = [values.get(name) if isinstance(name, str) else name for name in inputs]
            values[output] = function(of, *operands)
        return [values[name] for name in self.outputs]


class Bound:
    """A session whose inputs and outputs stay on the GPU."""

    def __init__(self, session, feeds):
        self.session = session
        self.feeds = {name: torch.from_numpy(array).cuda() for name, array in feeds.items()}
        self.outputs = []

    def run(self, *_):
        self.outputs = self.session.compute(self.feeds)
        torch.cuda.synchronize()

    def results(self):
        return [of.cpu().numpy() for of in self.outputs]


class Captured(Bound):
    """A session captured as a CUDA graph. Each run copies inputs to the GPU and outputs back, unless they are bound there."""

    def __init__(self, session, feeds):
        super().__init__(session, feeds)
        # Libraries choose and allocate before the capture, on a stream of their own.
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                session.compute(self.feeds)
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = session.compute(self.feeds)

    def run(self, _=None, feeds=None):
        for name, array in (feeds or {}).items():
            self.feeds[name].copy_(torch.from_numpy(array))
        self.graph.replay()
        if feeds:
            return self.results()
        torch.cuda.synchronize()
        return None
