"""Counts what hipDNN and what PyTorch's kernels computed, for each kind of call."""

from __future__ import annotations

import html
import json
from typing import Any, NamedTuple

from .. import _native
from ..device import CUDA, HOST, ROCM, device_name
from . import graphs

_HEAD = ("function", "call", "hipDNN", "PyTorch", "planned in", "by, or why not")


class Ran(NamedTuple):
    """What computed: an engine, on a device, with its algorithms (empty if its plugin does not tell)."""

    engine: str
    device: str
    algorithms: tuple[str, ...]

    def __str__(self) -> str:
        by = f" ({', '.join(self.algorithms)})" if self.algorithms else ""
        return f"{self.engine} on {self.device}{by}"


class Routed(NamedTuple):
    """How often hipDNN and PyTorch computed calls of a function with these tensors and settings."""

    function: str
    #: The tensors and settings.
    call: str
    routed: int
    passed_on: int
    #: Why PyTorch computed, if it did.
    reasons: tuple[str, ...]
    #: What computed it here.
    ran: tuple[Ran, ...] = ()
    #: Milliseconds spent on planning.
    planning: float = 0.0
    #: Whether PyTorch computed during planning; otherwise the first call waited.
    aside: bool = False
    #: Whether the choice comes from timings of an earlier process.
    stored: bool = False


class Report(list[Routed]):
    """One entry for each kind of call; a table when printed or shown in a notebook."""

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for row in self:
            words = [*map(str, row.ran), *(f"PyTorch: {reason}" for reason in row.reasons)]
            first, *others = words or [""]
            planned = f"{row.planning:.1f} ms{' aside' * row.aside}{', chosen before' * row.stored}"
            rows.append((row.function, row.call, str(row.routed), str(row.passed_on), planned, first))
            rows += [("", "", "", "", "", word) for word in others]
        return rows

    def __str__(self) -> str:
        rows = [_HEAD, *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
        return "\n".join("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        line = lambda kind, row: "<tr>" + "".join(f"<{kind}>{html.escape(word)}</{kind}>" for word in row) + "</tr>"  # noqa: E731
        return f"<table>{line('th', _HEAD)}{''.join(line('td', row) for row in self._rows())}</table>"


def _algorithms(description: str | None) -> tuple[str, ...]:
    """The algorithms of a plan's steps, with their kernels."""
    steps: list[dict[str, Any]] = json.loads(description or "{}").get("steps") or []
    words = ([step.get(key) for key in ("algorithm", "kernel")] for step in steps)
    return tuple(dict.fromkeys(" ".join(filter(None, of)) for of in words if any(of)))


def _ran(engine: str | None, description: str | None, device: tuple[int, int]) -> tuple[Ran, ...]:
    if engine is None:
        return ()
    import torch

    kind = ROCM if torch.version.hip else CUDA
    place = HOST if device[0] == 0 else (kind, device[1])
    return (Ran(engine, device_name(place), _algorithms(description)),)


def report() -> Report:
    """What computed each kind of call, in the order of their first calls; prints as a table.

    First calls include planning (``planning``), unless PyTorch computes meanwhile (``aside``). While both are timed in turns,
    every other call takes as long as the slower one. Timings of an earlier process are reused (``stored``). Compiled graphs that
    were timed as a whole come last.
    """
    calls = [
        Routed(
            function, call, routed, passed_on, tuple(reasons), _ran(engine, plan, device) if routed else (), took, *how
        )
        for function, call, routed, passed_on, reasons, engine, plan, device, took, how in _native.torch_report()
    ]
    whole = [
        Routed(
            "compiled graph", f"{of.way} {of.name}", of.counts[True], of.counts[False], (of.why(),), stored=of.is_stored
        )
        for of in graphs.decided()
        if any(of.counts.values())
    ]
    return Report([*calls, *whole])


def reset() -> None:
    """Frees all plans and workspaces, and restarts the report."""
    _native.torch_clear()
    graphs.reset()
