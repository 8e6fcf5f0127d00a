"""Arrays as operands of a graph's operations, and the program's names for operands and results."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple

from .errors import GraphError
from .tensor import Tensor

__all__ = ["Operands", "plain", "take_arrays"]

#: cuDNN's names for results that are called differently here.
_OTHERWISE = {"next_running_variance": "NEXT_RUNNING_VAR", "inv_rms": "INV_VARIANCE"}


class Call(NamedTuple):
    """One call of an operation by the program, with tensors in place of arrays."""

    node: str
    given: dict[str, Tensor]
    #: By their names at that time: the program may rename them.
    made: dict[str, Tensor]


def is_array(value: Any) -> bool:
    """Whether an operand is an array of some library."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def plain(array: Any) -> Any:
    """An array detached from PyTorch's autograd, which cannot be exported otherwise."""
    return array.detach() if getattr(array, "requires_grad", False) is True else array


def reference(array: Any) -> Callable[[], Any]:
    """A weak reference to an array; a strong one if its type does not support weak references."""
    try:
        return weakref.ref(array)
    except TypeError:
        return lambda: array


class Operands:
    """A graph's record of the operands and results that its program named."""

    def _start(self) -> None:
        self._calls: list[Call] = []
        self._counts: dict[str, int] = {}
        #: Tensors by the arrays that they were made from, which may be freed by now.
        self._of_array: dict[int, tuple[Any, Tensor]] = {}
        #: Whether an operation is calling other operations.
        self._is_inside = False
        self._io: tuple[list[Tensor], list[Tensor]] | None = None

    def tensor_like(self, input: Any, name: str = "") -> Tensor:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _callers(self) -> tuple[list[Tensor], list[Tensor]]:
        raise NotImplementedError

    def _taken(self, value: Any) -> Any:
        """The tensor for an array, always the same one; other values unchanged."""
        if isinstance(value, Tensor) or not is_array(value):
            if isinstance(value, (tuple, list)) and any(is_array(each) for each in value):
                return type(value)(self._taken(each) for each in value)
            return value
        known = self._of_array.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        return self.tensor_like(value)

    def _note(self, kind: str, arguments: Mapping[str, Any], args: Sequence[Any], result: Any) -> None:
        """Records the names of a call's operands and results."""
        count = self._counts.get(kind, 0)
        self._counts[kind] = count + 1
        said = arguments.get("name") or ""
        node = said or f"{kind}.{count}"
        given: dict[str, Tensor] = {}
        for key, value in (*arguments.items(), *((str(at), value) for at, value in enumerate(args))):
            if isinstance(value, Tensor):
                given[f"{node}::{key}"] = value
            elif isinstance(value, (tuple, list)):
                given.update({f"{node}::{key}::{at}": of for at, of in enumerate(value) if isinstance(of, Tensor)})
        made: dict[str, Tensor] = {}
        for at, tensor in enumerate(result if isinstance(result, (tuple, list)) else [result]):
            if isinstance(tensor, Tensor):
                last = tensor.name.rpartition("::")[2] or str(at)
                made[f"{node}::{_OTHERWISE.get(last, last)}"] = tensor
        self._calls.append(Call(node, given, made))

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        """Every name that a tensor has, those of operands and results of calls first."""
        for call in self._calls:
            yield from call.given.items()
            yield from call.made.items()
        for call in self._calls:
            yield from ((tensor.name, tensor) for tensor in (*call.given.values(), *call.made.values()) if tensor.name)
            yield from ((f"{call.node}::{at}", tensor) for at, tensor in enumerate(call.made.values()))

    def _find(self, of: Any) -> Tensor | None:
        """The tensor of a name, a uid, a tensor or an array; among equal names, that of the last call."""
        if isinstance(of, Tensor):
            return of if of.graph is self else None
        if isinstance(of, str):
            names = list(self._named())
            exact = next((tensor for name, tensor in names if name == of), None)
            return exact or next((tensor for name, tensor in names if name.casefold() == of.casefold()), None)
        if isinstance(of, int):
            return next((tensor for _, tensor in self._named() if tensor.uid == of), None)
        known = self._of_array.get(id(of))
        return known[1] if known is not None and known[0]() is of else None

    def set_io_tuples(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Sets the order in which calls of the graph take and return arrays. Each entry is a name, "node::argument" or "node::RESULT",
        a tensor, a uid, or the array that a tensor was made from."""
        found: list[list[Tensor]] = []
        for argument, said in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(said, (list, tuple)):
                raise GraphError("set_io_tuples", argument, f"is {said!r}, expected a list")
            tensors: list[Tensor] = []
            for of in said:
                tensor = self._find(of)
                shown = repr(of) if isinstance(of, (str, int, Tensor)) else f"of type {type(of).__name__}"
                if tensor is None:
                    known = ", ".join(dict.fromkeys(name for call in self._calls for name in (*call.given, *call.made)))
                    raise GraphError("set_io_tuples", argument, f"{shown} is not found, expected some of {known}")
                if any(tensor is other for other in (*tensors, *(found[0] if found else ()))):
                    raise GraphError("set_io_tuples", argument, f"{shown} is a duplicate, expected each tensor once")
                tensors.append(tensor)
            found.append(tensors)
        self._finish()
        for argument, tensors, bound in zip(("inputs", "outputs"), found, self._callers()):
            for tensor in bound:
                if not any(tensor is other for other in tensors):
                    raise GraphError("set_io_tuples", argument, f"lacks {tensor._label()}, which an execution needs")
            for tensor in tensors:
                if not any(tensor is other for other in bound):
                    raise GraphError(
                        "set_io_tuples", argument, f"{tensor._label()} is virtual or unused, expected one of {bound}"
                    )
        self._io = found[0], found[1]


def _taking_arrays(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    names = list(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def operation(self: Any, *args: Any, **named: Any) -> Any:
        if self._is_inside:
            return method(self, *args, **named)
        args = tuple(self._taken(value) for value in args)
        named = {key: self._taken(value) for key, value in named.items()}
        self._is_inside = True
        try:
            result = method(self, *args, **named)
        finally:
            self._is_inside = False
        self._note(name, {**dict(zip(names, args)), **named}, args, result)
        return result

    return operation


def take_arrays(graph: type, *operations: type) -> None:
    """Lets the operations of these classes take arrays in place of tensors."""
    for of in operations:
        for name, method in vars(of).items():
            if not name.startswith("_"):
                setattr(graph, name, _taking_arrays(method, name))
