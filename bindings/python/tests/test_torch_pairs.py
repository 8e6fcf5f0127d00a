"""What one engine saves for the gradient, the other one can read: forward and backward passes by every pair of hipDNN and PyTorch.

``python tests/test_torch_pairs.py [SEEDS] [NAME...]`` takes all of PyTorch's samples, as they are and with other strides, and prints
how many pairs it compared in which hipDNN computed something; the tests take some.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
database = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="a PyTorch without its tests"
)

import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from hipdnn import _native  # noqa: E402
from test_torch_samples import NAMES  # noqa: E402

#: Functions that PyTorch makes of the routed ones.
MADE_OF_THEM = """cdist corrcoef cov matrix_exp _softmax_backward_data nn.functional.softmin nn.functional.cross_entropy
nn.functional.linear_cross_entropy nn.functional.local_response_norm max_pool2d_with_indices_backward
nn.functional.multi_head_attention_forward linalg.matrix_power linalg.multi_dot masked.softmax masked.log_softmax
masked.softmin native_group_norm""".split()
SAMPLES = {f"{op.name}{op.variant_test_name}": op for op in database.op_db if op.name in {*NAMES, *MADE_OF_THEM}}
#: Tolerances, relative and to the largest number of the result.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 6e-3, torch.bfloat16: 5e-2}
#: Whether hipDNN computes the forward pass, and the gradient.
PAIRS = [(True, False), (False, True), (True, True)]
#: Samples of a function in the tests: of each type some others.
FEW = 6


@pytest.fixture(autouse=True)
def as_before():
    hipdnn.torch.reset()
    yield
    _native.torch_leave([])


def copied(x):
    return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x


def run(function, inputs, options, forward=None, backward=None):
    """Results and gradients; without hipDNN, or by hipDNN in these passes."""
    if forward is None:
        return _run(function, inputs, options, lambda is_ours: None, None, None)
    everything = _native.torch_operations(False)
    with hipdnn.torch.enable(timed=False):
        return _run(
            function,
            inputs,
            options,
            lambda is_ours: _native.torch_leave([] if is_ours else everything),
            forward,
            backward,
        )


def _run(function, inputs, options, choose, forward, backward):
    inputs, options = [copied(x) for x in inputs], {key: copied(value) for key, value in options.items()}
    torch.manual_seed(0)
    choose(forward)
    results = function(*inputs, **options)
    results = [x for x in (results if isinstance(results, (tuple, list)) else [results]) if isinstance(x, torch.Tensor)]
    wanted = [x for x in (*inputs, *options.values()) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not wanted or not results or not results[0].requires_grad:
        return results
    torch.manual_seed(0)
    slope = torch.randn(results[0].shape).to(results[0].dtype)
    choose(backward)
    return [*results, *torch.autograd.grad(results[0], wanted, slope, allow_unused=True)]


def largest(x):
    finite = x.detach().double()[x.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


def differs(got, wanted, scale, may_be_finite):
    """Where two results differ; None if they do not. What cancels to 0 is as exact as results of this scale allow.

    ``may_be_finite``: hipDNN leaves out a key whose score is -∞, and takes the limit of GELU; PyTorch multiplies what may be infinite
    by its weight of 0.
    """
    if got is None or wanted is None:
        return None if got is wanted else "one of them is missing"
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if not wanted.is_floating_point():
        return None if torch.equal(got, wanted) else "other numbers"
    g, w = got.detach().double(), wanted.detach().double()
    if may_be_finite:
        g, w = g[~w.isnan()], w[~w.isnan()]
    special = ~w.isfinite()
    if not torch.equal(special, ~g.isfinite()) or not torch.equal(
        g[special].nan_to_num(7.0), w[special].nan_to_num(7.0)
    ):
        return (
            f"other infinities or NaN: {g[special != ~g.isfinite()][:4]} instead of {w[special != ~g.isfinite()][:4]}"
        )
    if special.all() or not w.numel():
        return None
    tolerance = TOLERANCES.get(wanted.dtype, 0.0)
    allowed = tolerance * w.abs() + tolerance * max(largest(w), scale / 100) + torch.finfo(wanted.dtype).tiny
    off = ((g - w).abs() > allowed) & ~special
    return f"{g[off][:4]} instead of {w[off][:4]}" if off.any() else None


def computed():
    """How many calls hipDNN has computed."""
    return sum(row[2] for row in _native.torch_report())


def compare(function, inputs, options=None, may_be_finite=False):
    """The pairs whose results differ from PyTorch's, and in how many hipDNN computed something."""
    options = options or {}
    wanted = run(function, inputs, options)
    found, count = [], 0
    scale = max((largest(x) for x in wanted if x is not None and x.is_floating_point()), default=0.0)
    for forward, backward in PAIRS:
        before = computed()
        got = run(function, inputs, options, forward, backward)
        count += computed() > before
        for at, (g, w) in enumerate(zip(got, wanted)):
            if (how := differs(g, w, scale, may_be_finite)) is not None:
                found.append(
                    (
                        f"forward by {'hipDNN' if forward else 'PyTorch'}, backward by {'hipDNN' if backward else 'PyTorch'}",
                        at,
                        how,
                    )
                )
    return found, count


