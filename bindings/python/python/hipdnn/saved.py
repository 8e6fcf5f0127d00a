"""Saved plans."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from . import _native
from .device import DeviceLike, to_device
from .errors import EngineWarning
from .graph import Graph
from .library import library

__all__ = ["SavedGraph", "load"]


class SavedGraph(Graph):
    """A graph saved with its plan: it is executed and called like any other, but cannot be changed."""

    def __init__(self, saved: bytes) -> None:
        super().__init__()
        self._restore(saved)

    def build(
        self, heur_modes: Any = None, *, engine: Any = None, knobs: Any = None, device: DeviceLike | None = None
    ) -> Graph:
        if engine is not None or knobs is not None:
            raise TypeError("the plan of a saved graph was made when it was saved")
        if device is not None:
            on = to_device(device)
            vars(self).update(_plan=self._make_plan(device=on), _device=on)
        return self


def load(saved: bytes | str | os.PathLike[str], graph: str | None = None) -> SavedGraph:
    """A graph with its plan, from the bytes of ``Graph.save`` or ``Graph.compile``, or from a file with these bytes.

    Of plans for several devices, takes the one that fits; if none does, makes a new one, with an EngineWarning that says why. ``graph``
    names one of several graphs.
    """
    saved = saved if isinstance(saved, bytes) else Path(saved).read_bytes()
    if not _native.is_package(saved):
        return SavedGraph(saved)
    container, reason = library().unpack(saved, graph)
    if reason is not None:
        warnings.warn(f"the graph is planned anew: {reason}", EngineWarning, stacklevel=2)
    return SavedGraph(container)
