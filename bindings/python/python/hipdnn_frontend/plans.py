"""Plans of a graph: which engines can compute it, and with which knobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hipdnn
from hipdnn import _native

from .error import ErrorCode, Refused, as_error, raising
from .handle import address_of, id_of_name
from .knobs import Knob, KnobSetting, KnobValue
from .lower import Lowered
from .tuning import EngineConfigInfo
from .types import BehaviorNote, BuildPlanPolicy, HeuristicMode

__all__ = ["Plans"]

#: The knob that makes engines tune themselves.
BENCHMARKING = "global.benchmarking"
#: Knobs and their values, in order.
Settings = tuple[tuple[str, KnobValue], ...]
_FALLBACK = (HeuristicMode.FALLBACK,)


class Entry:
    """An engine with knobs, and the plan that was made of it."""

    def __init__(self, engine: int, settings: Settings, estimate: int = 0) -> None:
        self.engine, self.settings, self.estimate = engine, settings, estimate
        self.plan: _native.Plan | None = None
        self.reason = "was not compiled, call build_plans() before"

    def list(self) -> list[KnobSetting]:
        """Its settings for the program."""
        return [KnobSetting(id, value) for id, value in self.settings]


class Plans:
    """A graph that engines are asked about."""

    _name: str
    _preferred: int | None

    def __init__(self) -> None:
        #: The graph of the package, and the library's, once built.
        self._inner: Lowered | None = None
        self._native: _native.OperationGraph | None = None
        self._entries: list[Entry] = []
        #: Candidates that the program added; None until it adds one.
        self._specs: list[Entry] | None = None
        self._active = -1
        self._most_workspace: int | None = None
        self._barred: set[Any] = set()

    def _lowered(self) -> Lowered:
        raise NotImplementedError

    def _reset(self) -> None:
        self._entries, self._active = [], -1

    @as_error
    def build_operation_graph(self, handle: Any) -> None:
        """Passes the graph to the library, which checks it."""
        if not address_of(handle):
            raise Refused("build_operation_graph(): handle must not be null", ErrorCode.HANDLE_ERROR)
        self._inner = self._lowered()
        self._native = self._inner._native_graph(self._inner.to_json())
        self._reset()

    def _built(self) -> tuple[Lowered, _native.OperationGraph]:
        if self._inner is None or self._native is None:
            raise Refused("the graph is not built, expected build_operation_graph() before")
        return self._inner, self._native

    def _offered(self) -> list[int]:
        """The engines that can compute the graph here, best first."""
        inner, native = self._built()
        offered = inner._offered(native, inner._device)
        if self._preferred in offered:
            offered.sort(key=lambda id: id != self._preferred)
        return offered

    def _engine_name(self, engine: int) -> str:
        return Lowered._engine_name(engine)

    @raising("Failed to get ranked engine ids")
    def get_ranked_engine_ids(self, modes: Sequence[HeuristicMode] = _FALLBACK) -> list[int]:
        """The engines that can compute the graph, best first."""
        return self._offered()

    def _knobs(self, engine: int) -> list[Knob]:
        _, native = self._built()
        if engine not in self._offered():
            names = ", ".join(f"{self._engine_name(id)} ({id})" for id in self._offered())
            raise Refused(f"engine_id: is {engine}, expected one of {names}")
        return [Knob._read(told) for told in native.tunables(engine)]

    @raising("Failed to get knobs for engine")
    def get_knobs_for_engine(self, engine_id: int) -> list[Knob]:
        """The knobs of an engine."""
        return self._knobs(engine_id)

    @raising("Failed to get knob lookup for engine")
    def get_knob_lookup_for_engine(self, engine_id: int) -> dict[str, Knob]:
        """The knobs of an engine by name."""
        return {knob.knob_id: knob for knob in self._knobs(engine_id)}

    @raising("Failed to get behavior notes for engine")
    def get_behavior_notes_for_engine(self, engine_id: int) -> list[BehaviorNote]:
        """The notes of an engine, of those that have a name."""
        _, native = self._built()
        if engine_id not in self._offered():
            raise Refused(f"engine_id: is {engine_id}, expected an engine that can compute the graph")
        names = {note.name: note for note in BehaviorNote}
        told = (note.upper().replace(" ", "_") for note in native.notes(engine_id))
        return [names[note] for note in told if note in names]

    @raising("Failed to get engine configs")
    def get_engine_configs(
        self, modes: Sequence[HeuristicMode] = _FALLBACK, handle: Any = None
    ) -> list[EngineConfigInfo]:
        """The engines that can compute the graph, with their knobs and the workspace that they expect.

        ``handle`` exists for porting, here and below: every loaded engine's name is known without it.
        """
        _, native = self._built()
        found = []
        for engine in self._offered():
            made = EngineConfigInfo()
            made.engine_id, made.engine_name = engine, self._engine_name(engine)
            made.knobs = self._knobs(engine)
            made.supports_exhaustive = any(knob.knob_id == BENCHMARKING for knob in made.knobs)
            made.estimated_workspace_size = native.estimate(engine, [])
            found.append(made)
        return found

    # Plans.

    @as_error
    def create_execution_plans(self, modes: Sequence[HeuristicMode] = _FALLBACK) -> None:
        """Lists a plan for each engine that can compute the graph, best first."""
        entries = [Entry(engine, ()) for engine in self._offered()]
        self._reset()
        self._entries = entries

    @as_error
    def create_execution_plan_ext(self, engine_id: int, knob_settings: Sequence[KnobSetting] = ()) -> None:
        """Lists the plan of one engine alone. Knobs that it lacks are skipped; a value that a knob does not take is an error."""
        known = {knob.knob_id: knob for knob in self._knobs(engine_id)}
        taken = [setting for setting in knob_settings if setting.knob_id in known]
        for setting in taken:
            _expect(known[setting.knob_id].validate(setting))
        self._reset()
        self._entries = [Entry(engine_id, _settings(taken))]

    @as_error
    def check_support(self) -> None:
        """Whether there is a plan that may be used."""
        if not self._entries:
            raise Refused("there are no plans, expected create_execution_plans() before")
        if all(self._bar(entry) for entry in self._entries):
            raise Refused("all plans were deselected", ErrorCode.GRAPH_NOT_SUPPORTED)

    @as_error
    def build_plans(self, policy: BuildPlanPolicy = BuildPlanPolicy.HEURISTICS_CHOICE) -> None:
        """Compiles the first plan that can be compiled, or all of them; executions use the first. Candidates are plans, too."""
        self._built()
        self._active = -1
        if self._specs is not None:
            self._entries = list(self._specs)
        for at, entry in enumerate(self._entries):
            if self._bar(entry) or not self._compile(entry) or self._bar(entry):
                continue
            self._active = at if self._active < 0 else self._active
            if policy is not BuildPlanPolicy.ALL:
                return
        if self._active < 0:
            reasons = (
                "; ".join(f"{self._engine_name(of.engine)}: {of.reason}" for of in self._entries) or "there are none"
            )
            raise Refused(f"no plan could be compiled: {reasons}", ErrorCode.GRAPH_EXECUTION_PLAN_CREATION_FAILED)

    def _saved(self, text: str) -> bytes | None:
        """The graph and the plan that executions use, if there is one of this graph that can be saved."""
        entry = self._entries[self._active] if self._active >= 0 else None
        if entry is None or entry.plan is None or self._inner is None or self._native is None:
            return None
        if hipdnn.library().text_of(self._inner.to_json()) != text:
            return None
        can_save = "supports execution plan serialization" in self._native.notes(entry.engine)
        return bytes(self._native.save(entry.plan)) if can_save else None

    def _take(self, saved: bytes) -> None:
        """Takes the plan that was saved with the graph."""
        inner, _ = self._built()
        plan = hipdnn.library().load(saved, inner._specs(), inner._device)
        entry = Entry(plan.engine_id, ())
        entry.plan = plan
        self._entries, self._active = [entry], 0

    def _compile(self, entry: Entry) -> bool:
        """Makes an entry's plan; notes the reason if that fails."""
        inner, _ = self._built()
        if entry.plan is None:
            try:
                entry.plan = inner._make_plan(choice=(entry.engine, entry.settings))
            except hipdnn.Error as error:
                entry.reason = str(error)
        return entry.plan is not None

    def _bar(self, entry: Entry) -> bool:
        """Whether an entry was deselected: by its engine, or by its workspace once that is known."""
        is_large = entry.plan is not None and self._most_workspace is not None
        if is_large and entry.plan.workspace_size > self._most_workspace:  # type: ignore[union-attr, operator]
            return True
        return entry.engine in self._barred or (bool(self._barred) and self._engine_name(entry.engine) in self._barred)

    def deselect_workspace_greater_than(self, workspace: int) -> Any:
        """Leaves out plans with a larger workspace, in bytes."""
        self._most_workspace = int(workspace)
        return self

    def deselect_engines(
        self, engines: Sequence[str | int] | str | int = (), *, engine_names: Sequence[str] | str = (),
        engine_ids: Sequence[int] | int = (),
    ) -> Any:  # fmt: skip
        """Leaves out plans of some engines, or of one, given by name or by id."""
        for of in (engines, engine_names, engine_ids):
            # The letters of a name are no names.
            self._barred.update((of,) if isinstance(of, (str, int)) else of)
        return self

    def set_preferred_engine_id_ext(self, engineId: int | str | None = None) -> Any:
        """Puts an engine, given by id or name, before the others if it can compute the graph."""
        self._preferred = id_of_name(engineId) if isinstance(engineId, str) else engineId
        return self

    def get_preferred_engine_id_ext(self) -> int | None:
        """The id of the engine that was put first; None if none was."""
        return self._preferred

    def _entry(self, index: int, what: str) -> Entry:
        if not 0 <= index < len(self._entries):
            raise Refused(f"{what}: plan index {index} is out of bounds, expected one of {len(self._entries)} plans")
        return self._entries[index]

    def _ready(self, index: int, what: str) -> tuple[Entry, _native.Plan]:
        entry = self._entry(index, what)
        if self._bar(entry):
            raise Refused(f"{what}: plan {index} of {self._engine_name(entry.engine)} was deselected")
        if entry.plan is None:
            raise Refused(f"{what}: plan {index} of {self._engine_name(entry.engine)}: {entry.reason}")
        return entry, entry.plan

    def get_execution_plan_count(self) -> int:
        """The number of plans."""
        return len(self._entries)

    @as_error
    def build_plan_at_index(self, plan_index: int) -> None:
        """Compiles a plan, which executions then use."""
        entry = self._entry(plan_index, "build_plan_at_index()")
        self._compile(entry)
        self._ready(plan_index, "build_plan_at_index()")
        self._active = plan_index

    @raising("Failed to get plan name")
    def get_plan_name(self, handle: Any = None) -> str:
        """The name of the engine that executions use."""
        return self._engine_name(self._entry(self._active, "get_plan_name()").engine)

    @raising("Failed to get plan name")
    def get_plan_name_at_index(self, plan_index: int, handle: Any = None) -> str:
        """The name of a plan's engine."""
        return self._engine_name(self._entry(plan_index, "get_plan_name_at_index()").engine)

    @raising("Failed to get execution plan engine id")
    def get_execution_plan_engine_id(self) -> int:
        """The id of the engine that executions use."""
        return self._entry(self._active, "get_execution_plan_engine_id()").engine

    @raising("Failed to get workspace size")
    def get_workspace_size(self) -> int:
        """The workspace in bytes of the plan that executions use. Plans own a workspace, so that the program's is not needed."""
        return self._ready(self._active, "get_workspace_size()")[1].workspace_size

    @raising("Failed to get workspace size for plan")
    def get_workspace_size_plan_at_index(self, plan_index: int) -> int:
        """The workspace in bytes of a plan; 0 if it was not compiled."""
        plan = self._entry(plan_index, "get_workspace_size_plan_at_index()").plan
        return 0 if plan is None else plan.workspace_size

    def get_autotune_workspace_size(self) -> int:
        """The largest workspace in bytes of the compiled plans."""
        plans = (entry.plan for entry in self._entries if entry.plan is not None and not self._bar(entry))
        return max((plan.workspace_size for plan in plans), default=0)


def _settings(of: Sequence[KnobSetting]) -> Settings:
    return tuple(sorted((setting.knob_id, setting.value) for setting in of))


def _expect(error: Any) -> None:
    if error.is_bad():
        raise Refused(error.get_message(), error.get_code())