def samples(name, dtype, seed):
    op = SAMPLES[name]
    if dtype not in op.dtypes:
        return []
    torch.manual_seed(seed)
    return list(op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype in op.backward_dtypes))


def of_samples(name, dtype, most=None, seed=0, other_strides=False):
    found, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_samples = samples(name, dtype, seed)
        step = 1 if most is None else max(1, math.ceil(len(all_samples) / most)) | 1
        for at, sample in list(enumerate(all_samples))[list(TOLERANCES).index(dtype) % step :: step]:
            # PyTorch's own dropout is random.
            if sample.kwargs.get("dropout_p"):
                continue
            sample = sample.noncontiguous() if other_strides else sample
            differing, compared = compare(SAMPLES[name].op, [sample.input, *sample.args], dict(sample.kwargs))
            found += [(name, dtype, at, *of) for of in differing]
            count += compared
    return found, count


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name, dtype):
    found, _ = of_samples(name, dtype, FEW)
    assert not found, found[:3]


def rows(kind, shape, dtype, seed=3):
    """A tensor with rows of this kind."""
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=torch.float64).to(dtype)
    large = torch.finfo(dtype).max
    if kind == "constant":
        x[:] = x.flatten()[0]
    elif kind == "zero":
        x.zero_()
    elif kind == "large":
        x[..., ::2] *= large**0.25 if dtype != torch.float16 else 30
    elif kind == "tiny":
        x *= torch.finfo(dtype).tiny
    elif kind == "one large":
        x[..., 0] = large**0.45
    elif kind == "one infinite":
        x.view(-1, shape[-1])[0, 0] = -math.inf
    elif kind == "all infinite":
        x.view(-1, shape[-1])[0] = -math.inf
    elif kind == "empty":
        return x[:0]
    return x.requires_grad_()


KINDS = ["constant", "zero", "large", "tiny", "one large", "one infinite", "all infinite", "empty"]


