"""Engines, knobs, plans by index, and the search for the fastest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import builders
import hipdnn as hipdnn_package
import hipdnn_frontend as hipdnn
import numpy as np
import pytest
from builders import good, plan
from test_execution import Null


def built() -> tuple[Any, Any, dict[Any, np.ndarray]]:
    """A built graph of a convolution, its handle and memory."""
    of = builders.conv_fprop()
    handle = hipdnn.create_handle()
    good(of.graph.validate())
    good(of.graph.build_operation_graph(handle))
    return of.graph, handle, {t: np.ones(t.get_dim(), np.float32) for t in (*of.inputs.values(), *of.outputs.values())}


def quick(**fields: Any) -> hipdnn.AutotuneConfig:
    config = hipdnn.AutotuneConfig()
    config.strategy, config.timed_iterations = hipdnn.AutotuneStrategy.FIXED_AVERAGE, 2
    for name, value in fields.items():
        setattr(config, name, value)
    return config


WORKSPACE = 1 << 24


def test_fields_and_their_initial_values() -> None:
    config = hipdnn.AutotuneConfig()
    assert (config.warmup_iterations, config.timed_iterations, config.max_iterations, config.window_size) == (
        1,
        10,
        100,
        3,
    )
    assert config.stability_threshold == 0.05 and config.engine_id_filter == []
    assert config.mode is hipdnn.TuneMode.STANDARD
    assert config.strategy is hipdnn.AutotuneStrategy.RUN_UNTIL_STABLE
    assert config.priming_failure_policy is hipdnn.PrimingFailurePolicy.ABORT_ON_PRIMING_FAILURE
    config.engine_id_filter.append(1)
    assert hipdnn.AutotuneConfig().engine_id_filter == []
    with pytest.raises(AttributeError, match="no field 'warmup'"):
        config.warmup = 3
    info, result = hipdnn.EngineConfigInfo(), hipdnn.AutotuneResult()
    assert (info.engine_id, info.engine_name, info.knobs, info.supports_exhaustive) == (-1, "", [], False)
    assert (result.engine_id, result.rank, result.compiled_plan_index, result.succeeded) == (-1, -1, -1, False)
    with pytest.raises(AttributeError):
        result.engine_id = 5
    assert hipdnn.EngineVariant().knob_settings == {} and hipdnn.KnobSweepAxis().values == []
    assert (hipdnn.EngineSweepSpec().axes, hipdnn.EngineSweepSpec().fixed_settings) == ([], {})
    storage = hipdnn.AutotuneStorageConfig()
    storage.file_path = Path("a/b")
    assert Path(storage.file_path) == Path("a/b") and storage.delete_all_existing_file_content is False


def test_settings_of_knobs() -> None:
    setting = hipdnn.KnobSetting("tile", 64)
    assert (setting.knob_id, setting.value) == ("tile", 64) and "tile" in repr(setting)
    assert setting == hipdnn.KnobSetting("tile", 64) != hipdnn.KnobSetting("tile", 65)
    assert setting != hipdnn.KnobSetting("other", 64) and setting != hipdnn.KnobSetting("tile", 64.0)
    for wrong in (None, True, [1]):
        with pytest.raises(TypeError):
            hipdnn.KnobSetting("tile", wrong)
    with pytest.raises(TypeError):
        hipdnn.Knob()


def test_calls_before_the_graph_is_built() -> None:
    graph = hipdnn.Graph()
    for call in (graph.get_engine_configs, lambda: graph.get_knobs_for_engine(0), lambda: graph.get_knob_lookup_for_engine(0),
                 graph.get_estimated_max_workspace_size, lambda: graph.get_behavior_notes_for_engine(0)):  # fmt: skip
        with pytest.raises(RuntimeError, match="build_operation_graph"):
            call()
    for error in (graph.add_engine(0), graph.add_engines([]), graph.add_engine_configs([]), graph.add_engine_variants([]),
                  graph.add_engine_sweep([]), graph.add_all_engines(), graph.create_execution_plan_ext(0),
                  graph.create_execution_plan_ext(0, [hipdnn.KnobSetting("tile", 1)])):  # fmt: skip
        assert error.is_bad() and "build_operation_graph" in error.get_message()
    assert graph.deselect_engines(["A"]).deselect_engines([1]).deselect_workspace_greater_than(5) is graph
    assert graph.get_execution_plan_count() == graph.get_autotune_workspace_size() == 0
    for call in (graph.get_plan_name, lambda: graph.get_plan_name_at_index(0), graph.get_workspace_size,
                 lambda: graph.get_workspace_size_plan_at_index(0), graph.get_execution_plan_engine_id):  # fmt: skip
        with pytest.raises(RuntimeError, match="out of bounds"):
            call()
    for error in (graph.build_plan_at_index(0), graph.execute_plan_at_index(Null(), {1: 1}, 0, 0)):
        assert "out of bounds" in error.get_message()


def test_names_are_told_with_a_handle_as_without() -> None:
    graph, handle, _ = built()
    (first, *_) = graph.get_engine_configs(handle=handle)
    assert first.engine_name == graph.get_engine_configs()[0].engine_name
    good(graph.create_execution_plans())
    good(graph.build_plans())
    assert first.engine_name == graph.get_plan_name(handle=handle) == graph.get_plan_name_at_index(0, handle=handle)


@pytest.mark.parametrize(
    "field, value, name",
    [
        ("warmup_iterations", -1, "warmupIterations"), ("timed_iterations", 0, "timedIterations"),
        ("max_iterations", 0, "maxIterations"), ("window_size", 1, "windowSize"), ("stability_threshold", 0.0, "stabilityThreshold"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_named(field: str, value: float, name: str) -> None:
    config = hipdnn.AutotuneConfig()
    if field == "timed_iterations":
        config.strategy = hipdnn.AutotuneStrategy.FIXED_AVERAGE
    setattr(config, field, value)
    with pytest.raises(RuntimeError, match=name):
        hipdnn.Graph().autotune(Null(), {1: 1}, config=config)


def test_engines_have_knobs_and_notes() -> None:
    graph, *_ = built()
    configs = graph.get_engine_configs()
    assert [config.engine_id for config in configs] == graph.get_ranked_engine_ids()
    for config in configs:
        assert config.engine_name and config.estimated_workspace_size >= 0
        knobs = graph.get_knobs_for_engine(config.engine_id)
        assert {knob.knob_id for knob in knobs} == set(graph.get_knob_lookup_for_engine(config.engine_id))
        assert len(knobs) == len(config.knobs)
        for knob in knobs:
            assert isinstance(knob.value_type, hipdnn.KnobValueType) and repr(knob.constraint).partition("{")[
                0
            ] in repr(knob)
            assert knob.validate(hipdnn.KnobSetting(knob.knob_id, knob.default_value)).is_good()
            wrong = "text" if knob.value_type is not hipdnn.KnobValueType.STRING else 1
            assert knob.knob_id in knob.validate(hipdnn.KnobSetting(knob.knob_id, wrong)).get_message()
            if (
                isinstance(knob.constraint, hipdnn.IntConstraint)
                and knob.constraint.max_value > knob.constraint.min_value
            ):
                beyond = hipdnn.KnobSetting(knob.knob_id, knob.constraint.max_value + 1)
                assert knob.validate(beyond).is_bad()
        assert isinstance(graph.get_behavior_notes_for_engine(config.engine_id), list)
    assert any(config.knobs for config in configs)
    with pytest.raises(RuntimeError, match="expected one of CPU_ENGINE"):
        graph.get_knobs_for_engine(-999)


def test_plans_by_index() -> None:
    of = builders.conv_fprop()
    handle = plan(of.graph, hipdnn.BuildPlanPolicy.ALL)
    graph, tensors = of.graph, (*of.inputs.values(), *of.outputs.values())
    pack = {tensor: np.ones(tensor.get_dim(), np.float32) for tensor in tensors}
    count = graph.get_execution_plan_count()
    assert count >= 2
    sizes = [graph.get_workspace_size_plan_at_index(at) for at in range(count)]
    assert graph.get_autotune_workspace_size() == max(sizes)
    results = []
    for at in range(count):
        good(graph.execute_plan_at_index(handle, pack, 0, at))
        results.append(pack[tensors[-1]].copy())
    assert all(np.allclose(results[0], result) for result in results)
    good(graph.build_plan_at_index(count - 1))
    assert graph.get_plan_name() == graph.get_plan_name_at_index(count - 1)
    assert graph.get_workspace_size() == sizes[-1]
    good(graph.execute(handle, pack))
    assert graph.execute_plan_at_index(handle, pack, 0, count).is_bad() and graph.build_plan_at_index(count).is_bad()
    graph.deselect_engines([graph.get_plan_name_at_index(0)])
    assert "deselected" in graph.execute_plan_at_index(handle, pack, 0, 0).get_message()


def test_one_engine_with_knobs() -> None:
    graph, handle, pack = built()
    engine = graph.get_engine_configs()[0].engine_id
    knobs = graph.get_knobs_for_engine(engine)
    settings = [hipdnn.KnobSetting(knob.knob_id, knob.default_value) for knob in knobs]
    good(graph.create_execution_plan_ext(engine, settings))
    good(graph.build_plans())
    assert graph.get_execution_plan_engine_id() == engine
    good(graph.execute(handle, pack))
    good(graph.create_execution_plan_ext(engine, [hipdnn.KnobSetting("no.such.knob", 1)]))
    assert graph.create_execution_plan_ext(engine, [hipdnn.KnobSetting(knobs[0].knob_id, "text")]).is_bad()
    assert graph.create_execution_plan_ext(-999).is_bad()


def test_a_preferred_engine_comes_first() -> None:
    graph, *_ = built()
    last = graph.get_engine_configs()[-1]
    graph.set_preferred_engine_id_ext(last.engine_id)
    good(graph.create_execution_plans())
    good(graph.build_plans())
    assert graph.get_plan_name() == last.engine_name
    assert graph.set_preferred_engine_id_ext().get_preferred_engine_id_ext() is None


def test_the_fastest_candidate_is_selected(tmp_path: Path) -> None:
    graph, handle, pack = built()
    good(graph.add_all_engines())
    assert graph.get_estimated_max_workspace_size() >= 0
    storage = hipdnn.AutotuneStorageConfig()
    storage.file_path = tmp_path / "rules.json"
    results = graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick(), storage_config=storage)
    assert {result.engine_id for result in results} == {config.engine_id for config in graph.get_engine_configs()}
    assert [result.rank for result in results] == list(range(len(results)))
    for result in results:
        assert 0 < result.min_time_ms <= result.avg_time_ms and result.iterations_run == 2 and result.succeeded
        assert result.workspace_size <= WORKSPACE and result.strategy_used is hipdnn.AutotuneStrategy.FIXED_AVERAGE
    assert graph.get_execution_plan_engine_id() == results[0].engine_id
    good(graph.execute(handle, pack))
    (rule,) = json.loads(storage.file_path.read_text())["engine_overrides"]
    assert rule["engine_name"] == results[0].engine_name and rule["autotune_metadata"]["rank"] == 0
    assert rule["op"] == "conv_fprop" and [of["dim"] for of in rule["tensors"]] == [[2, 3, 6, 6], [4, 3, 3, 3]]
    # Once more: the rule is replaced, not added.
    again, handle, pack = built()
    good(again.add_all_engines())
    again.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick(), storage_config=storage)
    assert len(json.loads(storage.file_path.read_text())["engine_overrides"]) == 1


READS = """
import json, sys, hipdnn_frontend as hipdnn
sys.path.insert(0, sys.argv[1])
from test_autotune import built
graph, *_ = built()
print(graph.get_engine_configs()[0].engine_name)
"""


def test_the_library_reads_the_rule(tmp_path: Path) -> None:
    graph, handle, pack = built()
    last = graph.get_engine_configs()[-1]
    good(graph.add_engines([last.engine_id]))
    storage = hipdnn.AutotuneStorageConfig()
    storage.file_path = tmp_path / "rules.json"
    graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick(), storage_config=storage)
    words = [sys.executable, "-c", READS, os.path.dirname(__file__)]
    for name, first in (("HIPDNN_HEUR_CONFIG_PATH", last.engine_name), ("NOTHING", graph_first())):
        done = subprocess.run(
            words, env={**os.environ, name: str(storage.file_path)}, capture_output=True, text=True, timeout=120
        )
        assert done.stdout.strip() == first, done.stderr


def graph_first() -> str:
    graph, *_ = built()
    return graph.get_engine_configs()[0].engine_name


def test_candidates_are_built_before_they_are_timed() -> None:
    """As hipdnn_torch does where it tunes."""
    graph, handle, pack = built()
    good(graph.add_all_engines())
    good(graph.build_plans(hipdnn.BuildPlanPolicy.ALL))
    assert graph.get_execution_plan_count() == len(graph.get_ranked_engine_ids()) >= 2
    assert graph.get_execution_plan_engine_id() == graph.get_ranked_engine_ids()[0]
    most = max(
        graph.get_estimated_max_workspace_size(), graph.get_autotune_workspace_size(), graph.get_workspace_size()
    )
    good(graph.execute(handle, pack))
    for sized in ({"workspace_size": most}, {}):
        results = graph.autotune(handle, pack, 0, config=quick(), **sized)
        assert all(result.succeeded for result in results) and len(results) == graph.get_execution_plan_count()
    config = quick(engine_id_filter=graph.get_ranked_engine_ids()[:1])
    assert len(graph.autotune_exhaustive_sweep(handle, pack, 0, most, config)[0]) == 1


def test_candidates_that_come_later_are_plans_too() -> None:
    graph, handle, pack = built()
    first, second = graph.get_ranked_engine_ids()[:2]
    good(graph.add_engine(first))
    for build in (lambda: good(graph.build_plans(hipdnn.BuildPlanPolicy.ALL)),
                  lambda: graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick())):  # fmt: skip
        build()
        assert graph.get_execution_plan_count() == 1
    good(graph.add_engine(second))
    # They are none before they are built.
    assert graph.get_execution_plan_count() == 1
    good(graph.build_plans(hipdnn.BuildPlanPolicy.ALL))
    assert graph.get_execution_plan_count() == 2
    good(graph.execute_plan_at_index(handle, pack, 0, 1))


def test_a_search_that_fails_changes_no_plans() -> None:
    def fails(function: Any) -> None:
        with pytest.raises(RuntimeError, match="excluded by engineIdFilter|expected at least 0"):
            function()

    none = quick(engine_id_filter=[-5])
    graph, handle, pack = built()
    good(graph.create_execution_plans())
    good(graph.build_plans(hipdnn.BuildPlanPolicy.ALL))
    count = graph.get_execution_plan_count()
    good(graph.build_plan_at_index(count - 1))
    name = graph.get_plan_name()
    fails(lambda: graph.autotune_exhaustive_sweep(handle, pack, 0, WORKSPACE, none))
    fails(lambda: graph.autotune_exhaustive_sweep(handle, pack, 0, -1, quick()))
    fails(lambda: graph.autotune(handle, pack, 0, workspace_size=-1, config=quick()))
    fails(lambda: graph.autotune(handle, pack, config=none))
    assert (graph.get_execution_plan_count(), graph.get_plan_name()) == (count, name)
    good(graph.execute(handle, pack))
    # The sweep's candidates are none of the program's.
    with pytest.raises(RuntimeError, match="plan specs"):
        graph.get_estimated_max_workspace_size()
    graph, handle, pack = built()
    good(graph.add_engines(graph.get_ranked_engine_ids()[:1]))
    good(graph.build_plans())
    fails(lambda: graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=none))
    good(graph.execute(handle, pack))
    assert graph.get_estimated_max_workspace_size() >= 0


class CannotStore:
    """A graph of the library that stores no times."""

    def __init__(self, native: Any) -> None:
        self._of = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def write_times(self, times: Any) -> str:
        raise hipdnn_package.Error("no room")


def test_results_are_kept_if_they_cannot_be_stored() -> None:
    graph, handle, pack = built()
    graph._native = CannotStore(graph._native)
    with pytest.warns(RuntimeWarning, match="no room"):
        results, outcome = graph.autotune_exhaustive_sweep(handle, pack, 0, WORKSPACE, quick())
    assert outcome is hipdnn.AutotuneCacheWriteOutcome.DECLINED_DISABLED
    assert results[0].succeeded and graph.get_execution_plan_engine_id() == results[0].engine_id
    good(graph.execute(handle, pack))


SWEEPS = """
import sys, hipdnn_frontend as hipdnn
sys.path.insert(0, sys.argv[1])
from test_autotune import WORKSPACE, built, good, quick
graph, handle, pack = built()
# Also after plans were made without it, as hipdnn_torch does.
good(graph.create_execution_plans())
good(graph.build_plans())
results, outcome = graph.autotune_exhaustive_sweep(handle, pack, 0, WORKSPACE, quick(timed_iterations=4))
assert results == sorted(results, key=lambda of: of.robust_time_ms)
for result in results:
    assert result.mode_used is hipdnn.TuneMode.EXHAUSTIVE and result.benchmarked and not result.excluded_by_caller
    assert 0 < result.min_time_ms <= result.robust_time_ms <= result.avg_time_ms
