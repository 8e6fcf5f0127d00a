"""Executing graphs with arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from . import _native
from .adapt import adapted
from .device import Device, device_of
from .device_array import empty_like, empty_result
from .errors import ArrayError, GraphError
from .handle import Handle, to_handle
from .infer import integers, strides_in_order
from .memory import layouts
from .overridden import with_shapes
from .planning import Choice, Planning
from .tensor import Tensor
from .views import with_views

__all__ = ["Execution"]

#: Errors that another plan may avoid.
_ELSEWHERE = (_native.Elsewhere, _native.Misaligned, _native.EngineError)
#: Errors that other arrays may avoid, too.
_REFUSED = (_native.ArrayError, _native.EngineError, TypeError)


class Execution(Planning):
    """A graph that can be executed and called."""

    #: The handle of executions that are given none.
    _handle: Handle | None = None

    def execute(
        self,
        tensors: Mapping[Any, Any],
        workspace: Any = None,
        handle: Any = None,
        override_uids: Sequence[int] | None = None,
        override_shapes: Sequence[Sequence[int]] | None = None,
        override_strides: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Computes the graph with an array for each tensor, by tensor or uid: reads inputs, writes outputs, copies nothing.

        Arrays are those of NumPy, PyTorch, JAX, CuPy, ml_dtypes, or anything with DLPack, the buffer protocol or
        ``__cuda_array_interface__``, each with its tensor's shape, strides and type (dimensions of 1 may be left out), and all on
        one device; numbers passed by value are on the host. On a GPU the work is queued on the current stream of PyTorch
        or CuPy, or on that of ``handle`` (`create_handle`), without waiting for it. Other Python threads keep running. An interrupt
        returns from a long execution on the host; its thread goes on in the background, and the next execution waits for it.
        ``workspace`` exists for porting, as do addresses (`data_ptr()`) in place of arrays: the memory there must
        hold the tensor. The key None is ignored; a boolean tensor may be uint8 with eight elements in each byte, in
        memory order. ``override_uids`` names tensors that get other shapes and strides in this execution only.
        """
        if override_uids:
            self._execute_overridden(tensors, handle, override_uids, override_shapes, override_strides)
            return
        if self._has_views:
            if self._plan is None:
                self._plan_of_first(tensors)
            asked = {tensor.uid: tensor for tensor in (*self._inputs, *self._outputs)}
            views = [tensor for tensor in self._views if tensor.uid in asked]
            tensors = with_views(tensors, views, asked, self._as_cudnn)
        handle = self._handle if handle is None else to_handle(handle)
        if handle is not None:
            handle._run(self._execute, tensors)
            return
        plan = self._plan or self._plan_of_first(tensors)
        try:
            plan.execute(tensors)
        except _REFUSED as error:
            self._take(plan, error, tensors)

    def _execute(self, tensors: Mapping[Any, Any]) -> None:
        plan = self._plan or self._plan_of_first(tensors)
        try:
            plan.execute(tensors)
        except _REFUSED as error:
            self._take(plan, error, tensors)

    def _take(self, plan: _native.Plan, error: Exception, tensors: Mapping[Any, Any]) -> None:
        """Executes with arrays that need another plan, or with what cuDNN accepts in place of arrays."""
        changed = None
        if isinstance(error, (_native.ArrayError, TypeError)):
            if self._as_cudnn and (other := layouts(tensors, self._outputs)):
                self._with(other)._execute(tensors)
                return
            types = self._types()
            asked = (*self._inputs, *self._outputs) if self._as_cudnn else None
            type_of = lambda tensor: self._data_type(tensor, types)  # noqa: E731
            changed = adapted(tensors, self.tensors, type_of, plan.device, self._outputs, asked)
        if changed is None:
            if isinstance(error, TypeError) or not isinstance(error, _ELSEWHERE):
                raise error
            self._mend(plan, error, tensors)
            return
        arrays, after = changed
        try:
            plan.execute(arrays)
        except _ELSEWHERE as other:
            self._mend(plan, other, arrays)
        for step in after:
            step()

    def _execute_overridden(
        self, tensors: Mapping[Any, Any], handle: Any, uids: Any, shapes: Any, strides: Any
    ) -> None:
        """Executes with other shapes and strides for some tensors, and for virtual tensors with the same shape as one of them."""
        if shapes is None or strides is None or not len(uids) == len(shapes) == len(strides):
            words = "are given without as many override_shapes and override_strides, expected one of each for a uid"
            raise GraphError("execute", "override_uids", words)
        of_uid = {tensor.uid: tensor for tensor in self.tensors}
        other: dict[int, tuple[Any, Any]] = {}
        for uid, shape, stride in zip(uids, shapes, strides):
            dims, steps = integers("execute", "override_shapes", shape), integers("execute", "override_strides", stride)
            tensor = of_uid.get(uid)
            if tensor is not None and self._as_cudnn:
                dims, steps = _as_in(tensor, dims, steps)
            if tensor is None or not len(dims) == len(steps) == len(tensor.dim or ()):
                words = f"has {uid!r}, expected a tensor's, with as many sizes and strides as it has"
                raise GraphError("execute", "override_uids", words)
            other[uid] = dims, steps
        if not self._inputs and not self._outputs:
            self._plan_of_first(tensors)
        graph = self._with(other)
        graph._on(handle, lambda: graph._execute(tensors))

    def _with(self, other: Mapping[int, tuple[Any, Any]]) -> Execution:
        """A planned copy of this graph whose tensors have other shapes and strides."""
        graph = with_shapes(self, other)
        graph._plan = graph._make_plan()
        return graph

    def _plan_of_first(self, tensors: Mapping[Any, Any]) -> _native.Plan:
        return self._plan_for(next(iter(dict(tensors).values()), None))

    def _mend(self, plan: _native.Plan, error: _native.Error, tensors: Mapping[Any, Any]) -> None:
        """Executes with another plan, and keeps it."""
        device, plan = self._otherwise(plan, error, tensors, self._choice)
        # Threads may use arrays on several devices: each finds its plan, and the next execution tries the last one first.
        vars(self).update(_device=device, _plan=plan)

    def _plan_for(self, array: Any) -> _native.Plan:
        """The plan for the device of an array; builds the graph first if necessary."""
        if array is not None and self._choice[0] is None:
            # If it is not an array, the execution raises an error that names its tensor.
            with contextlib.suppress(Exception):
                self._device = device_of(array)
        return self.plan

    def _execute_by(self, choice: Choice, tensors: Mapping[Any, Any], handle: Any) -> None:
        """Computes the graph with another choice of engine and knobs."""
        plan = self._make_plan(choice=choice)
        self._on(handle, lambda: self._run(plan, tensors, choice))

    def _on(self, handle: Any, function: Callable[[], Any]) -> None:
        """Calls a function whose executions use the stream of a handle, or else of the graph's handle."""
        handle = self._handle if handle is None else to_handle(handle)
        if handle is None:
            function()
        else:
            handle._run(function)

    def _run(self, plan: _native.Plan, tensors: Mapping[Any, Any], choice: Choice) -> _native.Plan:
        """Executes with a plan, or an equivalent one if the arrays require it; returns the plan used."""
        try:
            plan.execute(tensors)
        except _ELSEWHERE as error:
            return self._otherwise(plan, error, tensors, choice)[1]
        return plan

    def _otherwise(
        self, plan: _native.Plan, error: _native.Error, tensors: Mapping[Any, Any], choice: Choice
    ) -> tuple[Device, _native.Plan]:
        """Replans for arrays on another device or with less alignment, or without an engine that failed, and executes."""
        device, aligned = plan.device, True
        failed: dict[int, _native.Error] = {}
        while True:
            if isinstance(error, _native.Elsewhere):
                if device == error.args:
                    raise error
                device, aligned = error.args, True
            elif isinstance(error, _native.Misaligned):
                if not aligned:
                    raise error
                aligned = False
            else:
                if choice != (None, ()):
                    raise error
                failed[plan.engine_id], aligned = error, True
            try:
                plan = self._make_plan(aligned, device, choice, (*self._failed, *failed))
            except _native.Error:
                if not failed:
                    raise
                # No other engine is left.
                raise next(iter(failed.values())) from None
            try:
                plan.execute(tensors)
            except _ELSEWHERE as other:
                error = other
                continue
            self._failed = (*self._failed, *failed)
            for engine, reason in failed.items():
                self._tell(engine, reason, plan.engine_id)
            return device, plan

    def __call__(self, *arrays: Any, handle: Any = None, workspace: Any = None, **named: Any) -> Any:
        """Computes the graph with arrays for its inputs, in the order they were made (or of `set_io_tuples`) or by name, and returns
        new arrays. They belong to the library and device of the first array.

        Given a single mapping of names ("node::argument", "node::RESULT" or a tensor's own), uids or tensors to arrays, it computes
        into the output arrays that it finds there, adds new ones for the other results by name, and returns the mapping.
        """
        if len(arrays) == 1 and isinstance(arrays[0], dict) and not named:
            return self._call_by_name(arrays[0], handle)
        if self._plan is None:
            self._plan_for(next(iter((*arrays, *named.values())), None))
        inputs, outputs = self._io or self._callers()
        if len(arrays) > len(inputs):
            raise TypeError(f"{len(arrays)} arrays, expected at most {len(inputs)}")
        given: dict[Tensor, Any] = dict(zip(inputs, arrays))
        by_name = {tensor.name: tensor for tensor in inputs if tensor.name}
        for name, array in named.items():
            tensor = by_name.get(name)
            if tensor is None or tensor in given:
                raise TypeError(f"{name!r} is not an input without an array, expected one of {', '.join(by_name)}")
            given[tensor] = array
        results = self._new_arrays(outputs, given)
        self.execute({**given, **dict(zip(outputs, results))}, handle=handle)
        return results[0] if len(results) == 1 else tuple(results)

    def _new_arrays(self, tensors: Sequence[Tensor], given: Mapping[Tensor, Any]) -> list[Any]:
        """New arrays for results, of the library of the first array given; after `set_io_tuples`, as cuDNN's wrapper makes them."""
        first = next((array for tensor, array in given.items() if not tensor.is_pass_by_value), None)
        types = self._types()
        make = empty_result if self._io else empty_like
        return [make(first, t.dim or (), t.stride or (), self._data_type(t, types)) for t in tensors]

    def _call_by_name(self, arrays: dict[Any, Any], handle: Any) -> dict[Any, Any]:
        given: dict[Tensor, Any] = {}
        for key, array in arrays.items():
            tensor = self._find(key)
            if tensor is None:
                known = ", ".join(dict.fromkeys(name for name, _ in self._named()))
                raise ArrayError(f"{key!r} is not a tensor of the graph, expected some of {known}")
            given[tensor] = array
        if self._plan is None:
            self._plan_for(next(iter(given.values()), None))
        names = {tensor: name for call in self._calls for name, tensor in call.made.items()}
        missing = [tensor for tensor in self._callers()[1] if tensor not in given]
        made = dict(zip(missing, self._new_arrays(missing, given)))
        self.execute({**given, **made}, handle=handle)
        arrays.update({names.get(tensor) or tensor.name or tensor.uid: array for tensor, array in made.items()})
        return arrays


def _as_in(tensor: Tensor, dims: tuple[int, ...], steps: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Expands a program's shape and strides to a tensor's rank as an array would have them: trailing ones may be left out, and
    ragged sequences have no batch stride."""
    rank = len(tensor.dim or ())
    if len(dims) < rank:
        dims, steps = (*dims, *[1] * (rank - len(dims))), (*steps, *[1] * (rank - len(dims)))
    if len(steps) != rank and tensor.ragged_offset is not None:
        steps = strides_in_order(dims, tensor.stride)
    return dims, steps
