"""From a graph to its plan: which engines can run it, and which one does."""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Union

from . import _native
from .definition import Definition
from .device import HOST, VULKAN, Device, DeviceLike, device_name, to_device
from .errors import EngineWarning, GraphError, NoEngineError
from .library import computes_on, engine_device, is_log_wanted, library
from .plans import Verdict, steps_of
from .plans import plans as _plans

__all__ = ["Choice", "Planning", "Verdict", "knobs_of"]

#: An engine id, or None if the library chooses, and its knobs.
Choice = tuple[Union[int, None], tuple[tuple[str, Any], ...]]


def knobs_of(knobs: Mapping[str, Any] | None) -> tuple[tuple[str, int | float | str], ...]:
    """Knobs as the library takes them: sorted by name, with integers, floats or strings."""
    found: dict[str, int | float | str] = {}
    for id, value in dict(knobs or {}).items():
        if not isinstance(id, str):
            raise GraphError("build", "knobs", f"has the key {id!r}, expected the name of a knob")
        try:
            found[id] = str(value) if isinstance(value, str) else operator.index(value)
        except TypeError:
            try:
                found[id] = float(value)
            except (TypeError, ValueError):
                raise GraphError("build", "knobs", f"has {value!r} for {id}, expected a number or a text") from None
    return tuple(sorted(found.items()))


def _warn(words: str) -> None:
    """Warns about an engine, at the program's line that called this package."""
    frame, level, package = sys._getframe(1), 2, __name__.partition(".")[0]
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(words, EngineWarning, stacklevel=level)


