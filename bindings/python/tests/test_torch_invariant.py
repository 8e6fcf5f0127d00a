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
    scale, bias = torch.randn(2, 14)

    def run(x):
        y = F.conv2d(x, weights, padding=1)
        return torch.softmax(y.mean((2, 3)), 1), F.layer_norm(y, (14,), scale, bias), torch.softmax(y[..., :5], -1)

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


def linear():
    weight = torch.randn(77, 200) / 14
    return torch.randn(32, 200), lambda x: F.linear(x, weight)


def linear_of_sequences():
    weight = torch.randn(96, 64) / 8
    return torch.randn(32, 9, 64), lambda x: F.gelu(F.linear(x, weight))


def linear_in_bfloat16():
    weight = (torch.randn(64, 192) / 14).bfloat16()
    return torch.randn(32, 192).bfloat16(), lambda x: F.linear(x, weight)


def attention(queries, **options):
    packed = torch.randn(32, 3, 4, 70, 16)

    def run(x):
        q, k, v = (x[:, at].contiguous() for at in range(3))
        return F.scaled_dot_product_attention(q[:, :, -queries:].contiguous(), k, v, **options)

    return packed, run


def convolution(channels, side, size, **options):
    weight = torch.randn(24, channels // options.get("groups", 1), size, size) / channels**0.5
    return torch.randn(32, channels, side, side), lambda x: F.conv2d(x, weight, padding=size // 2, **options)


def batch_norm():
    mean, scale, bias = torch.randn(3, 12)
    variance = torch.rand(12) + 0.5
    return torch.randn(32, 12, 7, 7), lambda x: F.batch_norm(x, mean, variance, scale, bias)


def layer_norm(size):
    scale, bias = torch.randn(2, size)
    return torch.randn(32, size) * 3, lambda x: F.layer_norm(x, (size,), scale, bias)


# Functions that hipDNN takes on CPUs.
CASES = {
    "linear": (linear, "mm"),
    "linear of sequences": (linear_of_sequences, "mm"),
    "linear in bfloat16": (linear_in_bfloat16, "mm"),
    "attention": (lambda: attention(70), "scaled_dot_product"),
    "causal attention": (lambda: attention(70, is_causal=True), "scaled_dot_product"),
    "attention of a token": (lambda: attention(1), "scaled_dot_product"),
    "convolution of 3 x 3": (lambda: convolution(96, 7, 3), "convolution"),
    "convolution of 1 x 1": (lambda: convolution(40, 6, 1), "convolution"),
    "depthwise convolution": (lambda: convolution(24, 9, 3, groups=24), "convolution"),
    "batch norm": (batch_norm, "batch_norm"),
    "layer norm": (lambda: layer_norm(31), "layer_norm"),
    "long layer norm": (lambda: layer_norm(3000), "layer_norm"),
    "softmax": (lambda: (torch.randn(32, 31), lambda x: torch.softmax(x, -1)), "softmax"),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_have_the_same_bits_in_batches_of_any_size(name):
    make, routed = CASES[name]
    x, run = make()
    with hipdnn.torch.enable(batch_invariant=True):
        alone = torch.cat([run(x[at : at + 1]) for at in range(len(x))])
        for size in (3, 8, 32):
            for first in range(0, len(x) - size + 1, size):
                together = run(x[first : first + size])
                assert torch.equal(together, alone[first : first + size]), f"{size} from {first}"
    rows = hipdnn.torch.report()
    assert any(row.routed and routed in row.function for row in rows), rows


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
