"""A row for every operation of a graph: inputs, how it is built, and the same in PyTorch with double precision."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, NamedTuple

import hipdnn
import numpy as np
import torch.nn.functional as F
from elements import BACKWARD, BINARY, POSITIVE, UNARY
from hipdnn import norm_forward_phase, padding_mode, reduction_mode, resample_mode

import torch

#: What rounding to a type may make of a result, relative and absolute; sums are of single precision.
TYPES = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}

#: Public names of a graph that compute nothing themselves, the steps from a graph to its plan, and what is tested in `test_cudnn.py`.
NOT_OPERATIONS = (
    frozenset(
        "autotune build compile engine engines execute explain get_workspace_size knobs numerics plan save tensor tensor_like to_json validate".split()
    )
    .union(
        name
        for of in (
            "phases.Phases",
            "restored.Restored",
            "operands.Operands",
            "views.Views",
            "compositions.Compositions",
            "attention_fp8.Fp8Attention",
        )
        for name in vars(operator.attrgetter(of)(hipdnn))
        if not name.startswith("_")
    )
    .union("key query_tensor_attributes_of_uid serialize tensor_scalar".split())
)


class Row(NamedTuple):
    """An operation as it is tested."""

    inputs: list[Callable[[Any], Any]]
    build: Callable[..., Any]
    wanted: Callable[..., Any]
    #: How many roundings of the type the result may be off.
    factor: float = 1.0


def normal(*shape: int, scale: float = 1.0) -> Callable[[Any], Any]:
    """Random numbers of the type."""
    return lambda dtype: (torch.randn(shape) * scale).to(dtype)


def positive(*shape: int) -> Callable[[Any], Any]:
    return lambda dtype: (torch.rand(shape) + 0.5).to(dtype)


def factors(*shape: int) -> Callable[[Any], Any]:
    """Scales and statistics, of single precision beside any type."""
    return lambda _: torch.rand(shape) + 0.5


def truths(*shape: int) -> Callable[[Any], Any]:
    return lambda dtype: torch.randint(0, 2, shape).to(dtype)


def integers(values: Any, *shape: int) -> Callable[[Any], Any]:
    return lambda _: torch.tensor(values, dtype=torch.int32).view(shape)


def gradient(f: Callable[..., Any], at: int | list[int] = 0, first: int = 1) -> Callable[..., Any]:
    """The gradients of f at its operands behind the first `first` ones, with the first for its result."""

    def wanted(dy: Any, *operands: Any) -> Any:
        operands = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in operands[first - 1 :]]
        y = f(*operands)
        places = [at] if isinstance(at, int) else at
        found = torch.autograd.grad(y, [operands[place] for place in places], dy.view(y.shape))
        return found[0] if isinstance(at, int) else list(found)

    return wanted


X = normal(2, 8, 6, 4)
#: Where PyTorch's function of one or two operands has another name than the graph's method.
OTHER_NAMES = {
    "identity": lambda x: x, "gelu": F.gelu, "gelu_approx_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
    "elu": F.elu, "softplus": F.softplus, "swish": F.silu, "logical_not": lambda x: (x == 0).double(), "bias": torch.add,
    "scale": torch.mul, "add_square": lambda a, b: a + b * b, "max": torch.maximum, "min": torch.minimum,
    "cmp_eq": torch.eq, "cmp_neq": torch.ne, "cmp_gt": torch.gt, "cmp_ge": torch.ge, "cmp_lt": torch.lt, "cmp_le": torch.le,
}  # fmt: skip


def of_torch(name: str) -> Callable[..., Any]:
    """What PyTorch has for a method; what it lacks is NumPy's."""
    form = {**UNARY, **BINARY}[name]
    of_numpy = lambda *operands: torch.from_numpy(np.asarray(form(*(operand.numpy() for operand in operands))))
    return OTHER_NAMES.get(name) or getattr(torch, name, of_numpy)


ROWS: dict[str, Row] = {}


def method(name: str, *more: Any) -> Callable[..., Any]:
    return lambda graph, *tensors: getattr(graph, name)(*tensors, *more)


for _name in UNARY:
    _of = {"logical_not": truths(2, 8, 6, 4), "tan": normal(2, 8, 6, 4, scale=0.4)}.get(_name, X)
    ROWS[_name] = Row([positive(2, 8, 6, 4) if _name in POSITIVE else _of], method(_name), of_torch(_name))