assert graph.get_execution_plan_engine_id() == results[0].engine_id
good(graph.execute(handle, pack))
print(outcome.name)
"""


def test_a_sweep_of_all_engines_is_stored(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SWEEPS, os.path.dirname(__file__)]
    for name, outcome in (("HIPDNN_CACHE_DIR", "WRITTEN"), ("HIPDNN_DISABLE_CACHE", "DECLINED_DISABLED")):
        value = str(tmp_path) if outcome == "WRITTEN" else "1"
        done = subprocess.run(words, env={**os.environ, name: value}, capture_output=True, text=True, timeout=120)
        assert done.stdout.strip() == outcome, done.stderr
    (file,) = tmp_path.rglob("*.jsonl")
    assert "timesMs" in file.read_text()


def test_a_sweep_of_some_engines_is_not_stored() -> None:
    engine = next(config for config in built()[0].get_engine_configs() if config.knobs)
    knob = hipdnn.KnobSetting(engine.knobs[0].knob_id, engine.knobs[0].default_value)
    for prepare, config in (
        (lambda graph: None, quick(engine_id_filter=[engine.engine_id])),
        (lambda graph: graph.deselect_engines(["CPU_REFERENCE_ENGINE"]), quick()),
        (lambda graph: good(graph.add_engines([engine.engine_id])), quick()),
        (lambda graph: good(graph.add_engine(engine.engine_id, [knob])), quick()),
    ):
        graph, handle, pack = built()
        prepare(graph)
        results, outcome = graph.autotune_exhaustive_sweep(handle, pack, 0, WORKSPACE, config)
        assert outcome is hipdnn.AutotuneCacheWriteOutcome.NOT_ATTEMPTED_PARTIAL_SWEEP
        assert all(of.benchmarked is not of.excluded_by_caller for of in results)
    assert quick().mode is hipdnn.TuneMode.STANDARD
    for wrong, words in ((quick(timed_iterations=0), "timedIterations"), (None, "build_operation_graph")):
        with pytest.raises(RuntimeError, match=f"autotune_exhaustive_sweep failed: .*{words}"):
            hipdnn.Graph().autotune_exhaustive_sweep(handle, pack, 0, WORKSPACE, wrong)


def test_compiled_plans_are_timed_until_times_agree() -> None:
    graph, handle, pack = built()
    good(graph.create_execution_plans())
    good(graph.build_plans(hipdnn.BuildPlanPolicy.ALL))
    with pytest.raises(RuntimeError, match="plan specs"):
        graph.get_estimated_max_workspace_size()
    assert "not both" in graph.add_all_engines().get_message()
    config = hipdnn.AutotuneConfig()
    config.max_iterations, config.stability_threshold = 20, 0.99
    results = graph.autotune(handle, {tensor.get_uid(): array for tensor, array in pack.items()}, 0, config=config)
    assert results[0].succeeded and results[0].converged and 3 <= results[0].iterations_run <= 20
    assert graph.get_plan_name() == results[0].engine_name


def test_variants_and_sweeps() -> None:
    graph, handle, pack = built()
    engine, knob = next(
        (config.engine_id, knob)
        for config in graph.get_engine_configs()
        for knob in config.knobs
        if isinstance(knob.constraint, hipdnn.IntConstraint)
    )
    values = sorted(knob.constraint.valid_values) or [
        knob.constraint.min_value,
        knob.constraint.min_value + knob.constraint.step,
    ]
    spec, axis = hipdnn.EngineSweepSpec(), hipdnn.KnobSweepAxis()
    axis.knob_id, axis.values = knob.knob_id, values[:2]
    spec.engine_id, spec.axes = engine, [axis]
    good(graph.add_engine_sweep([spec]))
    variant = hipdnn.EngineVariant()
    variant.engine_id, variant.knob_settings = engine, {knob.knob_id: values[0]}
    good(graph.add_engine_variants([variant]))
    good(graph.add_engine_configs(graph.get_engine_configs()))
    results = graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick(engine_id_filter=[engine]))
    own = [[(of.knob_id, of.value) for of in result.knob_settings] for result in results]
    assert sorted(own) == sorted([[], *([(knob.knob_id, value)] for value in values[:2])])
    for settings, words in (([hipdnn.KnobSetting("no.such.knob", 1)], "no.such.knob"),
                            ([hipdnn.KnobSetting(knob.knob_id, "text")], knob.knob_id)):  # fmt: skip
        error = graph.add_engine(engine, settings)
        assert error.is_bad() and words in error.get_message()
    assert "-999" in graph.add_engine(-999).get_message()
    assert "empty" in graph.add_engine_configs([]).get_message()


def test_one_engine_is_deselected_by_its_name_or_id() -> None:
    graph, *_ = built()
    first, second = graph.get_engine_configs()[:2]
    for deselect in (lambda: graph.deselect_engines(engine_names=first.engine_name), lambda: graph.deselect_engines(first.engine_name),
                     lambda: graph.deselect_engines(first.engine_id), lambda: graph.deselect_engines(engine_ids=first.engine_id)):  # fmt: skip
        graph, *_ = built()
        deselect()
        good(graph.create_execution_plans())
        good(graph.build_plans())
        assert graph.get_plan_name() == second.engine_name


def test_a_search_without_candidates_says_why() -> None:
    for prepare, words in (
        (lambda graph: graph.deselect_engines(graph.get_ranked_engine_ids()), "deselected"),
        (lambda graph: graph.deselect_engines([of.engine_name for of in graph.get_engine_configs()]), "deselected"),
        (lambda graph: graph.deselect_workspace_greater_than(-1), "deselected"),
    ):
        graph, handle, pack = built()
        good(graph.add_all_engines())
        count = len(graph.get_ranked_engine_ids())
        prepare(graph)
        with pytest.raises(RuntimeError, match=f"No execution plans were benchmarkable.*{count} {words}"):
            graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick())
    graph, handle, pack = built()
    with pytest.raises(RuntimeError, match="no plan specs"):
        graph.autotune(handle, pack)
    good(graph.add_all_engines())
    with pytest.raises(RuntimeError, match="excluded by engineIdFilter"):
        graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=quick(engine_id_filter=[-5]))
    with pytest.raises(RuntimeError, match="handle must not be null"):
        graph.autotune(Null(), pack)
    with pytest.raises(RuntimeError, match="missing required non-virtual tensor UIDs"):
        graph.autotune(handle, dict(list(pack.items())[:-1]), 0, workspace_size=WORKSPACE)
    with pytest.raises(RuntimeError, match="has no memory"):
        graph.autotune(handle, {})


@pytest.mark.parametrize("policy", hipdnn.PrimingFailurePolicy)
def test_engines_that_cannot_tune_themselves_are_timed(policy: hipdnn.PrimingFailurePolicy) -> None:
    graph, handle, pack = built()
    good(graph.add_all_engines())
    config = quick(mode=hipdnn.TuneMode.EXHAUSTIVE, priming_failure_policy=policy)
    for result in graph.autotune(handle, pack, 0, workspace_size=WORKSPACE, config=config):
        assert result.succeeded and result.mode_used is hipdnn.TuneMode.EXHAUSTIVE
        assert result.ran_exhaustive is result.supports_exhaustive
        assert result.ran_exhaustive or "global.benchmarking" in result.exhaustive_not_run_reason