def masked(kind, is_float):
    def attention(q, k, v):
        length = q.shape[-2]
        mask = torch.ones(length, length, dtype=torch.bool)
        if kind == "padded":
            mask[length // 2 :] = False
            mask[:, length // 2 :] = False
        elif kind == "one key":
            mask = torch.eye(length, dtype=torch.bool)
        elif kind == "nothing":
            mask[:] = False
        if kind == "least":
            mask = torch.zeros(length, length, dtype=q.dtype)
            mask[1:3] = torch.finfo(q.dtype).min
        elif is_float:
            mask = torch.zeros(length, length, dtype=q.dtype).masked_fill(~mask, -math.inf)
        return F.scaled_dot_product_attention(q, k, v, mask)

    return attention


FUNCTIONS = {
    "softmax": (lambda x: F.softmax(x, -1), (3, 5, 40)),
    "softmax of columns": (lambda x: F.softmax(x, 1), (3, 5, 8)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (3, 5, 40)),
    "layer_norm": (lambda x: F.layer_norm(x, (40,), torch.full((40,), 2.0, dtype=x.dtype), torch.ones(40, dtype=x.dtype)), (3, 5, 40)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, torch.full((5,), 2.0, dtype=x.dtype), torch.ones(5, dtype=x.dtype), True), (3, 5, 4, 4)),
    "group_norm": (lambda x: F.group_norm(x, 2, torch.full((6,), 2.0, dtype=x.dtype), torch.ones(6, dtype=x.dtype)), (3, 6, 4, 4)),
    "gelu": (F.gelu, (3, 40)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (3, 40)),
    "silu": (F.silu, (3, 40)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (2, 3, 6, 6)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 6, 6)),
    "convolution": (lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3, dtype=x.dtype, requires_grad=True)), (2, 3, 6, 6)),
    "product": (lambda x: x @ torch.ones(40, 8, dtype=x.dtype, requires_grad=True), (6, 40)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 2, 8, 16)),
    "causal attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 2, 8, 16)),
}  # fmt: skip


def of_rows(name, kind, dtype, seed=3):
    function, shape = FUNCTIONS[name]
    if "attention" in name and kind == "large":
        # Scores beyond what the type resolves: their exponentials are noise, other in each order of summation.
        function = lambda x, of=function: of(x / x.detach().abs().max() * 8)  # noqa: E731
    if name == "convolution" and dtype == torch.bfloat16 and "infinite" in kind:
        pytest.skip("PyTorch's convolution in bfloat16 makes NaN of infinities")
    return compare(function, [rows(kind, shape, dtype, seed)], may_be_finite="attention" in name or "gelu" in name)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows(name, kind, dtype):
    assert not of_rows(name, kind, dtype)[0]


MASKS = ["padded", "one key", "nothing", "least"]
SHAPES = [(1, 1, 8, 8), (4, 4, 32, 16), (2, 3, 70, 24)]


def of_masked_rows(shape, kind, is_float, dtype, seed=0):
    torch.manual_seed(seed)
    inputs = [torch.rand(shape).to(dtype).requires_grad_() for _ in range(3)]
    return compare(masked(kind, is_float), inputs)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masked_rows(shape, kind, is_float, dtype):
    assert not of_masked_rows(shape, kind, is_float, dtype)[0]


def all_rows(dtype, seed):
    """What every kind of row finds."""
    for name, kind in itertools.product(FUNCTIONS, KINDS):
        try:
            yield f"{name}, {kind}", of_rows(name, kind, dtype, seed)
        except pytest.skip.Exception:
            continue
    for shape, kind, is_float in itertools.product(SHAPES, MASKS, [False, True]):
        yield f"{kind} rows of {shape}", of_masked_rows(shape, kind, is_float, dtype, seed)


def main():
    """All samples and rows."""
    seeds = int(sys.argv[1]) if sys.argv[1:] else 1
    total, wrong = 0, []

    def add(what, found, count):
        nonlocal total
        total += count
        wrong.extend(found)
        print(f"{what}: {count} pairs, {len(found)} differ", *found[:2], sep="\n  ", flush=True)
        hipdnn.torch.reset()

    for name in [name for name in SAMPLES if not sys.argv[2:] or name in sys.argv[2:]]:
        for dtype, seed, other_strides in itertools.product(TOLERANCES, range(seeds), [False, True]):
            words = f"{name} {dtype}, seed {seed}{', other strides' * other_strides}"
            add(words, *of_samples(name, dtype, None, seed, other_strides))
    for dtype, seed in itertools.product([] if sys.argv[2:] else TOLERANCES, range(seeds)):
        for words, (found, count) in all_rows(dtype, seed):
            add(f"{words} {dtype}, seed {seed}", found, count)
    print(f"{total} pairs of engines, {len(wrong)} results differ from PyTorch's")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
