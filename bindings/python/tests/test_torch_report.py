"""The report: what computed each kind of call, or why PyTorch did."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    hipdnn.torch.reset()


def test_what_ran_and_why_not():
    with hipdnn.torch.enable(timed=False):
        for _ in range(2):
            F.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
        F.gelu(torch.ones(4, 6)[:, ::2])
        F.layer_norm(torch.ones(6, 4).t(), [6], torch.ones(6), torch.ones(6))
    conv, gelu, norm = hipdnn.torch.report()
    assert (conv.function, conv.routed, conv.passed_on, conv.reasons) == ("convolution", 2, 0, ())
    assert conv.call.startswith("float[1, 3, 8, 8], float[4, 3, 3, 3], None, [1, 1]")
    (ran,) = conv.ran
    assert (ran.engine, ran.device) == ("CPU_ENGINE", "cpu") and ran.algorithms
    assert (gelu.function, gelu.routed, gelu.passed_on, gelu.ran) == ("gelu", 0, 1, ())
    assert gelu.reasons == ("a tensor with gaps",)
    assert norm.reasons == ("rows whose elements are apart",)


def test_kinds_of_calls_are_told_apart():
    with hipdnn.torch.enable(timed=False):
        for size in (8, 9):
            for dtype in (torch.float32, torch.bfloat16):
                for _ in range(3):
                    F.silu(torch.ones(4, size, dtype=dtype))
    assert [(row.call, row.routed) for row in hipdnn.torch.report()] == [
        ("float[4, 8]", 3), ("bfloat16[4, 8]", 3), ("float[4, 9]", 3), ("bfloat16[4, 9]", 3)
    ]  # fmt: skip


def test_the_report_is_a_table():
    with hipdnn.torch.enable(timed=False):
        F.gelu(torch.ones(2, 3))
        F.silu(torch.ones(2), inplace=True)
    report = hipdnn.torch.report()
    head, *lines = str(report).splitlines()
    assert head.split()[:2] == ["function", "call"] and len(lines) == 2
    assert "CPU_ENGINE on cpu" in lines[0] and "silu_" in lines[1]
    assert report._repr_html_().count("<tr>") == 3 and "gelu" in report._repr_html_()
    hipdnn.torch.reset()
    assert not hipdnn.torch.report()
