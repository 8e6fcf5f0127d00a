"""The routed functions on PyTorch's own sample inputs: always PyTorch's result."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
database = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="a PyTorch without its tests"
)

import hipdnn.torch  # noqa: E402

NAMES = """nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.linear matmul bmm mm __rmatmul__
nn.functional.batch_norm nn.functional.layer_norm nn.functional.group_norm nn.functional.rms_norm
nn.functional.scaled_dot_product_attention softmax log_softmax native_layer_norm native_batch_norm
nn.functional.bilinear addmm baddbmm addbmm mv einsum nn.functional.hardswish nn.functional.mish nn.functional.gelu nn.functional.silu nn.functional.relu
nn.functional.leaky_relu nn.functional.elu nn.functional.relu6 sigmoid tanh nn.functional.instance_norm
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.avg_pool1d nn.functional.avg_pool2d
nn.functional.avg_pool3d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d""".split()
#: The samples that suffice where all would take too long.
FEW = {
    "nn.functional.conv2d",
    "nn.functional.linear",
    "nn.functional.layer_norm",
    "nn.functional.avg_pool1d",
    "softmax",
}
SAMPLES = {f"{op.name}{op.variant_test_name}": op for op in database.op_db if op.name in NAMES}
#: The most samples per function: pooling has a thousand.
MOST = 24


def run(op, sample):
    """The result of a sample and the gradients of its inputs, from copies."""
    copy = lambda x: x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
    first, *args = (copy(x) for x in (sample.input, *sample.args))
    kwargs = {key: copy(value) for key, value in sample.kwargs.items()}
    torch.manual_seed(0)
    result, *others = results if isinstance(results := op(first, *args, **kwargs), tuple) else [results]
    inputs = [x for x in (first, *args, *kwargs.values()) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not inputs or not result.requires_grad:
        return [result, *others]
    torch.manual_seed(0)
    return [result, *others, *torch.autograd.grad(result, inputs, torch.randn_like(result), allow_unused=True)]


@pytest.mark.parametrize("name", [pytest.param(of, marks=pytest.mark.smoke) if of in FEW else of for of in SAMPLES])
def test_samples(name):
    op, routed, passed_on, reasons = SAMPLES[name], 0, 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))
        if "pool" in name:
            # Neighbours differ in one setting, so an odd step still visits all settings.
            step = -(-len(samples) // MOST)
            samples = samples[:: step | 1]
        for sample in samples:
            wanted = run(op.op, sample)
            hipdnn.torch.reset()
            with hipdnn.torch.enable(timed=False):
                got = run(op.op, sample)
            for row in hipdnn.torch.report():
                routed += row.routed
                passed_on += row.passed_on
                for reason in row.reasons:
                    reasons[reason[:200]] = reasons.get(reason[:200], 0) + 1
            if sample.kwargs.get("dropout_p"):
                continue
            assert len(got) == len(wanted)
            for g, w in zip(got, wanted):
                torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-3, equal_nan=True)
    print(f"{name}: {routed} of {routed + passed_on} routed; {reasons}")
