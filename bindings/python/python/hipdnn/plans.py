"""Caches of the engines' answers about graphs, and of plans."""

from __future__ import annotations

import collections
import contextlib
import json
from typing import Any, Callable, NamedTuple

from . import _native
from .device import HOST

__all__ = ["Plans", "Verdict", "plans", "steps_of"]

#: What an entry counts for besides its workspace: a graph, or a plan with its descriptors.
ENTRY = 64 << 10

#: The most bytes of all entries.
MOST = 128 << 20

#: How much is freed before the C library returns it to the system, which takes milliseconds.
TRIM = 16 << 20


def _size_of(made: Any) -> int:
    """The bytes that an entry counts for. Memory of GPUs is their drivers'."""
    on_host = isinstance(made, _native.Plan) and made.device == HOST
    return ENTRY + (made.workspace_size if on_host else 0)


class Verdict(NamedTuple):
    """The library's answer about an engine and a graph."""

    engine: str
    id: int
    plugin: str
    rank: int | None
    reason: str | None
    steps: list[dict[str, Any]] | None = None
    """The steps of a plan with default settings: nodes, algorithm and more of each, if the engine's plugin describes them."""


def steps_of(native: _native.OperationGraph, verdict: Verdict) -> list[dict[str, Any]] | None:
    """The steps of an engine's plan; None if it cannot be made or the plugin does not describe it."""
    if verdict.rank is None:
        return None
    try:
        return json.loads(native.describe(verdict.id)).get("steps")
    except _native.Error:
        return None


class Plans:
    """A cache of graphs and plans, keyed by what they compute, so that no graph is planned twice, bounded by bytes.

    It needs no lock: each dictionary operation is atomic for threads and signal handlers, and two threads that make the same
    entry make equal ones. The sum of bytes may be off if they do; it is counted again before anything is evicted.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.made: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._bytes = self._freed = 0

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        made = self.made.get(key)
        if made is None:
            made = make()
            self.put(key, made)
        else:
            # Another thread may have evicted it by now.
            with contextlib.suppress(KeyError):
                self.made.move_to_end(key)
        return made

    def put(self, key: Any, made: Any) -> None:
        """Stores an entry, replacing an older one, and evicts the least recently used ones that are too much."""
        self.made[key] = made
        self._bytes += _size_of(made)
        if self._bytes <= self.most:
            return
        self._bytes = sum(map(_size_of, list(self.made.values())))
        with contextlib.suppress(KeyError):
            while self._bytes > self.most and len(self.made) > 1:
                size = _size_of(self.made.popitem(last=False)[1])
                self._bytes -= size
                self._freed += size
        if self._freed >= TRIM:
            self._freed = 0
            _native.give_back()

    def clear(self) -> None:
        """Frees all entries."""
        self.made.clear()
        self._bytes = self._freed = 0


plans = Plans()