for _name in BINARY:
    _of = truths if "cmp" in _name or "logical" in _name else positive
    _function = of_torch(_name)
    ROWS[_name] = Row([_of(2, 8, 6, 4), _of(1, 8, 1, 1)], method(_name), lambda a, b, f=_function: f(a, b).double())
for _name in BACKWARD:
    ROWS[_name] = Row([X, X], method(_name), gradient(of_torch(_name.removesuffix("_backward"))), 2)
_leaky = lambda x: F.leaky_relu(x, 0.125)
ROWS["leaky_relu"] = Row([X], method("leaky_relu", 0.125), _leaky)
ROWS["leaky_relu_backward"] = Row([X, X], method("leaky_relu_backward", 0.125), gradient(_leaky))
ROWS["gen_index"] = Row(
    [X], method("gen_index", 1), lambda x: torch.arange(8).view(1, 8, 1, 1).expand(x.shape).double()
)
ROWS["binary_select"] = Row(
    [X, X, truths(2, 8, 6, 4)], method("binary_select"), lambda a, b, m: torch.where(m != 0, a, b)
)

# Products. The numbers are as large as the results' roots make them.
_of = {"padding": [1, 1], "stride": [2, 2]}
_conv = lambda x, w: F.conv2d(x, w, padding=1, stride=2)
IMAGE, FILTER, LOSS = normal(2, 16, 9, 8), normal(8, 16, 3, 3, scale=1 / 12), normal(2, 8, 5, 4)
ROWS["conv_fprop"] = Row([IMAGE, FILTER], lambda g, x, w: g.conv_fprop(x, w, **_of), _conv)
ROWS["conv_dgrad"] = Row(
    [LOSS, FILTER], lambda g, dy, w: g.conv_dgrad(dy, w, **_of).set_dim((2, 16, 9, 8)),
    lambda dy, w: torch.nn.grad.conv2d_input((2, 16, 9, 8), w, dy, padding=1, stride=2),
)  # fmt: skip
ROWS["conv_wgrad"] = Row(
    [normal(2, 16, 9, 8, scale=0.3), LOSS], lambda g, x, dy: g.conv_wgrad(x, dy, **_of).set_dim((8, 16, 3, 3)),
    lambda x, dy: torch.nn.grad.conv2d_weight(x, (8, 16, 3, 3), dy, padding=1, stride=2), 2,
)  # fmt: skip
ROWS["matmul"] = Row([normal(3, 8, 16, scale=0.25), normal(3, 16, 24)], method("matmul"), torch.matmul)
ROWS["reduction"] = Row(
    [normal(2, 8, 6, 4)], lambda g, x: [g.reduction(x, reduction_mode.ADD, axis=(2, 3)), g.reduction(x, reduction_mode.MAX, axis=1)],
    lambda x: [x.sum((2, 3), True), x.amax(1, True)], 4,
)  # fmt: skip

# Pooling.
_window = {"window": [2, 2], "stride": [2, 2]}
_pool = {"pooling_mode": resample_mode.MAXPOOL, "padding_mode": padding_mode.NEG_INF_PAD, **_window}
_average = {"pooling_mode": resample_mode.AVGPOOL_EXCLUDE_PADDING, "padding_mode": padding_mode.ZERO_PAD, **_window}
ROWS["resample"] = Row([X], lambda g, x: g.resample(x, **_pool)[0], lambda x: F.max_pool2d(x, 2))
ROWS["resample_backward"] = Row(
    [normal(2, 8, 3, 2)], lambda g, dy: g.resample_backward(dy, **_average).set_dim((2, 8, 6, 4)),
    lambda dy: dy.repeat_interleave(2, 2).repeat_interleave(2, 3) / 4,
)  # fmt: skip

# Normalizations.
CHANNELS = (1, 8, 1, 1)
_moments = lambda x, axes: (x.mean(axes, True), (x.var(axes, unbiased=False, keepdim=True) + 1e-5).rsqrt())


def _normal(x: Any, scale: Any, bias: Any, axes: Any) -> Any:
    mean, inv = _moments(x, axes)
    return (x - mean) * inv * scale + bias


