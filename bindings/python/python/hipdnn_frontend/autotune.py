"""The search for the fastest plan."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import hipdnn
from hipdnn import _native

from .error import ErrorCode, Refused, as_error, raising
from .handle import address_of, stream_of
from .knobs import KnobSetting, KnobValue
from .plans import BENCHMARKING, Entry, Plans, _settings
from .tuning import (
    AutotuneConfig,
    AutotuneResult,
    AutotuneStorageConfig,
    EngineConfigInfo,
    EngineSweepSpec,
    EngineVariant,
)
from .types import AutotuneCacheWriteOutcome, AutotuneStrategy, HeuristicMode, PrimingFailurePolicy, TuneMode

__all__ = ["Autotune"]

#: The most combinations of a sweep.
_MOST = 10_000
#: Operations that rules have another name for.
_IN_RULES = {
    "sdpa": "sdpa_fwd", "sdpa_backward": "sdpa_bwd", "batchnorm": "batchnorm_training", "resample": "resample_fwd"
}  # fmt: skip


class Autotune(Plans):
    """A graph whose plans are timed."""

    def _arrays(self, variant_pack: Mapping[Any, Any]) -> dict[int, Any]:
        raise NotImplementedError

    def _run(self, entry: Entry, plan: _native.Plan, arrays: Mapping[int, Any], stream: int) -> None:
        raise NotImplementedError

    def _core(self) -> tuple[str, list[tuple[list[int], list[int]]]]:
        raise NotImplementedError

    def _reset(self) -> None:
        super()._reset()
        self._specs = None

    # Candidates.

    def _check_specs(self, count: int) -> None:
        self._built()
        if self._entries and self._specs is None:
            raise Refused("the graph has compiled plans, expected plan specs or create_execution_plans(), not both")
        if count == 0:
            raise Refused("the list is empty, expected at least one engine")

    def _spec(self, engine: int, settings: Mapping[str, KnobValue] | Sequence[KnobSetting]) -> None:
        _, native = self._built()
        given = settings if isinstance(settings, Mapping) else {of.knob_id: of.value for of in settings}
        known = {knob.knob_id: knob for knob in self._knobs(engine)}
        taken = []
        for id, value in given.items():
            if id not in known:
                raise Refused(
                    f"engine {self._engine_name(engine)} ({engine}) has no knob {id}, expected one of {', '.join(known) or 'none'}"
                )
            setting = KnobSetting(id, value)
            error = known[id].validate(setting)
            if error.is_bad():
                raise Refused(error.get_message(), error.get_code())
            if id != BENCHMARKING:
                taken.append(setting)
        made = _settings(taken)
        specs = self._specs or []
        if all((of.engine, of.settings) != (engine, made) for of in specs):
            specs.append(Entry(engine, made, native.estimate(engine, list(made))))
        self._specs = specs

    @as_error
    def add_engine(self, engine_id: int, knob_settings: Sequence[KnobSetting] = ()) -> None:
        """Adds an engine with knobs as a candidate."""
        self._check_specs(1)
        self._spec(engine_id, knob_settings)

    @as_error
    def add_engines(self, engine_ids: Sequence[int]) -> None:
        """Adds engines with their default knobs as candidates."""
        self._check_specs(len(engine_ids))
        for engine in engine_ids:
            self._spec(engine, ())

    @as_error
    def add_engine_configs(self, configs: Sequence[EngineConfigInfo]) -> None:
        """Adds engines that ``get_engine_configs`` returned as candidates."""
        self._check_specs(len(configs))
        for config in configs:
            self._spec(config.engine_id, ())

    @as_error
    def add_engine_variants(self, variants: Sequence[EngineVariant]) -> None:
        """Adds engines, each with knobs, as candidates."""
        self._check_specs(len(variants))
        for variant in variants:
            self._spec(variant.engine_id, variant.knob_settings)

    @as_error
    def add_engine_sweep(self, specs: Sequence[EngineSweepSpec]) -> None:
        """Adds all combinations of values of engines' knobs as candidates."""
        self._check_specs(len(specs))
        count = 0
        for spec in specs:
            axes = [[(axis.knob_id, value) for value in axis.values] for axis in spec.axes]
            for combination in itertools.product(*axes):
                count += 1
                if count > _MOST:
                    raise Refused(f"the sweep has more than {_MOST} combinations")
                self._spec(spec.engine_id, {**spec.fixed_settings, **dict(combination)})

    @as_error
    def add_all_engines(self, modes: Sequence[HeuristicMode] = (HeuristicMode.FALLBACK,)) -> None:
        """Adds every engine that can compute the graph as a candidate."""
        self._check_specs(1)
        for engine in self._offered():
            self._spec(engine, ())

    @raising("Failed to get estimated max workspace size")
    def get_estimated_max_workspace_size(self) -> int:
        """The largest workspace in bytes that a candidate expects."""
        self._built()
        if self._specs is None:
            raise Refused("there are no plan specs, expected one of add_engine...() before")
        return max(spec.estimate for spec in self._specs)

    # Times.

    def autotune(
        self,
        handle: Any,
        variant_pack: Mapping[Any, Any],
        workspace: Any = 0,
        workspace_size: int | None = None,
        config: AutotuneConfig | None = None,
        storage_config: AutotuneStorageConfig | None = None,
    ) -> list[AutotuneResult]:
        """Times the candidates, or the plans of ``build_plans(BuildPlanPolicy.ALL)``, and selects the fastest for executions.

        Candidates whose plan needs more than ``workspace_size`` bytes of workspace are left out. Outputs are overwritten. Raises
        RuntimeError if none could be timed.
        """
        config, storage = config or AutotuneConfig(), storage_config or AutotuneStorageConfig()
        try:
            return self._tune(handle, variant_pack, workspace_size, config, storage, is_sweep=False)
        except hipdnn.Error as error:
            raise RuntimeError(f"Autotune failed: {error}") from None

    def autotune_exhaustive_sweep(
        self,
        handle: Any,
        variant_pack: Mapping[Any, Any],
        workspace: Any,
        workspace_size: int,
        config: AutotuneConfig | None = None,
        storage_config: AutotuneStorageConfig | None = None,
    ) -> tuple[list[AutotuneResult], AutotuneCacheWriteOutcome]:
        """Times the candidates, or else every engine that can compute the graph, each after it tuned itself if it can, and selects
        the one with the least ``robust_time_ms``. If these are all engines with default knobs, their order is stored for graphs that
        compute the same, in other programs, too.

        Returns the results, and what became of the order. Raises RuntimeError if none could be timed.
        """
        settings = AutotuneConfig()
        vars(settings).update(vars(config or settings))
        settings.mode = TuneMode.EXHAUSTIVE
        settings.priming_failure_policy = PrimingFailurePolicy.BENCHMARK_UNPRIMED
        try:
            storage = storage_config or AutotuneStorageConfig()
            results = self._tune(handle, variant_pack, int(workspace_size), settings, storage, is_sweep=True)
            return results, self._keep(results, bool(settings.engine_id_filter))
        except hipdnn.Error as error:
            raise RuntimeError(f"autotune_exhaustive_sweep failed: {error}") from None

    def _keep(self, results: Sequence[AutotuneResult], is_filtered: bool) -> AutotuneCacheWriteOutcome:
        """Stores the order of engines, if all of them were timed with their default knobs."""
        timed = [result for result in results if result.succeeded]
        every, engines = set(self._offered()), [result.engine_id for result in timed]
        is_part = is_filtered or any(result.knob_settings for result in results)
        if is_part or set(engines) != every:
            return AutotuneCacheWriteOutcome.NOT_ATTEMPTED_PARTIAL_SWEEP
        times = [(result.engine_id, result.robust_time_ms) for result in timed]
        try:
            return AutotuneCacheWriteOutcome[self._built()[1].write_times(times)]
        except hipdnn.Error as error:
            # The results are worth more than their storage.
            warnings.warn(f"the order of engines was not stored: {error}", RuntimeWarning, stacklevel=3)
            return AutotuneCacheWriteOutcome.DECLINED_DISABLED

    def _tune(
        self, handle: Any, variant_pack: Mapping[Any, Any], most: int | None, config: AutotuneConfig,
        storage: AutotuneStorageConfig, is_sweep: bool,
    ) -> list[AutotuneResult]:  # fmt: skip
        if config._wrong():
            raise Refused(config._wrong())
        if most is not None and most < 0:
            raise Refused(f"workspace_size: is {most}, expected at least 0")
        if not address_of(handle):
            raise Refused("handle must not be null", ErrorCode.HANDLE_ERROR)
        if not variant_pack:
            raise Refused("variant_pack: has no memory, expected that of each tensor", ErrorCode.INVALID_VARIANT_PACK)
        inner, _ = self._built()
        arrays = self._arrays(variant_pack)
        missing = [uid for uid in inner._spec_of if uid not in arrays]
        if missing:
            raise Refused(
                f"variant_pack: missing required non-virtual tensor UIDs: {missing}", ErrorCode.INVALID_VARIANT_PACK
            )
        before = self._entries, self._specs, self._active
        try:
            results = self._timed(arrays, stream_of(handle), most, config, is_sweep)
        except BaseException:
            self._entries, self._specs, self._active = before
            raise
        self._active = results[0]["compiled_plan_index"]
        if os.fspath(storage.file_path):
            try:
                self._store(storage, results[0])
            except OSError as error:
                raise Refused(f"file_path: cannot be written: {error}") from None
        return [_result(told) for told in results]

    def _timed(
        self, arrays: Mapping[int, Any], stream: int, most: int | None, config: AutotuneConfig, is_sweep: bool
    ) -> list[dict[str, Any]]:
        """What there is to tell about each candidate, the best first; raises an error if none could be timed."""
        if is_sweep and self._specs is None:
            for engine in self._offered():
                self._spec(engine, ())
        if self._specs is not None and most is None and not self._entries:
            raise Refused("workspace_size: is None, expected a number of bytes for plan specs")
        if self._specs is None and (not self._entries or config.mode is TuneMode.EXHAUSTIVE):
            raise Refused(
                "there are no plan specs or compiled plans, expected add_engine...() or build_plans(BuildPlanPolicy.ALL)"
            )
        if self._specs is not None:
            self._entries, self._active = list(self._specs), -1
        results, counts = [], {"deselected": 0, "excluded by engineIdFilter": 0, "failed": 0}
        for at, entry in enumerate(self._entries):
            if config.engine_id_filter and entry.engine not in config.engine_id_filter:
                counts["excluded by engineIdFilter"] += 1
                continue
            told = self._time(at, entry, arrays, stream, most, config)
            results.append(told)
            counts["deselected"] += int(self._bar(entry))
            counts["failed"] += int(not told["succeeded"] and not self._bar(entry))
        by = "robust_time_ms" if is_sweep else "min_time_ms"
        results.sort(key=lambda told: told[by] if told["succeeded"] else float("inf"))
        for rank, told in enumerate(results):
            told["rank"] = rank if told["succeeded"] else -1
        if not results or not results[0]["succeeded"]:
            words = ", ".join(f"{count} {what}" for what, count in counts.items())
            reasons = "; ".join(dict.fromkeys(told["error_message"] for told in results))
            raise Refused(
                f"No execution plans were benchmarkable of {len(self._entries)}: {words}{': ' * bool(reasons)}{reasons}"
            )
        return results

    def _time(
        self, at: int, entry: Entry, arrays: Mapping[int, Any], stream: int, most: int | None, config: AutotuneConfig
    ) -> dict[str, Any]:
        """What there is to tell about a candidate."""
        can_prime = any(knob.knob_id == BENCHMARKING for knob in self._knobs(entry.engine))
        told: dict[str, Any] = {
            "engine_id": entry.engine, "engine_name": self._engine_name(entry.engine), "knob_settings": entry.list(),
            "estimated_workspace_size": entry.estimate, "mode_used": config.mode, "strategy_used": config.strategy,
            "supports_exhaustive": can_prime, "succeeded": False, "error_message": "",
        }  # fmt: skip
        if self._bar(entry):
            told.update(error_message="was deselected", excluded_by_caller=True)
            return told
        if config.mode is TuneMode.EXHAUSTIVE:
            told["exhaustive_not_run_reason"] = (
                self._prime(entry, arrays, stream) if can_prime else f"the engine has no knob {BENCHMARKING}"
            )
            told["ran_exhaustive"] = not told["exhaustive_not_run_reason"]
            strict = config.priming_failure_policy is PrimingFailurePolicy.ABORT_ON_PRIMING_FAILURE
            if can_prime and strict and not told["ran_exhaustive"]:
                reason = told["exhaustive_not_run_reason"]
                raise Refused(f"priming of {told['engine_name']} failed: {reason}", ErrorCode.HIPDNN_BACKEND_ERROR)
        if not self._compile(entry):
            told["error_message"] = entry.reason
            return told
        plan = entry.plan
        assert plan is not None
        told["workspace_size"] = plan.workspace_size
        needs = f"needs {plan.workspace_size} bytes of workspace"
        if self._bar(entry):
            told.update(error_message=f"was deselected: {needs}", excluded_by_caller=True)
            return told
        if most is not None and plan.workspace_size > most:
            told.update(error_message=f"{needs}, expected at most {most}", excluded_by_caller=True)
            return told
        told["benchmarked"] = True
        try:
            times, told["converged"] = self._times(lambda: self._run(entry, plan, arrays, stream), config)
        except hipdnn.Error as error:
            told["error_message"] = str(error)
            return told
        told.update(
            succeeded=True, compiled_plan_index=at, iterations_run=len(times), min_time_ms=min(times),
            avg_time_ms=max(statistics.fmean(times), min(times)), stddev_ms=statistics.pstdev(times),
            robust_time_ms=max(statistics.fmean(sorted(times)[: -(-3 * len(times) // 4)]), min(times)),
        )  # fmt: skip
        return told

    def _prime(self, entry: Entry, arrays: Mapping[int, Any], stream: int) -> str:
        """Has an engine tune itself; returns the reason if it fails."""
        own = Entry(entry.engine, tuple(sorted((*entry.settings, (BENCHMARKING, 1)))))
        if not self._compile(own) or own.plan is None:
            return own.reason
        try:
            self._run(own, own.plan, arrays, stream)
        except hipdnn.Error as error:
            return str(error)
        return ""

    def _times(self, once: Any, config: AutotuneConfig) -> tuple[list[float], bool]:
        """The milliseconds of executions, and whether the last ones agree."""
        device = self._built()[0]._device
        until_stable = config.strategy is AutotuneStrategy.RUN_UNTIL_STABLE
        for _ in range(config.warmup_iterations):
            once()
        times: list[float] = []
        while len(times) < (config.max_iterations if until_stable else config.timed_iterations):
            _native.synchronize(device)
            began = time.perf_counter_ns()
            once()
            _native.synchronize(device)
            times.append(max(time.perf_counter_ns() - began, 1) / 1e6)
            last = times[-config.window_size :]
            if until_stable and len(last) == config.window_size:
                if statistics.pstdev(last) <= config.stability_threshold * statistics.fmean(last):
                    return times, True
        return times, not until_stable

    def _store(self, storage: AutotuneStorageConfig, winner: Mapping[str, Any]) -> None:
        """Writes a rule that selects the winner's engine for this operation and these shapes."""
        operation, shapes = self._core()
        rule = {
            "op": _IN_RULES.get(operation, operation),
            "tensors": [{"dim": dim, "stride": stride} for dim, stride in shapes],
            "engine_name": winner["engine_name"],
            "autotune_metadata": {key: winner[key] for key in ("rank", "min_time_ms", "avg_time_ms", "iterations_run")},
        }
        path = os.fspath(storage.file_path)
        rules: list[Any] = []
        if not storage.delete_all_existing_file_content and os.path.exists(path):
            try:
                with open(path, encoding="utf-8") as file:
                    rules = json.load(file)["engine_overrides"]
            except (ValueError, KeyError, TypeError):
                raise Refused(f"file_path: {path} has no engine_overrides, expected such a file or none") from None
        rules = [of for of in rules if (of.get("op"), of.get("tensors")) != (rule["op"], rule["tensors"])]
        lines = ",\n".join(json.dumps(of) for of in [*rules, rule])
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'{{"version": 1, "engine_overrides": [\n{lines}\n]}}\n')


def _result(told: Mapping[str, Any]) -> AutotuneResult:
    result = AutotuneResult()
    vars(result).update(told)
    return result
