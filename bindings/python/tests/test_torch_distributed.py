"""Training in two processes with `torch.nn.parallel.DistributedDataParallel` and `fully_shard`: losses and weights are PyTorch's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("a PyTorch without gloo", allow_module_level=True)

#: Where the processes compute: on two GPUs if present, else on the processor.
GPUS = torch.cuda.is_available() and torch.cuda.device_count() > 1

#: Trains in one of two processes; prints its losses, and how many calls were computed here.
CODE = """
import json, sys
import torch, hipdnn.torch
import torch.nn.functional as F
from torch import nn
rank, store, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(3)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 16), nn.LayerNorm(16), nn.Linear(16, 4)
)
if how == "compiled inside":
    model = torch.compile(model, backend="hipdnn")
model = nn.parallel.DistributedDataParallel(model)
if how == "compiled outside":
    model = torch.compile(model, backend="hipdnn")
if how == "routed":
    hipdnn.torch.enable(timed=False)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
torch.manual_seed(10 + rank)
losses = []
for _ in range(12):
    x, y = torch.randn(8, 3, 8, 8), torch.randint(0, 4, (8,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = [p.double().sum().item() for p in model.parameters()]
rows = hipdnn.torch.report()
routed = sorted({row.function for row in rows if row.routed})
print(json.dumps([losses, weights, routed]))
hipdnn.torch.disable()
torch.distributed.destroy_process_group()
"""

#: The same for a transformer whose weights are sharded over both processes, on a device; hipDNN is enabled for the process, whose threads gather them.
SHARDED = """
import json, sys
import torch, hipdnn.torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
rank, store, how, device = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
torch.set_num_threads(1)
if device == "cuda":
    torch.cuda.set_device(rank)
backend = "nccl" if device == "cuda" else "gloo"
torch.distributed.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(3)
width, length, batch = (1024, 512, 8) if device == "cuda" else (32, 12, 4)
layers = [nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)]
model = nn.Sequential(*layers, nn.LayerNorm(width), nn.Linear(width, 4)).to(device)
mesh = init_device_mesh(device, (2,))
for layer in layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
assert all(isinstance(p, DTensor) for p in model.parameters())
if how == "routed":
    hipdnn.torch.enable(timed=False, process=True)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
torch.manual_seed(10 + rank)
losses = []
for _ in range(8):
    x, y = torch.randn(batch, length, width).to(device), torch.randint(0, 4, (batch, length)).to(device)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = [p.full_tensor().double().sum().item() for p in model.parameters()]
routed = sorted({row.function for row in hipdnn.torch.report() if row.routed})
print(json.dumps([losses, weights, routed]))
hipdnn.torch.disable(process=True)
torch.distributed.destroy_process_group()
"""


def train(how, folder, code=CODE, *words):
    """The output of both processes."""
    store = os.path.join(folder, how)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), store, how, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=600) for process in processes]
    assert not any(process.returncode for process in processes), said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train("plain", tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("how", ["routed", "compiled inside", "compiled outside"])
def test_losses_agree(how, plain, tmp_path):
    got = train(how, tmp_path)
    for (losses, weights, routed), (wanted, of, _) in zip(got, plain):
        assert losses == pytest.approx(wanted, rel=1e-4)
        assert weights == pytest.approx(of, rel=1e-3, abs=1e-4)
        # PyTorch 2.15 compiles nothing of a DistributedDataParallel on CPUs, whatever the backend.
        assert {"convolution", "convolution_backward"} <= set(routed) or how == "compiled outside"
    # Both processes have the same weights.
    assert got[0][1] == got[1][1]
    if how == "routed":
        assert {"native_batch_norm_backward", "native_layer_norm_backward", "mm", "max_pool2d_with_indices"} <= set(
            got[0][2]
        )


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not GPUS, reason="no two GPUs"))]
)
def test_losses_of_sharded_weights_agree(device, tmp_path):
    plain, routed = (train(how, tmp_path, SHARDED, device) for how in ("plain", "routed"))
    for (losses, weights, functions), (wanted, of, _) in zip(routed, plain):
        assert losses == pytest.approx(wanted, rel=1e-3)
        assert weights == pytest.approx(of, rel=1e-3, abs=1e-2)
        on_both = {"native_layer_norm", "native_layer_norm_backward", "gelu", "gelu_backward"}
        assert on_both <= set(functions) and (device == "cuda" or "mm" in functions), functions
    assert routed[0][1] == routed[1][1]
