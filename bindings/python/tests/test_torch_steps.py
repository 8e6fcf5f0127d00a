"""Whole steps decide on CPUs, and finding out who is faster costs little."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import hipdnn  # noqa: E402
import hipdnn.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from hipdnn import _native  # noqa: E402
from hipdnn.torch import stored  # noqa: E402

#: Steps of GELU in double precision, which PyTorch computes faster, and a later one that tries again.
STEPS = """
import json, torch, hipdnn.torch
torch.set_num_threads(1)
x = torch.randn(100, 100, dtype=torch.float64)
def steps(count):
    for _ in range(count):
        y = x
        for _ in range(4):
            y = torch.nn.functional.gelu(y)
with hipdnn.torch.enable():
    steps(60)
[row] = hipdnn.torch.report()
before = row.routed, row.passed_on
with hipdnn.torch.enable():
    steps(20)
[row] = hipdnn.torch.report()
print(json.dumps([before, (row.routed, row.passed_on), row.reasons]))
"""


def test_decisions_that_slow_steps_down_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setenv("HIPDNN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("HIPDNN_PLAN_CACHE_DIR", raising=False)
    path = stored.choices(stored.find(os.environ), (torch.__version__, hipdnn.__version__))
    # An earlier process was wrong: one nanosecond for hipDNN, a millisecond for PyTorch.
    words = f"1 {7 << 32 | 1 << 16 | 2} 100 100 100 1 5 4 {' '.join(str(byte) for byte in b'none')}"
    path.write_text(f"1 1000000 aten::gelu 1 threads {words}\n")
    said = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    (routed, passed_on), after, reasons = json.loads(said.stdout.splitlines()[-1])
    assert routed >= 3 and passed_on >= 3, (routed, passed_on)
    # Once judged, the thread leaves PyTorch alone: its calls are not even counted.
    assert routed + passed_on < 240 and after == [routed, passed_on], (routed, passed_on, after)
    assert "whole steps are no faster" in reasons[0]
    # Later processes know.
    ours, theirs = path.read_text().splitlines()[-1].split()[:2]
    assert int(ours) >= int(theirs)


def test_what_is_called_once_gets_no_plan():
    hipdnn.torch.reset()
    weight = torch.randn(4, 3, 3, 3)
    with hipdnn.torch.enable():
        for size in range(8, 40):
            F.conv2d(torch.randn(1, 3, size, size), weight)
    assert all(row.planning == 0 for row in hipdnn.torch.report())
    with hipdnn.torch.enable():
        for _ in range(3):
            F.conv2d(torch.randn(1, 3, 8, 8), weight)
    rows = [row for row in hipdnn.torch.report() if row.planning > 0]
    assert len(rows) == 1 and rows[0].routed + rows[0].passed_on == 4, rows
    # Without turns, the first call has one.
    hipdnn.torch.reset()
    with hipdnn.torch.enable(timed=False):
        F.conv2d(torch.randn(1, 3, 8, 8), weight)
    assert hipdnn.torch.report()[0].routed == 1


#: Lengths that change in each step, three times each.
LENGTHS = """
import random, torch, hipdnn.torch, torch.nn.functional as F
def resident():
    with open("/proc/self/statm") as of:
        return int(of.read().split()[1]) * 4096 >> 20
torch.set_num_threads(1)
random.seed(0)
layer = torch.nn.Conv1d(16, 16, 3, padding=1)
lengths = [*range(8, 1008)] * 3
random.shuffle(lengths)
with hipdnn.torch.enable():
    for at, length in enumerate(lengths):
        x = F.gelu(layer(torch.ones(1, 16, length))).mT
        F.softmax(x @ x.mT, -1).sum().backward()
        if at == 50:
            begin = resident()
print(resident() - begin)
"""


def test_lengths_that_change_take_little_memory():
    said = subprocess.run([sys.executable, "-c", LENGTHS], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert int(said.stdout) < 256, said.stdout


def test_types_of_pytorch_are_laid_out_as_expected():
    assert _native.torch_layouts(False) is None
    # Arrays as a length before an address would be refused.
    assert "not an address before a length" in _native.torch_layouts(True)


@pytest.mark.parametrize("name", _native.torch_operations(False))
def test_functions_of_pytorch_compute_what_its_stable_interface_computes(name):
    hipdnn.torch.enable()
    hipdnn.torch.disable()
    if name in ("aten::_scaled_dot_product_flash_attention_backward", "aten::_fused_rms_norm_backward"):
        pytest.skip("an operation for GPUs, which is called by the stable interface")
    assert _native.torch_agrees(name, name) is True


@pytest.mark.parametrize("end", ["", "_backward_data"])
def test_a_function_with_other_results_is_refused(end):
    assert _native.torch_agrees(f"aten::_softmax{end}", f"aten::_log_softmax{end}") is False
