"""`enable(batch_invariant=True)`: bits of an image or a row do not depend on what else is in its batch."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(7)
    hipdnn.torch.reset()


def network(channels=32):
    weights = torch.randn(channels, channels, 3, 3) / 16

    def run(x):
        y = F.conv2d(x, weights, padding=1)
        return torch.softmax(y.mean((2, 3)), 1), F.layer_norm(y, y.shape[1:]), torch.softmax(y[..., :5], -1)

    return run


def are_alike(run, x):
    """Whether each item alone has the bits that it has in the batch."""
    together = run(x)
    alone = [run(x[at : at + 1]) for at in range(len(x))]
    return all(torch.equal(of, torch.cat([one[i] for one in alone])) for i, of in enumerate(together))


def test_items_do_not_depend_on_their_batch():
    run, x = network(), torch.randn(7, 32, 14, 14)
    with hipdnn.torch.enable(batch_invariant=True):
        assert are_alike(run, x)
    routed = {row.function for row in hipdnn.torch.report() if row.routed}
    assert {"convolution", "_softmax", "native_layer_norm"} <= routed, hipdnn.torch.report()


def test_another_threads_switch_does_not_end_it():
    run, x = network(), torch.randn(5, 32, 14, 14)

    def other():
        with hipdnn.torch.enable():
            run(x)

    with hipdnn.torch.enable(batch_invariant=True) as switch:
        assert not switch.timed
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert are_alike(run, x)


def test_plans_from_before_are_not_used():
    run, x = network(), torch.randn(7, 32, 14, 14)
    with hipdnn.torch.enable(timed=False):
        run(x), run(x[:1])
    with hipdnn.torch.enable(batch_invariant=True):
        assert are_alike(run, x)
