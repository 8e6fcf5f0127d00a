"""What is known of graphs: what engines say of them, and the plans that were made."""

from __future__ import annotations

import collections
import json
from typing import Any, NamedTuple

from . import _native
from .locks import Lock

__all__ = ["Plans", "Verdict", "plans", "steps_of"]


class Verdict(NamedTuple):
    """What the library says of an engine and a graph."""

    engine: str
    id: int
    plugin: str
    rank: int | None
    reason: str | None
    steps: list[dict[str, Any]] | None = None
    """What a plan with default settings does: nodes, algorithm and more of each step, where the engine's plugin tells."""


def steps_of(native: _native.OperationGraph, verdict: Verdict) -> list[dict[str, Any]] | None:
    """The steps of an engine's plan; none where no plan can be made or nothing is told of it."""
    if verdict.rank is None:
        return None
    try:
        return json.loads(native.describe(verdict.id)).get("steps")
    except _native.Error:
        return None


class Plans:
    """Graphs and plans by what they compute, so that no graph is planned twice."""

    def __init__(self, most: int = 512) -> None:
        self.most = most
        self.lock = Lock()
        self.made: collections.OrderedDict[Any, Any] = collections.OrderedDict()

    def get(self, key: Any, make: Any) -> Any:
        with self.lock:
            if key in self.made:
                self.made.move_to_end(key)
                return self.made[key]
        made = make()
        with self.lock:
            self.made[key] = made
            while len(self.made) > self.most:
                self.made.popitem(last=False)
        return made


plans = Plans()
