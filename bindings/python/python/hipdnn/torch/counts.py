"""What was computed here and what went on in PyTorch, for each place of a program."""

from __future__ import annotations

import collections
import html
import json
import os
from types import CodeType
from typing import Any, Iterable, List, NamedTuple

import torch

from .. import _native
from .._native import Counts
from ..device import device_name
from ..library import engines

_HERE = os.path.dirname(__file__)
_TORCH = os.path.dirname(torch.__file__)


class Ran(NamedTuple):
    """What computed: an engine, on a device, by algorithms (none where its plugin does not tell)."""

    engine: str
    device: str
    algorithms: tuple[str, ...]

    def __str__(self) -> str:
        by = f" ({', '.join(self.algorithms)})" if self.algorithms else ""
        return f"{self.engine} on {self.device}{by}"


class Routed(NamedTuple):
    """How often a function was computed here and in PyTorch, from one place of a program."""

    function: str
    place: str
    routed: int
    passed_on: int
    #: Why it went on in PyTorch, where it did.
    reasons: tuple[str, ...]
    #: What computed it here, in the order of first calls.
    ran: tuple[Ran, ...] = ()


class Report(List[Routed]):
    """One entry for each place of a program; as text, or in a notebook, a table."""

    _HEAD = ("function", "place", "routed", "passed on", "by, or why not")

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for row in self:
            words = [*map(str, row.ran), *(f"PyTorch: {reason}" for reason in row.reasons)]
            first, *others = words or [""]
            rows.append((row.function, row.place, str(row.routed), str(row.passed_on), first))
            rows += [("", "", "", "", word) for word in others]
        return rows

    def __str__(self) -> str:
        rows = [self._HEAD, *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(self._HEAD))]
        return "\n".join("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        line = lambda kind, row: "<tr>" + "".join(f"<{kind}>{html.escape(word)}</{kind}>" for word in row) + "</tr>"  # noqa: E731
        return f"<table>{line('th', self._HEAD)}{''.join(line('td', row) for row in self._rows())}</table>"


_counts: dict[tuple[str, str, int], Counts] = {}
#: What computed, by the same places.
_ran: dict[tuple[str, str, int], dict[Ran, None]] = {}


def counts_of(function: str, place: tuple[str, int]) -> Counts:
    """The counts of a function at a file and line."""
    key = (function, *place)
    found = _counts.get(key)
    if found is None:
        ran = _ran.setdefault(key, {})
        found = _counts.setdefault(key, Counts(collections.Counter(), lambda plans: ran.update(_ran_of(plans))))
    return found


def _ran_of(plans: Iterable[_native.Plan]) -> dict[Ran, None]:
    names = {engine.id: engine.name for engine in engines()}
    return {
        Ran(names.get(plan.engine_id, hex(plan.engine_id)), device_name(plan.device), _algorithms(plan)): None
        for plan in plans
    }


def _algorithms(plan: _native.Plan) -> tuple[str, ...]:
    """The algorithms of a plan's steps, with their kernels."""
    try:
        steps: list[dict[str, Any]] = json.loads(plan.description()).get("steps") or []
    except _native.Error:
        return ()
    words = ([step.get(key) for key in ("algorithm", "kernel")] for step in steps)
    return tuple(dict.fromkeys(" ".join(filter(None, of)) for of in words if any(of)))


def is_inside(code: CodeType) -> bool:
    """Whether code is PyTorch's or this package's, rather than the program's."""
    return code.co_filename.startswith((_HERE, _TORCH))


def report() -> Report:
    """What was computed where, one entry for each place of the program; printed, it is a table."""
    return Report(
        Routed(
            function, f"{file}:{line}", counts.routed, sum(counts.reasons.values()), tuple(counts.reasons),
            tuple(_ran.get((function, file, line), ())),
        )
        for (function, file, line), counts in list(_counts.items())
    )  # fmt: skip


def clear() -> None:
    """Forgets all."""
    _counts.clear()
    _ran.clear()
