"""Another party's engine, alone: one that claims every graph, computes nothing, and does not tell what it computes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_failing_engines import ROOT, STUB

PRELUDE = """
import os, sys
import hipdnn_frontend as hipdnn
hipdnn.set_engine_plugin_paths([os.environ["PLUGIN"]], hipdnn.PluginLoadingMode.ABSOLUTE)
sys.path.insert(0, sys.argv[1])
import builders, numpy as np, pytest
from builders import FLOAT, good, number, plan
from hipdnn import EngineError, Error
from hipdnn_frontend import Tensor
from test_autotune import WORKSPACE, built, quick
"""

EVERY_GRAPH = """
assert built()[0].get_ranked_engine_ids() == [built()[0].get_engine_configs()[0].engine_id]
# What no engine of the project computes: an operation of somebody's own, and floats with a scale for each block.
custom = builders.custom_op()
plan(custom.graph)
graph = builders.float_graph()
x = Tensor.create([2, 64, 4, 4], FLOAT)
for made in graph.block_scale_quantize(x, hipdnn.BlockScaleQuantizeAttributes().set_block_size(32)):
    made.set_output(True).set_data_type(FLOAT)
plan(graph)
# The engine decides which memory it needs: here the statistics have none.
graph = builders.float_graph()
dy, x, scale = (Tensor.create([of, 6, 4], FLOAT) for of in (2, 2, 1))
mean, inverse = (Tensor.create([2, 1, 1], FLOAT) for _ in range(2))
attributes = hipdnn.LayernormBackwardAttributes().set_saved_mean_and_inv_variance(mean, inverse).set_epsilon(number())
results = graph.layernorm_backward(dy, x, scale, attributes)
for made in results:
    made.set_output(True)
handle = plan(graph)
memory = {tensor.get_uid(): np.full(tensor.get_dim(), 7, np.float32) for tensor in (dy, x, scale, *results)}
good(graph.execute(handle, memory))
assert all((array == 7).all() for array in memory.values())
"""

ALONE = """
for deselect, words in (
    (lambda graph: graph.deselect_engines(graph.get_ranked_engine_ids()), "1 deselected"),
    (lambda graph: graph.deselect_engines(engine_names=["STUB_ENGINE"]), "1 deselected"),
    (lambda graph: graph.deselect_engines(engine_ids=graph.get_ranked_engine_ids()), "1 deselected"),
    (lambda graph: graph.deselect_workspace_greater_than(0), "1 deselected.*needs 2048 bytes"),
):
    graph, handle, pack = built()
    good(graph.add_all_engines())
    assert deselect(graph) is graph
    with pytest.raises(RuntimeError, match=f"No execution plans were benchmarkable of 1: {words}"):
        graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick())
"""

KNOBS = """
graph, handle, pack = built()
(config,) = graph.get_engine_configs()
knobs = graph.get_knob_lookup_for_engine(config.engine_id)
pick, mode = (sorted(knobs[name].constraint.valid_values) for name in ("pick", "mode"))
assert (pick, mode) == ([3, 5, 8], ["exact", "fast"]) and knobs["pick"].description == "Which."
axes = [hipdnn.KnobSweepAxis() for _ in range(2)]
for axis, name, values in zip(axes, ("pick", "mode"), (pick, mode)):
    axis.knob_id, axis.values = name, values
spec, other = hipdnn.EngineSweepSpec(), hipdnn.EngineSweepSpec()
spec.engine_id = other.engine_id = config.engine_id
spec.axes, other.axes, other.fixed_settings = axes, axes[:1], {"mode": "exact"}
for of, wanted in ((spec, {(one, two) for one in pick for two in mode}), (other, {(one, "exact") for one in pick})):
    graph, handle, pack = built()
    good(graph.add_engine_sweep([of]))
    results = graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick())
    found = [dict((setting.knob_id, setting.value) for setting in result.knob_settings) for result in results]
    assert len(found) == len(wanted) and {(of["pick"], of["mode"]) for of in found} == wanted
    assert all(result.succeeded for result in results)
graph, handle, pack = built()
good(graph.create_execution_plan_ext(config.engine_id, [hipdnn.KnobSetting("pick", 8)]))
# A refused value names those that are taken, and leaves the plan that there was.
for value in (1008, "text"):
    wrong = [hipdnn.KnobSetting("pick", value)]
    for error in (graph.create_execution_plan_ext(config.engine_id, wrong), built()[0].add_engine(config.engine_id, wrong)):
        assert "knob pick" in error.get_message() and "one of the valid values 3, 5, 8" in error.get_message()
good(graph.build_plans())
good(graph.execute(handle, pack))
"""


FAILS = """
graph, handle, pack = built()
plan(graph)
native, (x, w, y) = graph._entries[0].plan, ({tensor.get_uid(): array} for tensor, array in pack.items())
# An input and an output that are missing are no one memory: another engine could still be asked.
for arrays in (w, x, {**x, **w}, {**x, **w, **y}):
    with pytest.raises(EngineError):
        native.execute(arrays, True)
whole = np.zeros(1000, np.float32)
one, two = (whole[: array.size].reshape(array.shape) for of in (x, y) for array in of.values())
with pytest.raises(Error) as raised:
    native.execute({**dict.fromkeys(x, one), **dict.fromkeys(y, two)}, True)
assert not isinstance(raised.value, EngineError)
"""


@pytest.mark.parametrize(
    "macros, program",
    [
        (["-DWORKSPACE=2048"], EVERY_GRAPH), (["-DWORKSPACE=2048", "-DDEVICE=1"], EVERY_GRAPH), (["-DWORKSPACE=2048"], ALONE),
        (["-DKNOBS"], KNOBS), (["-DEXECUTE_STATUS=HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR"], FAILS),
    ],
    ids=["every graph", "every graph, of the host", "alone", "knobs", "fails"],
)  # fmt: skip
def test_an_engine_that_claims_every_graph(tmp_path: Path, macros: list[str], program: str) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    plugin = tmp_path / "libanother_plugin.so"
    command = [compiler, "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-D_POSIX_C_SOURCE=200809L",
               '-DENGINES="STUB_ENGINE"', *macros, "-I", ROOT / "include" / "hipdnn" / "plugin", "-o", plugin,
               *(ROOT / "c_tests" / "plugins" / name for name in STUB)]  # fmt: skip
    subprocess.run([*map(str, command)], check=True)
    words = [sys.executable, "-c", PRELUDE + program, os.path.dirname(__file__)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PLUGIN": str(plugin), "PYTHONPATH": path}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
