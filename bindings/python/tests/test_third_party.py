"""Another party's engine for CPUs, whose plugin says that it takes memory of the host: used like this project's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hipdnn
import pytest
from test_failing_engines import ROOT, STUB

PROGRAM = """
import numpy as np, hipdnn, hipdnn_frontend, os
(engine,) = [of for of in hipdnn.engines() if of.name == "THIRD_ENGINE"]
assert (engine.plugin, engine.device, engine.implementation) == ("Third", "cpu", "library"), engine
known = {of.name: (of.device, of.implementation) for of in hipdnn.engines()}
assert known["CPU_REFERENCE_ENGINE"] == ("cpu", "reference") and known["CPU_ENGINE"] == ("cpu", "")
graph = hipdnn.Graph()
x = graph.tensor([6])
y = graph.neg(x).set_output(True)
# The library's order puts it before the project's own.
assert graph.engines()[0] == "THIRD_ENGINE", graph.engines()
a, b = np.ones(6, np.float32), np.full(6, 5, np.float32)
graph.execute({x: a, y: b})
# The stub computes nothing.
assert graph.engine == "THIRD_ENGINE" and (b == 5).all()
graph.build(engine="THIRD_ENGINE")
graph.execute({x: a, y: b})
made = hipdnn_frontend.Graph().set_preferred_engine_id_ext("THIRD_ENGINE")
assert made.get_preferred_engine_id_ext() == engine.id
print(open(os.environ["HIPDNN_STUB_LOG"]).read().count("ExecuteOpGraph "))
"""

OF_TORCH = """
import torch, hipdnn.torch
with hipdnn.torch.enable(timed=False):
    torch.nn.functional.gelu(torch.ones(2, 3))
(row,) = hipdnn.torch.report()
assert [ran.engine for ran in row.ran] == ["THIRD_ENGINE"], row
print(row.routed)
"""


@pytest.fixture
def third(tmp_path):
    """The settings of a process that loads the plugin beside the project's own."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    command = [compiler, "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-D_POSIX_C_SOURCE=200809L",
               '-DENGINES="THIRD_ENGINE"', '-DPLUGIN_NAME="Third"', "-DDEVICE=1", "-DIMPLEMENTATION=1",
               "-I", ROOT / "include" / "hipdnn" / "plugin", "-o", tmp_path / "liba_third_plugin.so",
               *(ROOT / "c_tests" / "plugins" / name for name in STUB)]  # fmt: skip
    subprocess.run([*map(str, command)], check=True)
    of_cpu = Path(hipdnn.library().path).parent / "hipdnn_plugins" / "engines" / "libhipdnn_cpu_plugin.so"
    # A copy: plugins stand in the order of their real paths.
    shutil.copy(of_cpu, tmp_path)
    return {**os.environ, "HIPDNN_PLUGIN_DIR": str(tmp_path), "HIPDNN_STUB_LOG": str(tmp_path / "log")}


def test_graphs_use_it(third):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, env=third)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stdout + done.stderr


def test_pytorch_uses_it(third):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    done = subprocess.run([sys.executable, "-c", OF_TORCH], capture_output=True, text=True, timeout=300, env=third)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stdout + done.stderr
