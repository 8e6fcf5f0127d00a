"""Pooling by `hipdnn.torch`: results, indices of maxima and gradients match PyTorch."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

WINDOWS = list(itertools.product((2, 3), (1, 2, 3), (0, 1), (False, True)))
LAYOUTS = [torch.contiguous_format, torch.channels_last]


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()


def both(call, *inputs):
    """The results of PyTorch and hipDNN, with the gradients of the first result; returns the functions computed here."""
    results = []
    for routed in (False, True):
        given = [x.detach().requires_grad_() for x in inputs]
        switch = hipdnn.torch.enable(timed=False) if routed else None
        y = call(*given)
        first, *others = y if isinstance(y, tuple) else (y,)
        first.backward(torch.arange(float(first.numel())).view(first.shape).to(first.dtype))
        if switch:
            hipdnn.torch.disable()
        results.append([first.detach(), *others, *(x.grad for x in given)])
    for wanted, got in zip(*results):
        assert (got.dtype, got.stride()) == (wanted.dtype, wanted.stride())
        torch.testing.assert_close(got, wanted, equal_nan=True, rtol=1e-5, atol=1e-5)
    return {row.function for row in hipdnn.torch.report() if row.routed}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("window, stride, padding, ceil", WINDOWS)
def test_maxima_and_their_places(window, stride, padding, ceil, layout):
    x = torch.randn(2, 5, 11, 8).to(memory_format=layout)
    call = lambda x: F.max_pool2d(x, window, stride, padding, 1, ceil, return_indices=True)
    assert "max_pool2d_with_indices" in both(call, x)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_first_of_equal_maxima_and_nan(layout):
    x = torch.randint(0, 3, (2, 4, 12, 12)).float()
    # Among equal maxima in a window, PyTorch returns the last, hipDNN the first.
    x[0, 0, 2, 3] = float("nan")
    x[0, 1] = float("-inf")
    x[1, 2, 7] = float("inf")
    call = lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert "max_pool2d_with_indices" in both(call, x.to(memory_format=layout))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("window, stride, padding, ceil", WINDOWS)
@pytest.mark.parametrize("include", [False, True])
def test_averages(window, stride, padding, ceil, include, layout):
    x = torch.randn(2, 5, 11, 8).to(memory_format=layout)
    routed = both(lambda x: F.avg_pool2d(x, window, stride, padding, ceil, include), x)
    assert routed == {"avg_pool2d", "avg_pool2d_backward"} or ceil and include


def test_what_stays_pytorchs():
    x = torch.randn(2, 4, 9, 9)
    assert not both(lambda x: F.max_pool2d(x, 2, dilation=2), x)
    assert not both(lambda x: F.max_pool2d(x, 2), x[0])
    assert not both(lambda x: F.avg_pool2d(x, 2, divisor_override=3), x)
    assert not both(lambda x: F.max_pool2d(x, 2), x[..., ::2])
    for wrong in (
        lambda: F.max_pool2d(x, 20),
        lambda: F.avg_pool2d(x, 2, 0),
        lambda: F.max_pool2d(x, 2, padding=3),
        lambda: F.avg_pool2d(x > 0, 2),
    ):
        with pytest.raises(RuntimeError) as wanted:
            wrong()
        with hipdnn.torch.enable(timed=False), pytest.raises(RuntimeError) as got:
            wrong()
        assert type(got.value) is type(wanted.value)
        assert str(wanted.value).split("\n")[0] in str(got.value)


def test_whole_numbers_stay_pytorchs():
    x = torch.randint(0, 9, (1, 2, 6, 6), dtype=torch.int32)
    with hipdnn.torch.enable(timed=False):
        got = F.max_pool2d(x, 2)
    assert torch.equal(got, F.max_pool2d(x, 2)) and not any(row.routed for row in hipdnn.torch.report())
