"""What the report says of each call: how often, by which engine, where, by which algorithm, and why not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import torch.nn.functional as F  # noqa: E402

import hipdnn.torch  # noqa: E402


pytestmark = pytest.mark.smoke


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    hipdnn.torch.reset()


def named(row):
    """What ran, which is CPU_ENGINE by something that it tells."""
    (ran,) = row.ran
    assert (ran.engine, ran.device) == ("CPU_ENGINE", "cpu") and ran.algorithms
    return ran


@pytest.mark.parametrize("times", [1, 3], ids=["searched", "by signature"])
def test_what_ran_and_why_not(times):
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    with hipdnn.torch.enable():
        for _ in range(times):
            F.relu(F.conv2d(x, w), inplace=True)
    rows = {row.function: row for row in hipdnn.torch.report()}
    assert "gemm" in named(rows["conv2d"]).algorithms[0] and rows["conv2d"].routed == times
    assert rows["relu"].ran == () and rows["relu"].reasons == ("in place",) and rows["relu"].passed_on == times


def test_another_place_with_a_known_signature_says_the_same():
    x = torch.randn(5, 7)
    with hipdnn.torch.enable():
        for _ in range(2):
            F.gelu(x)
        hipdnn.torch.reset()
        for _ in range(2):
            F.gelu(x)
    (row,) = hipdnn.torch.report()
    assert row.routed == 2 and named(row)


def test_several_signatures_of_one_place():
    with hipdnn.torch.enable():
        for size in (1, 33):
            for _ in range(2):
                F.linear(torch.ones(size, 33), torch.ones(40, 33))
    (row,) = hipdnn.torch.report()
    assert row.routed == 4 and {ran.engine for ran in row.ran} == {"CPU_ENGINE"}
    # One algorithm may serve both; what ran twice is said once.
    assert len(set(row.ran)) == len(row.ran)


def test_chains_of_a_compiled_model():
    compiled = torch.compile(lambda x, w: F.relu(F.linear(x, w)), backend=hipdnn.torch.backend)
    for _ in range(2):
        compiled(torch.ones(3, 4), torch.ones(5, 4))
        (row,) = hipdnn.torch.report()
        assert row.function == "linear+relu" and named(row)
        # Anew, also what was compiled before.
        hipdnn.torch.reset()


def test_the_report_is_a_table():
    with hipdnn.torch.enable():
        F.softmax(torch.ones(2, 3), 1)
        F.relu(torch.ones(2), inplace=True)
    report = hipdnn.torch.report()
    head, *lines = str(report).splitlines()
    assert head.split()[:2] == ["function", "place"] and len(lines) == 2
    assert "CPU_ENGINE on cpu" in lines[0] and "PyTorch: in place" in lines[1]
    assert report._repr_html_().count("<tr>") == 3 and "softmax" in report._repr_html_()
