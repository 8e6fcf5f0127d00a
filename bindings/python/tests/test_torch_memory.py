"""Memory of PyTorch calls with changing lengths."""

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

CHANGING_LENGTHS = """
import sys
import hipdnn.torch, torch

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).eval()
with torch.no_grad(), hipdnn.torch.enable():
    layer(torch.randn(1, 16, 256))
    start, most = used(), 0
    batch, lengths = int(sys.argv[1]), range(*map(int, sys.argv[2:]))
    for length in lengths:
        layer(torch.randn(batch, length, 256))
        most = max(most, used() - start)
print(most)
"""


@pytest.mark.parametrize("batch, lengths, most", [(1, (17, 417), 256), (5, (317, 517), 128)])
def test_memory_of_changing_lengths_is_bounded(tmp_path, batch, lengths, most):
    if sys.platform != "linux":
        pytest.skip("it reads /proc")
    out = subprocess.run(
        [sys.executable, "-c", CHANGING_LENGTHS, str(batch), *map(str, lengths)],
        capture_output=True, text=True, timeout=600, cwd=tmp_path,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    # Plans of 8 kinds of calls for each length, and holes that tensors of the last lengths left between them.
    assert int(out.stdout) <= most
