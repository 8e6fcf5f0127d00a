"""PyTorch's compilers inside `enable()`, beside eager steps: all in one process, in any order."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

#: Compiles a network in the given ways, one after the other, and prints the ways whose results are PyTorch's.
PROGRAM = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import torch, torch.nn.functional as F, hipdnn.torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.linear, self.rows = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        y = F.gelu(self.norm(self.convolution(x))).mean((2, 3))
        y = self.rows(self.linear(y))
        # Copies between types.
        z = torch.zeros(y.shape, dtype=torch.float64)
        z[:, 1:] = y[:, 1:]
        z[:, :2] = y[:, :2] > 0
        return F.softmax(y + z.to(y).half().float() + torch.arange(8), -1)

torch.set_num_threads(1)
torch.manual_seed(0)
model, x = Network().eval(), torch.randn(2, 3, 8, 8)
wanted = model(x).detach()


def eager():
    other = Network()
    for _ in range(3):
        other(x).square().sum().backward()
    return model(x)

def exported():
    return torch.export.export(model, (x,)).run_decompositions().module()(x)

def inductor():
    torch._dynamo.reset()
    return torch.compile(model)(x)

def backend():
    torch._dynamo.reset()
    return torch.compile(model, backend="hipdnn")(x)

def ahead():
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)))
    return torch._inductor.aoti_load_package(package)(x)

def traced():
    with torch.no_grad():
        return torch.jit.trace(model, x)(x)

def mapped():
    torch.func.vmap(torch.func.grad(lambda x: F.gelu(x).sum()))(torch.randn(3, 4))
    return model(x)

done = []
with hipdnn.torch.enable(timed=False):
    for way in sys.argv[1:]:
        torch.testing.assert_close(globals()[way](), wanted, rtol=1e-3, atol=1e-4)
        done.append(way)
print(json.dumps(done))
"""

WAYS = ["eager", "exported", "inductor", "backend", "ahead", "traced", "mapped"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_compilers_and_eager_steps_in_any_order(seed):
    ways = [way for way in WAYS for _ in range(2)]
    random.Random(seed).shuffle(ways)
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, *ways],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert said.returncode == 0, (ways, said.stderr[-3000:])
    assert json.loads(said.stdout.splitlines()[-1]) == ways
