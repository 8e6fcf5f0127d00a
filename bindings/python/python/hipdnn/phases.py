"""The steps of ``build``, one by one, as in cuDNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Error, GraphError, UnsupportedError
from .execution import Execution
from .types import behavior_note, build_plan_policy, heur_mode, numerical_note


class Phases(Execution):
    """The steps between a graph and its plan: ``validate``, ``build_operation_graph``, ``create_execution_plans``, ``check_support``,
    ``build_plans``. Changing the graph restarts them."""

    #: The ids of the candidate engines, best first; None until asked for.
    _candidates: list[int] | None = None

    def _change(self) -> None:
        self._candidates = None
        super()._change()

    def build_operation_graph(self) -> None:
        """Passes the graph to the library, which checks it."""
        text = self.to_json()
        if self._has_work():
            self._native_graph(text)

    def create_execution_plans(self, heur_modes: Sequence[heur_mode] = (heur_mode.A,)) -> None:
        """Asks which engines can run the graph; raises NoEngineError with the reason of each if none can."""
        if not heur_modes or any(not isinstance(mode, heur_mode) for mode in heur_modes):
            raise GraphError(
                "create_execution_plans", "heur_modes", f"is {heur_modes!r}, expected members of heur_mode"
            )
        graph = self._native_graph(self.to_json())
        self._candidates = self._noted(graph, self._offered(graph, self._device))

    def check_support(self) -> None:
        """Raises an error if no candidate is left."""
        if not self._created():
            raise GraphError("check_support", "engines", "all candidates were deselected")

    def build_plans(self, policy: build_plan_policy = build_plan_policy.HEURISTICS_CHOICE) -> None:
        """Plans the first candidate that can be planned, or all of them; executions use the first plan."""
        first, error = None, None
        for index in range(len(self._created())):
            try:
                self.build_plan_at_index(index)
            except Error as reason:
                error = reason
                continue
            first = index if first is None else first
            if policy is not build_plan_policy.ALL:
                break
        if first is None:
            raise error or GraphError("build_plans", "engines", "all candidates were deselected")
        self.build_plan_at_index(first)

    def build_plan_at_index(self, index: int) -> None:
        """Plans a candidate; executions use this plan."""
        choice = self._engine_at(index), ()
        vars(self).update(_plan=self._make_plan(choice=choice), _choice=choice)

    def get_execution_plan_count(self) -> int:
        """The number of candidates."""
        return len(self._created())

    def get_plan_name_at_index(self, index: int) -> str:
        """The name of a candidate's engine."""
        return self._engine_name(self._engine_at(index))

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        """The workspace size in bytes of a candidate's plan."""
        return self._make_plan(choice=(self._engine_at(index), ())).workspace_size

    def execute_plan_at_index(
        self,
        tensors: Mapping[Any, Any],
        workspace: Any = None,
        index: int = 0,
        handle: Any = None,
        override_uids: Sequence[int] | None = None,
        override_shapes: Sequence[Sequence[int]] | None = None,
        override_strides: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Computes the graph with a candidate's plan, as ``execute`` does with the chosen one."""
        if override_uids or self._has_views:
            self.build_plan_at_index(index)
            self.execute(tensors, workspace, handle, override_uids, override_shapes, override_strides)
            return
        self._execute_by((self._engine_at(index), ()), tensors, handle)

    def deselect_engines(self, names: Sequence[str]) -> None:
        """Removes candidates by engine name."""
        self._candidates = [id for id in self._created() if self._engine_name(id) not in names]

    def deselect_workspace_greater_than(self, size: int) -> None:
        """Removes candidates whose plan needs a larger workspace in bytes."""
        needed = [self.get_workspace_size_plan_at_index(index) for index in range(len(self._created()))]
        self._candidates = [id for id, bytes in zip(self._created(), needed) if bytes <= size]

    def create_execution_plan(self, engine_id: int, knobs: Mapping[str, Any] | None = None) -> None:
        """Plans one engine with knobs by name; executions use this plan."""
        self.build(engine=engine_id, knobs=knobs)
        self._candidates = [self._engine_id(engine_id)]

    def get_engine_count(self) -> int:
        """The number of engines that can run the graph."""
        return len(self._offered(self._native_graph(self.to_json()), self._device))

    def get_knobs_for_engine(self, engine: int) -> dict[str, dict[str, str]]:
        """The tunable knobs of an engine, as returned by ``knobs``: engines name their own knobs."""
        return self.knobs(engine)

    def get_behavior_notes(self) -> list[behavior_note]:
        """The notes of the plan's engine."""
        return self._notes_of(self.plan.engine_id) if self._has_work() else []

    def get_behavior_notes_for_plan_at_index(self, index: int) -> list[behavior_note]:
        """The notes of a candidate's engine."""
        return self._notes_of(self._engine_at(index))

    def select_behavior_notes(self, notes: Sequence[behavior_note]) -> None:
        """Keeps only candidates whose engines have all of these notes."""
        self._candidates = [id for id in self._created() if set(notes) <= set(self._notes_of(id))]

    def deselect_behavior_notes(self, notes: Sequence[behavior_note]) -> None:
        """Removes candidates whose engines have one of these notes."""
        self._candidates = [id for id in self._created() if not set(notes) & set(self._notes_of(id))]

    def select_numeric_notes(self, notes: Sequence[numerical_note | str]) -> None:
        """Keeps only candidates that may compute so: engines with a knob for it have it set. Notes of this library that cuDNN
        lacks are given by name."""
        self._want(notes, ())

    def deselect_numeric_notes(self, notes: Sequence[numerical_note | str]) -> None:
        """Removes candidates that may compute so, unless a knob forbids it, which is then set."""
        self._want((), notes)

    def _want(self, selected: Sequence[numerical_note | str], deselected: Sequence[numerical_note | str]) -> None:
        """Adds numerical notes to those that are wanted and not wanted. Raises NoEngineError, and
        leaves them as they were, if no candidate would be left."""
        selected, deselected = (
            tuple(note.name if isinstance(note, numerical_note) else str(note) for note in notes)
            for notes in (selected, deselected)
        )
        before = self._notes
        self._notes = before[0] + selected, before[1] + deselected
        if self._candidates is not None:
            graph = self._native_graph(self.to_json(), self._device)
            try:
                self._candidates = self._noted(graph, self._candidates)
            except Exception:
                self._notes = before
                raise
        self._plan = None

    def populate_cuda_graph(self, handle: Any, tensors: Mapping[Any, Any], workspace: Any, cuda_graph: Any) -> None:
        """Raises cudnnGraphNotSupportedError: capture a stream into a CUDA graph instead, which supports executions."""
        raise UnsupportedError(
            "populate_cuda_graph", "cuda_graph", "expected a stream that is captured, in which execute works"
        )

    def update_cuda_graph(self, handle: Any, tensors: Mapping[Any, Any], workspace: Any, cuda_graph: Any) -> None:
        """Raises cudnnGraphNotSupportedError: capture a stream into a CUDA graph instead, which supports executions."""
        raise UnsupportedError(
            "update_cuda_graph", "cuda_graph", "expected a stream that is captured, in which execute works"
        )

    def _is_candidate(self, engine: int) -> bool:
        return engine in (self._candidates or ())

    def _notes_of(self, engine: int) -> list[behavior_note]:
        """cuDNN's notes among those that an engine's plugin tells of it."""
        told = self._native_graph(self.to_json()).notes(engine)
        notes = [behavior_note.RUNTIME_COMPILATION] if "runtime compilation" in told else []
        if self._engine_name(engine) == "CUBLASLT_ENGINE":
            notes.append(behavior_note.CUBLASLT_DEPENDENCY)
        return notes

    def _created(self) -> list[int]:
        if self._candidates is None:
            raise GraphError(self.name or "graph", "engines", "expected create_execution_plans before")
        return self._candidates

    def _engine_at(self, index: int) -> int:
        candidates = self._created()
        if not isinstance(index, int) or not 0 <= index < len(candidates):
            known = ", ".join(f"{at} ({self._engine_name(id)})" for at, id in enumerate(candidates))
            raise GraphError(self.name or "graph", "index", f"is {index!r}, expected one of {known or 'no candidates'}")
        return candidates[index]
