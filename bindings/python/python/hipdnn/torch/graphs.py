"""Compiled graphs with or without hipDNN's kernels, whichever was faster: timed once, and stored on disk for later processes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import torch
from torch import fx

from .. import __version__, _native
from . import stored
from .dispatch import enable, is_enabled

#: The most calls before a graph is timed, while its operations are still being timed.
_SETTLES = 64
#: Timed calls of each variant, in turns.
_TURNS = 7
#: The least gain that counts for hipDNN: less is within the noise of so few calls.
_GAIN = 0.02
#: The largest file size in bytes.
_MOST = 1 << 20

_graphs: weakref.WeakSet[Chosen] = weakref.WeakSet()


def describe(traced: fx.GraphModule, inputs: Sequence[Any]) -> str:
    """A name for a graph with these inputs and this number of threads."""
    tensors = [
        f"{tuple(of.shape)} {of.stride()} {of.dtype} {of.device}" if isinstance(of, torch.Tensor) else str(of)
        for of in inputs
    ]
    about = repr((traced.code, tensors, torch.get_num_threads()))
    return hashlib.sha256(about.encode()).hexdigest()[:32]


def _path() -> Path | None:
    folder = stored.find(os.environ)
    return stored.choices(folder, (torch.__version__, __version__, "graphs")) if folder else None


@functools.lru_cache(maxsize=1)
def _read(path: Path) -> dict[str, tuple[int, int]]:
    """The nanoseconds with and without hipDNN, by graph. Skips malformed lines."""
    known = {}
    with contextlib.suppress(OSError):
        if path.stat().st_size > _MOST:
            path.unlink()
        for line in path.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                name, ours, theirs = line.split()
                known[name] = int(ours), int(theirs)
    return known


class _InGraph(enable):
    """Enabled within a compiled graph, which is timed as a whole here."""

    is_step = False


class Chosen:
    """A compiled graph, with hipDNN's kernels if that is faster."""

    def __init__(self, function: Callable[..., Any], way: str, name: str) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function, self.way, self.name = function, way, name
        self._calls = 0
        self._times: dict[bool, list[int]] = {True: [], False: []}
        #: Calls with and without hipDNN's kernels.
        self.counts = {True: 0, False: 0}
        path = _path()
        self.times = _read(path).get(name) if path else None
        self.is_stored = self.times is not None
        _graphs.add(self)

    @property
    def is_ours(self) -> bool | None:
        """Whether hipDNN's kernels are used; None while undecided."""
        return None if self.times is None else self.times[0] * (1 + _GAIN) < self.times[1]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_enabled():
            # The program has decided already.
            return self.function(*args, **kwargs)
        is_ours, is_timed = self.is_ours, False
        if torch.are_deterministic_algorithms_enabled():
            is_ours = True
        elif is_ours is None:
            is_ours, is_timed = self._turn()
        self.counts[is_ours] += 1
        start = time.perf_counter_ns()
        with _InGraph() if is_ours else contextlib.nullcontext():
            result = self.function(*args, **kwargs)
        if is_timed:
            self._took(is_ours, time.perf_counter_ns() - start)
        return result

    def _turn(self) -> tuple[bool, bool]:
        """Whether hipDNN's kernels are used for this call, and whether it is timed."""
        self._calls += 1
        taken = len(self._times[True]) + len(self._times[False])
        if not taken and self._calls <= _SETTLES and (self._calls == 1 or _native.torch_is_open()):
            return True, False
        return taken % 2 == 0, True

    def _took(self, is_ours: bool, nanoseconds: int) -> None:
        self._times[is_ours].append(nanoseconds)
        if self.times is None and min(map(len, self._times.values())) >= _TURNS:
            self.times = min(self._times[True]), min(self._times[False])
            with contextlib.suppress(OSError):
                if path := _path():
                    with path.open("a") as file:
                        file.write(f"{self.name} {self.times[0]} {self.times[1]}\n")

    def why(self) -> str:
        """Both times in words."""
        ours, theirs = (nanoseconds / 1000 for nanoseconds in self.times or (0, 0))
        return f"inductor alone takes {theirs:.0f} µs, with hipDNN {ours:.0f} µs"


def decided() -> list[Chosen]:
    """The graphs that are decided."""
    return [graph for graph in _graphs if graph.times is not None]


def reset() -> None:
    """Restarts the counts."""
    for graph in _graphs:
        graph.counts = {True: 0, False: 0}
