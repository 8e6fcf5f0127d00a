"""The package's own types, and its devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hipdnn.device import device_name, to_device


def test_annotations_are_right():
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    pytest.importorskip("torch", reason="PyTorch, whose types are used, is not installed: pip install torch")
    root = Path(__file__).parent.parent
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental"], cwd=root, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "given, wanted",
    [("cpu", (1, 0)), ("cuda", (2, 0)), ("cuda:1", (2, 1)), ("rocm:2", (10, 2)), ((13, 3), (2, 3)), ((3, 1), (1, 0)), ((11, 0), (1, 0))],
)  # fmt: skip
def test_devices_are_named(given, wanted):
    assert to_device(given) == wanted
    if isinstance(given, str):
        assert to_device(device_name(wanted)) == wanted


@pytest.mark.parametrize("wrong", ["gpu", "cuda:x", "cuda:-1", None, 5])
def test_unknown_devices_are_named(wrong):
    with pytest.raises(ValueError, match="is not a device, expected cpu"):
        to_device(wrong)