def _batchnorm(x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> list[Any]:
    m, inv = _moments(x, (0, 2, 3))
    unbiased = x.var((0, 2, 3), keepdim=True)
    return [_normal(x, scale, bias, (0, 2, 3)), m, inv, 0.75 * mean + 0.25 * m, 0.75 * var + 0.25 * unbiased]


def _with_statistics(axes: Any, centred: bool = True) -> Callable[..., Any]:
    """Gradients of a normalization whose inputs have statistics, too, which are those of other numbers: they are constants here."""

    def wanted(dy: Any, x: Any, scale: Any, *statistics: Any) -> list[Any]:
        mean, inv = statistics if centred else (0.0, *statistics)
        normal, of = (x - mean) * inv, dy * scale
        rest = (of * normal).mean(axes, True)
        dx = inv * (of - (of.mean(axes, True) if centred else 0) - normal * rest)
        others = [at for at in range(x.dim()) if scale.shape[at] == 1]
        sums = [(dy * normal).sum(others, True), dy.sum(others, True)]
        return [dx, *(sums if centred else sums[:1])]

    return wanted


ROWS["batchnorm"] = Row([X, *[factors(*CHANNELS)] * 4], lambda g, *t: g.batchnorm(*t, 1e-5, 0.25), _batchnorm, 2)
ROWS["batchnorm_inference"] = Row(
    [X, *[factors(*CHANNELS)] * 4], method("batchnorm_inference"), lambda x, m, i, s, b: (x - m) * i * s + b
)
ROWS["batchnorm_inference_variance"] = Row(
    [X, *[factors(*CHANNELS)] * 4], lambda g, *t: g.batchnorm_inference_variance(*t, epsilon=1e-5),
    lambda x, m, v, s, b: (x - m) * (v + 1e-5).rsqrt() * s + b,
)  # fmt: skip
ROWS["batchnorm_backward"] = Row(
    [X, X, *[factors(*CHANNELS)] * 3], method("batchnorm_backward"), _with_statistics((0, 2, 3)), 4
)
ROW, LAST = normal(12, 32), (1, 32)
ROWS["layernorm"] = Row(
    [ROW, factors(*LAST), factors(*LAST)], lambda g, *t: g.layernorm(norm_forward_phase.TRAINING, *t, 1e-5),
    lambda x, s, b: [_normal(x, s, b, 1), *_moments(x, 1)], 2,
)  # fmt: skip
ROWS["layernorm_backward"] = Row(
    [ROW, ROW, factors(*LAST), factors(12, 1), factors(12, 1)], method("layernorm_backward"), _with_statistics(1), 4
)
ROWS["rmsnorm"] = Row(
    [ROW, factors(*LAST)], lambda g, x, s: g.rmsnorm(norm_forward_phase.TRAINING, x, s, epsilon=1e-5),
    lambda x, s: [x * (i := (x.square().mean(1, True) + 1e-5).rsqrt()) * s, i], 2,
)  # fmt: skip
ROWS["rmsnorm_backward"] = Row(
    [ROW, ROW, factors(*LAST), factors(12, 1)], lambda g, *t: g.rmsnorm_backward(*t)[:2], _with_statistics(1, False), 4
)

# Attention.
HEADS = normal(2, 4, 16, 32)
_scale = 1 / math.sqrt(32)


def _attention(q: Any, k: Any, v: Any) -> Any:
    future = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.mT * _scale).masked_fill(future, -math.inf)
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1, True)


def _attention_gradients(q: Any, k: Any, v: Any, o: Any, do: Any, stats: Any) -> Any:
    of = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    return list(torch.autograd.grad(_attention(*of)[0], of, do))


class Attended:
    """The result and the statistics of attention for inputs that were made before."""

    def __init__(self) -> None:
        self.of: list[Any] = []

    def operand(self, dtype: Any) -> Any:
        self.of = [] if len(self.of) == 3 else self.of
        self.of.append(HEADS(dtype))
        return self.of[-1]

    def result(self, dtype: Any) -> Any:
        return _attention(*(t.double() for t in self.of))[0].to(dtype)

    def statistics(self, dtype: Any) -> Any:
        return _attention(*(t.double() for t in self.of))[1].float()


