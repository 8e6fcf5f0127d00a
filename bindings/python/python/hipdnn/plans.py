"""What is known of graphs: what engines say of them, and the plans that were made."""

from __future__ import annotations

import collections
import contextlib
import json
from typing import Any, Callable, NamedTuple

from . import _native

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
    """Graphs and plans by what they compute, so that no graph is planned twice.

    There is no lock: threads and the handlers of signals come between operations of the dictionary, each of which is whole, and what two
    threads make at a time is equal.
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
            # Another thread may have taken it out by now.
            with contextlib.suppress(KeyError):
                self.made.move_to_end(key)
        return made

    def put(self, key: Any, made: Any) -> None:
        """Keeps what was made, in the place of what was there."""
        self.made[key] = made
        with contextlib.suppress(KeyError):
            while len(self.made) > self.most:
                self.made.popitem(last=False)


plans = Plans()
