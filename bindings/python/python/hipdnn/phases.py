"""What ``build`` does, step by step, as programs for cuDNN do it."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .errors import Error, GraphError
from .execution import Execution
from .types import build_plan_policy, heur_mode


class Phases(Execution):
    """The steps between a graph and its plan: ``validate``, ``build_operation_graph``, ``create_execution_plans``, ``check_support``,
    ``build_plans``. A change of the graph begins them anew."""

    #: The ids of the engines that a plan may be made with, best first; none before they were asked for.
    _candidates: list[int] | None = None

    def _change(self) -> None:
        self._candidates = None
        super()._change()

    def build_operation_graph(self) -> None:
        """Hands the graph to the library, which checks it."""
        text = self.to_json()
        if self._has_work():
            self._native_graph(text)

    def create_execution_plans(self, heur_modes: Sequence[heur_mode] = (heur_mode.A,)) -> None:
        """Asks which engines can run the graph; raises NoEngineError with the reason of each where none can."""
        if not heur_modes or any(not isinstance(mode, heur_mode) for mode in heur_modes):
            raise GraphError("create_execution_plans", "heur_modes", f"is {heur_modes!r}, expected members of heur_mode")
        self._candidates = self._offered(self._native_graph(self.to_json()), self._device)

    def check_support(self) -> None:
        """Raises an error where no candidate is left."""
        if not self._created():
            raise GraphError("check_support", "engines", "all candidates were deselected")

    def build_plans(self, policy: build_plan_policy = build_plan_policy.HEURISTICS_CHOICE) -> None:
        """Makes the plan of the first candidate that can be planned, or of each; executions take the first one."""
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
        """Makes the plan of a candidate, which executions take."""
        choice = self._engine_at(index), ()
        vars(self).update(_plan=self._make_plan(choice=choice), _choice=choice)

    def get_execution_plan_count(self) -> int:
        """How many candidates there are."""
        return len(self._created())

    def get_plan_name_at_index(self, index: int) -> str:
        """The name of a candidate's engine."""
        return self._engine_name(self._engine_at(index))

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        """The bytes that executions by a candidate need besides the tensors."""
        return self._make_plan(choice=(self._engine_at(index), ())).workspace_size

    def execute_plan_at_index(
        self, tensors: Mapping[Any, Any], workspace: Any = None, index: int = 0, handle: Any = None
    ) -> None:
        """Computes the graph by a candidate's plan, as ``execute`` does by the chosen one."""
        self._execute_by((self._engine_at(index), ()), tensors, handle)

    def deselect_engines(self, names: Sequence[str]) -> None:
        """Takes engines out of the candidates, by name."""
        self._candidates = [id for id in self._created() if self._engine_name(id) not in names]

    def deselect_workspace_greater_than(self, size: int) -> None:
        """Takes candidates out whose plan needs more bytes besides the tensors."""
        needed = [self.get_workspace_size_plan_at_index(index) for index in range(len(self._created()))]
        self._candidates = [id for id, bytes in zip(self._created(), needed) if bytes <= size]

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
