"""`torch.utils.checkpoint`: recomputation uses hipDNN, like the first computation."""

from __future__ import annotations

import collections
import contextlib

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402

from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    hipdnn.torch.reset()


class Attention(nn.Module):
    """Attention with dropout, which must be the same when recomputed."""

    def forward(self, x):
        q = x.flatten(2).unflatten(1, (2, -1)).transpose(2, 3)
        return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).transpose(2, 3).reshape(x.shape)


def model():
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 4, 1), nn.GroupNorm(2, 4), Attention(),
        nn.Flatten(), nn.Linear(100, 6), nn.LayerNorm(6), nn.SiLU(),
    )  # fmt: skip


def gradients(how, routed=True, backward_inside=True):
    """The result, gradients and buffers of a model computed in a given way."""
    made, x = model(), torch.randn(2, 4, 5, 5, generator=torch.manual_seed(1)).requires_grad_()
    torch.manual_seed(5)
    with contextlib.ExitStack() as stack:
        if routed:
            stack.enter_context(hipdnn.torch.enable(timed=False))
        y = how(made, x)
        if not backward_inside:
            stack.close()
        y.square().sum().backward()
    return [y, x.grad, *(p.grad for p in made.parameters()), *(b for b in made.buffers() if b.is_floating_point())]


def routed():
    """How often each function was computed here, wherever its tensors were."""
    counts = collections.Counter()
    for row in hipdnn.torch.report():
        counts[row.function] += row.routed
    return counts


def whole(model, x):
    return model(x)


def close(got, wanted):
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backward_inside", [True, False])
@pytest.mark.parametrize("early_stop", [True, False])
def test_what_is_computed_again_is_routed(early_stop, backward_inside):
    with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
        wanted = gradients(whole, backward_inside=backward_inside)
        once = routed()
        hipdnn.torch.reset()
        got = gradients(lambda m, x: checkpoint(m, x, use_reentrant=False), backward_inside=backward_inside)
    # Batch statistics are updated twice, as by PyTorch.
    close(got[:-2], wanted[:-2])
    twice = routed()
    # If gradients are computed outside, so is the recomputation.
    assert once["convolution"] == 2 and twice["convolution"] == (4 if backward_inside else 2)
    assert twice["convolution_backward"] == (2 if backward_inside else 0)


def test_the_other_way_to_compute_again():
    wanted = gradients(whole)
    hipdnn.torch.reset()
    got = gradients(lambda m, x: checkpoint(m, x, use_reentrant=True))
    close(got[:-2], wanted[:-2])
    assert routed()["convolution"] == 4


def test_parts_of_a_sequence_and_nested_ones():
    wanted = gradients(whole)
    close(gradients(lambda m, x: checkpoint_sequential(m, 3, x, use_reentrant=False))[:-2], wanted[:-2])

    def nested(model, x):
        inner = lambda x: checkpoint(model[2:], x, use_reentrant=False)
        return checkpoint(lambda x: inner(model[:2](x)), x, use_reentrant=False)

    close(gradients(nested)[:-2], wanted[:-2])


def test_second_derivatives_of_what_is_computed_again():
    def penalty(how):
        layer = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
        torch.nn.init.constant_(layer[0].weight, 0.3)
        torch.nn.init.constant_(layer[2].weight, 0.7)
        torch.nn.init.zeros_(layer[0].bias)
        x = torch.arange(6, dtype=torch.float64).view(2, 3).requires_grad_()
        with hipdnn.torch.enable(timed=False):
            (slope,) = torch.autograd.grad(how(layer, x).sum(), x, create_graph=True)
            return torch.autograd.grad(slope.square().sum(), [layer[0].weight, layer[2].weight])

    close(penalty(lambda m, x: checkpoint(m, x, use_reentrant=False)), penalty(whole))