class Planning(Definition):
    """A graph that engines can be asked about, with a plan once it is built."""

    _choice: Choice = (None, ())
    _plan: _native.Plan | None = None
    #: The ids of engines that accepted the graph and failed to execute it.
    _failed: tuple[int, ...] = ()
    #: The names of the numerical notes that plans must have, and must not have.
    _notes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def _change(self) -> None:
        vars(self).update(_plan=None, _failed=())
        super()._change()

    def _is_built(self) -> bool:
        """Whether there is a plan."""
        return self._plan is not None

    def _native_graph(self, text: str, on: Device | None = None) -> _native.OperationGraph:
        device = on or self._device
        return _plans.get((os.getpid(), text, device), lambda: library().graph(text, device))

    def explain(self) -> list[Verdict]:
        """Every engine: its rank and what its plan would do, or the reason why it cannot run the graph.

        Supported engines come first, best first. Makes a plan for each of them. Empty if the results have no elements.
        """
        text = self.to_json()
        if not self._has_work():
            return []
        native = self._native_graph(text)
        return [verdict._replace(steps=steps_of(native, verdict)) for verdict in self._verdicts(native)]

    def _verdicts(self, native: _native.OperationGraph | None = None) -> list[Verdict]:
        text = self.to_json()
        if native is None and not self._has_work():
            return []
        return [Verdict(*verdict) for verdict in (native or self._native_graph(text)).explain(not is_log_wanted())]

    def engines(self) -> list[str]:
        """The names of the engines that can run the graph, best first; for a GPU, those that compute there."""
        on, on_vulkan = computes_on(self._device), computes_on((VULKAN, 0))
        is_here = self._device == HOST
        able = [of for of in self._verdicts() if of.rank is not None]
        return [of.engine for of in able if of.id in on or (is_here and of.id not in on_vulkan)]

    def knobs(self, engine: str | int) -> dict[str, dict[str, str]]:
        """The tunable knobs of an engine: description, default and choices of each."""
        knobs = self._native_graph(self.to_json()).knobs(self._engine_id(engine))
        return {
            id: {"description": text, "default": default, "choices": choices} for id, text, default, choices in knobs
        }

    def _engine_id(self, engine: str | int) -> int:
        """The id of a loaded engine, given by name or id."""
        ids = {name: id for name, id, *_ in library().engines()}
        found = ids.get(engine) if isinstance(engine, str) else engine
        if not isinstance(found, int) or found not in ids.values():
            known = ", ".join(f"{name} ({id})" for name, id in ids.items())
            raise GraphError("build", "engine", f"is {engine!r}, expected a name or an id of {known}")
        return found

    def build(
        self,
        heur_modes: Any = None,
        *,
        engine: str | int | None = None,
        knobs: Mapping[str, Any] | None = None,
        device: DeviceLike | None = None,
    ) -> Any:
        """Plans the graph with the library's first choice of engine, or with the engine and knobs given.

        The plan is for arrays on ``device`` ("cpu", "cuda:0", "rocm:0", "vulkan:0"), by default the device of the array that the first
        tensor was made from, else the host. Executing with arrays on another device replans the graph. Raises NoEngineError with the reason
        of each engine if none can run it. If the library's first choice fails, the next engine is used, with an
        EngineWarning. ``heur_modes`` exists for porting.
        """
        choice: Choice = (None if engine is None else self._engine_id(engine), knobs_of(knobs))
        on = self._device if device is None else to_device(device)
        if device is None and choice[0] is not None and choice[0] not in computes_on(on):
            on = engine_device(choice[0])
        plan = self._make_plan(device=on, choice=choice)
        # Set in one step: an interrupt before it leaves the graph unchanged.
        vars(self).update(_choice=choice, _device=on, _plan=plan)
        return self

    def _make_plan(
        self,
        aligned: bool = True,
        device: Device | None = None,
        choice: Choice | None = None,
        without: tuple[int, ...] | None = None,
    ) -> _native.Plan:
        """The plan for a choice, by default the graph's own, skipping engines that failed."""
        device, choice = device or self._device, choice or self._choice
        without = self._failed if without is None else without
        text = self.to_json(aligned=aligned)
        key = (os.getpid(), text, device, choice, without, self._notes, self._is_deterministic, self._untold(aligned))
        return _plans.get(key, lambda: self._plan_of(text, aligned, device, choice, without))

    def _plan_of(
        self, text: str, aligned: bool, device: Device, choice: Choice, without: tuple[int, ...]
    ) -> _native.Plan:
        """A new plan for the graph with this JSON."""
        specs = self._specs(aligned)
        if not self._has_work():
            return library().nothing(specs, device)
        graph = self._native_graph(text, device)
        engine, knobs = choice
        if engine is not None and engine not in computes_on(device) and self._is_candidate(engine):
            # It was the library's first choice for another device.
            engine = None
        if engine is not None and engine not in computes_on(device):
            words = f"is {self._engine_name(engine)}, which does not compute on {device_name(device)}"
            raise GraphError("build", "engine", words)
        candidates = self._noted(graph, self._offered(graph, device)) if engine is None else [engine]
        if engine is not None or knobs:
            self._expect_knobs(graph, candidates[0], knobs)
            return graph.plan(candidates[0], list(knobs) or self._settled(graph, candidates[0]), specs, self._notes)
        failures: dict[int, _native.Error] = {}
        for candidate in candidates:
            if candidate in without:
                continue
            try:
                plan = graph.plan(candidate, self._settled(graph, candidate), specs, self._notes)
            except _native.Error as error:
                failures[candidate] = error
                continue
            for other, reason in failures.items():
                self._tell(other, reason, candidate)
            return plan
        if len(failures) == 1:
            raise next(iter(failures.values()))
        reasons = {self._engine_name(id): str(reason) for id, reason in failures.items()}
        raise self._no_engine_of(reasons)

    def _noted(self, graph: _native.OperationGraph, engines: list[int]) -> list[int]:
        """The engines that can have the numerical notes; raises NoEngineError with the reason of each if none can."""
        if not any(self._notes):
            return engines
        left, reasons = [], {}
        for engine in engines:
            try:
                graph.expect_notes(engine, self._notes)
            except _native.Error as error:
                reasons[self._engine_name(engine)] = str(error)
                continue
            left.append(engine)
        if not left:
            raise self._no_engine_of(reasons)
        return left

    def _is_candidate(self, engine: int) -> bool:
        """Whether the library offered an engine and the program did not choose it."""
        return False

    def _settled(self, graph: _native.OperationGraph, engine: int) -> list[tuple[str, Any]]:
        """The knobs set by the graph's own arguments: deterministic kernels, if an engine also has others."""
        ids = [id for id, *_ in graph.knobs(engine)] if self._is_deterministic else []
        return [(id, 1) for id in ids if id.rpartition(".")[2] == "deterministic"]

    def _expect_knobs(self, graph: _native.OperationGraph, engine: int, knobs: tuple[tuple[str, Any], ...]) -> None:
        """Raises an error if an engine lacks one of the knobs."""
        known = [id for id, *_ in graph.knobs(engine)] if knobs else []
        for id, _ in knobs:
            if id not in known:
                expected = ", ".join(known) or "none"
                words = f"has {id!r}, which {self._engine_name(engine)} lacks, expected some of its knobs: {expected}"
                raise GraphError("build", "knobs", words)

    def _tell(self, engine: int, error: Exception, next: int) -> None:
        """Warns that an engine failed and another one replaces it."""
        name, instead = self._engine_name(engine), self._engine_name(next)
        _warn(f"{self._label}: {name} failed, {instead} takes its place: {error}")

    def _offered(self, graph: _native.OperationGraph, device: Device) -> list[int]:
        """The ids of the engines that can run the graph on a device, best first."""
        on = computes_on(device)
        offered = [id for id in graph.offer()[0] if id in on]
        if not offered:
            raise self._no_engine(graph, device)
        return offered

    def _no_engine(self, graph: _native.OperationGraph, device: Device) -> NoEngineError:
        # Of an engine for another device, the library that it lacks does not matter.
        on, elsewhere = computes_on(device), f"does not compute on {device_name(device)}"
        told = graph.explain(not is_log_wanted())
        return self._no_engine_of(
            {name: reason or elsewhere if id in on else elsewhere for name, id, _, _, reason in told}
        )

    def _no_engine_of(self, reasons: dict[str, str]) -> NoEngineError:
        lines = [f"  {name}: {reason}" for name, reason in reasons.items()]
        if not reasons:
            folder = os.environ.get("HIPDNN_PLUGIN_DIR")
            where = f"HIPDNN_PLUGIN_DIR is {folder!r}" if folder else f"plugins are looked for beside {library().path}"
            lines = [f"  no engine is loaded: {where}"]
        return NoEngineError("\n".join([f"no engine can run {self._label}:", *lines]), reasons)

    @property
    def plan(self) -> _native.Plan:
        """The plan; builds the graph first if necessary."""
        return self._plan or self.build()._plan

    @property
    def engine(self) -> str:
        """The name of the engine that runs it; empty if the results have no elements."""
        id = self.plan.engine_id
        return self._engine_name(id) if id else ""

    @staticmethod
    def _engine_name(id: int) -> str:
        return next((name for name, of, *_ in library().engines() if of == id), hex(id))

    def get_workspace_size(self) -> int:
        """The workspace size in bytes of an execution. The plan owns its workspace."""
        return self.plan.workspace_size
