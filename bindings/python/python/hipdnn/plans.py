"""Caches of the engines' answers about graphs, and of plans."""

from __future__ import annotations

import collections
import contextlib
import json
from typing import Any, Callable, NamedTuple

from . import _native

__all__ = ["Plans", "Verdict", "plans", "steps_of"]


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
    """A cache of graphs and plans, keyed by what they compute, so that no graph is planned twice.

    It needs no lock: each dictionary operation is atomic for threads and signal handlers, and two threads that make the same
    entry make equal ones.
    """

    def __init__(self, most: int = 512) -> None:
        self.most = most
        self.made: collections.OrderedDict[Any, Any] = collections.OrderedDict()

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
        """Stores an entry, replacing an older one."""
        self.made[key] = made
        with contextlib.suppress(KeyError):
            while len(self.made) > self.most:
                self.made.popitem(last=False)


plans = Plans()
