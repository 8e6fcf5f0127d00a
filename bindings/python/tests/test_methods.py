"""Every operation of a graph in each of its types, against PyTorch in double precision."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import methods  # noqa: E402


@pytest.mark.smoke
def test_every_operation_has_a_row():
    assert methods.operations() == set(methods.ROWS)


@pytest.mark.parametrize("dtype", methods.TYPES, ids=str)
@pytest.mark.parametrize("name", methods.ROWS)
def test_results(name, dtype):
    torch.manual_seed(7)
    _, got, wanted = methods.compute(name, dtype)
    methods.check(name, dtype, got, wanted)


def test_a_wrong_result_is_seen():
    torch.manual_seed(7)
    for name in ("conv_fprop", "sdpa", "batchnorm"):
        _, got, wanted = methods.compute(name, torch.bfloat16)
        with pytest.raises(AssertionError):
            methods.check(name, torch.bfloat16, [got[0] * 1.2, *got[1:]], wanted)