_before = Attended()
_causal = {"attn_scale": _scale, "use_causal_mask": True}
ROWS["sdpa"] = Row(
    [HEADS] * 3,
    lambda g, q, k, v: g.sdpa(q, k, v, generate_stats=True, **_causal),
    lambda q, k, v: list(_attention(q, k, v)),
    2,
)
ROWS["sdpa_backward"] = Row(
    [*[_before.operand] * 3, _before.result, HEADS, _before.statistics], lambda g, *t: g.sdpa_backward(*t, **_causal),
    _attention_gradients, 4,
)  # fmt: skip


# Block scales: what was rounded comes back within the rounding.
def _there_and_back(g: Any, x: Any) -> Any:
    y, scale = g.block_scale_quantize(x, 32, axis=2, data_type="fp8_e4m3", scale_data_type="fp8_e8m0")
    return g.block_scale_dequantize(y, scale, [1, 1, 32])


def _rounded(x: Any) -> Any:
    """Blocks of 32 over a power of two that makes the largest fit, in 8 bits."""
    blocks = x.view(*x.shape[:2], -1, 32)
    scale = torch.exp2(torch.ceil(torch.log2(blocks.abs().amax(-1, True) / 448)))
    return ((blocks / scale).float().to(torch.float8_e4m3fn).double() * scale).view(x.shape)


ROWS["block_scale_quantize"] = Row([normal(1, 4, 64)], _there_and_back, _rounded)
ROWS["block_scale_dequantize"] = Row(
    [lambda _: torch.randn(1, 4, 64).to(torch.float8_e4m3fn), lambda _: torch.exp2(torch.randint(-2, 3, (1, 4, 2)).float()).to(torch.float8_e8m0fnu)],
    lambda g, x, s: g.block_scale_dequantize(x, s, [1, 1, 32]), lambda x, s: x * s.repeat_interleave(32, -1),
)  # fmt: skip

# Experts.
TOKENS, EXPERTS, FIRST = normal(1, 12, 16, scale=0.25), normal(3, 16, 24), integers([0, 5, 8], 3, 1, 1)
_groups = [slice(0, 5), slice(5, 8), slice(8, 12)]
ROWS["moe_grouped_matmul"] = Row(
    [TOKENS, EXPERTS, FIRST], method("moe_grouped_matmul"),
    lambda t, w, _: torch.cat([t[:, rows] @ w[e] for e, rows in enumerate(_groups)], 1),
)  # fmt: skip
ROWS["moe_grouped_matmul_bwd"] = Row(
    [normal(1, 12, 24), TOKENS, FIRST], method("moe_grouped_matmul_bwd"),
    lambda dy, t, _: torch.cat([t[:, rows].mT @ dy[:, rows] for rows in _groups]),
)  # fmt: skip


def operations() -> set[str]:
    """The public methods of a graph that are operations."""
    return {name for name in dir(hipdnn.Graph) if not name.startswith("_")} - NOT_OPERATIONS


def compute(name: str, dtype: Any, device: str = "cpu", layout: Any = None) -> tuple[Any, list[Any], list[Any]]:
    """The graph of a row, what it makes on a device, and what was wanted, in double precision."""
    row = ROWS[name]
    inputs = [make(dtype) for make in row.inputs]
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    wanted = row.wanted(*wide)
    wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    if layout is not None:
        inputs = [t.to(memory_format=layout) if t.dim() == 4 else t for t in inputs]
    inputs = [t.to(device) for t in inputs]
    graph = hipdnn.Graph(name, io_data_type=dtype)
    results = row.build(graph, *(graph.tensor_like(t) for t in inputs))
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    for result in results:
        result.set_output(True)
    got = graph(*inputs)
    return graph, list(got) if isinstance(got, tuple) else [got], wanted


def check(name: str, dtype: Any, got: list[Any], wanted: list[Any]) -> float:
    """Raises AssertionError unless the results are those that were wanted; answers the largest difference."""
    assert len(got) == len(wanted)
    tolerance, worst = TYPES[dtype] * ROWS[name].factor, 0.0
    for result, want in zip(got, wanted):
        result = result.detach().cpu().double()
        torch.testing.assert_close(result, want, rtol=tolerance, atol=tolerance)
        worst = max(worst, (result - want).abs().max().item())
    return worst
