"""What ``Graph.autotune`` is told and returns."""

from __future__ import annotations

import os
from typing import Any

from .knobs import Knob, KnobSetting, KnobValue
from .types import AutotuneStrategy, PrimingFailurePolicy, TimingQuality, TuneMode

__all__ = [
    "AutotuneConfig",
    "AutotuneResult",
    "AutotuneStorageConfig",
    "EngineConfigInfo",
    "EngineSweepSpec",
    "EngineVariant",
    "ExecutionTiming",
    "KnobSweepAxis",
]


class _Fields:
    """Fields with initial values; others cannot be set."""

    def __init__(self) -> None:
        for kind in reversed(type(self).__mro__):
            for name in getattr(kind, "__annotations__", {}):
                value = getattr(kind, name)
                vars(self)[name] = value.copy() if isinstance(value, (list, dict)) else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        vars(self)[name] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class _Told(_Fields):
    """Fields that only the library sets."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set")


class EngineConfigInfo(_Fields):
    """An engine that can compute a graph."""

    engine_id: int = -1
    engine_name: str = ""
    knobs: list[Knob] = []
    supports_exhaustive: bool = False
    estimated_workspace_size: int = 0


class EngineVariant(_Fields):
    """An engine with knobs set."""

    engine_id: int = -1
    knob_settings: dict[str, KnobValue] = {}


class KnobSweepAxis(_Fields):
    """Values of a knob to try."""

    knob_id: str = ""
    values: list[KnobValue] = []


class EngineSweepSpec(_Fields):
    """All combinations of values of an engine's knobs."""

    engine_id: int = -1
    axes: list[KnobSweepAxis] = []
    fixed_settings: dict[str, KnobValue] = {}


class AutotuneConfig(_Fields):
    """How candidates are timed: each ``timed_iterations`` times, or until the last ``window_size`` times differ by less than
    ``stability_threshold``, at most ``max_iterations`` times."""

    mode: TuneMode = TuneMode.STANDARD
    strategy: AutotuneStrategy = AutotuneStrategy.RUN_UNTIL_STABLE
    warmup_iterations: int = 1
    timed_iterations: int = 10
    max_iterations: int = 100
    window_size: int = 3
    stability_threshold: float = 0.05
    engine_id_filter: list[int] = []
    priming_failure_policy: PrimingFailurePolicy = PrimingFailurePolicy.ABORT_ON_PRIMING_FAILURE

    def _wrong(self) -> str:
        """What is wrong with it; empty if nothing is."""
        least = {"warmup_iterations": 0}
        if self.strategy is AutotuneStrategy.FIXED_AVERAGE:
            least["timed_iterations"] = 1
        else:
            least.update(max_iterations=1, window_size=2)
        for name, at_least in least.items():
            if getattr(self, name) < at_least:
                head, *words = name.split("_")
                written = head + "".join(word.capitalize() for word in words)
                return f"{written} is {getattr(self, name)}, expected at least {at_least}"
        if self.strategy is AutotuneStrategy.RUN_UNTIL_STABLE and not 0 < self.stability_threshold < 1:
            return f"stabilityThreshold is {self.stability_threshold}, expected a number between 0 and 1"
        return ""


class AutotuneStorageConfig(_Fields):
    """A file of rules for ``HIPDNN_HEUR_CONFIG_PATH``, to which ``autotune`` writes the winner."""

    file_path: str | os.PathLike[str] = ""
    delete_all_existing_file_content: bool = False


class AutotuneResult(_Told):
    """A candidate and its times in milliseconds."""

    engine_id: int = -1
    engine_name: str = ""
    knob_settings: list[KnobSetting] = []
    min_time_ms: float = 0.0
    avg_time_ms: float = 0.0
    stddev_ms: float = 0.0
    #: The mean without the slowest quarter.
    robust_time_ms: float = 0.0
    iterations_run: int = 0
    converged: bool = False
    rank: int = -1
    succeeded: bool = False
    benchmarked: bool = False
    #: Whether it was deselected, or needs more workspace than was given.
    excluded_by_caller: bool = False
    error_message: str = ""
    workspace_size: int = 0
    estimated_workspace_size: int = 0
    compiled_plan_index: int = -1
    mode_used: TuneMode = TuneMode.STANDARD
    supports_exhaustive: bool = False
    ran_exhaustive: bool = False
    exhaustive_not_run_reason: str = ""
    strategy_used: AutotuneStrategy = AutotuneStrategy.RUN_UNTIL_STABLE


class ExecutionTiming(_Told):
    """The time of one execution in milliseconds, and what it covers."""

    elapsed_ms: float | None = None
    quality: TimingQuality = TimingQuality.INVALID
    timed_out: bool = False
