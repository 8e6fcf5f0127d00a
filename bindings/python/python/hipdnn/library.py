"""The library that computes graphs."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

from . import _native
from ._native import Library
from .device import CUDA, HOST, ROCM, VULKAN, Device, first_gpu
from .plans import plans

#: The folder of this package with the library and its plugins.
PACKAGED = Path(__file__).parent / "lib"

#: The library's file name.
_FILE = "hipdnn_backend.dll" if os.name == "nt" else "libhipdnn_backend.so"

#: The open library. `setdefault` is atomic for signals and threads: the first library stays.
_open: dict[str, Library] = {}

# Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.forked)


#: Names of the C interface's numbers.
_DEVICES = ("", "cpu", "rocm", "cuda", "vulkan")
_IMPLEMENTATIONS = ("", "library", "generated", "reference")


class Engine(NamedTuple):
    """A loaded engine."""

    name: str
    id: int
    plugin: str
    version: str
    type: str
    #: What it computes on, 1 for the host, and where its kernels come from: numbers of the C interface.
    of: tuple[int, int] = (0, 0)

    @property
    def device(self) -> str:
        """What it computes on: "cpu", "rocm", "cuda" or "vulkan"; empty if its plugin does not tell."""
        return _DEVICES[self.of[0]]

    @property
    def implementation(self) -> str:
        """Where its kernels come from: "library", "generated" or "reference"; empty for its own."""
        return _IMPLEMENTATIONS[self.of[1]]


def library() -> Library:
    """The open library: the one in the folder ``HIPDNN_BACKEND_LIBRARY_PATH``, else this package's, else the loader's."""
    found = _open.get("library")
    if found is None:
        named = os.environ.get("HIPDNN_BACKEND_LIBRARY_PATH")
        if not named and (PACKAGED / _FILE).is_file():
            named = str(PACKAGED)
        found = _open.setdefault("library", Library(named or None))
    return found


def reset() -> None:
    """Frees what is kept for graphs that come again: plans, workspaces and the library's caches, those of `hipdnn.torch`, too.

    The memory goes back to the system. Graphs that exist keep their plans.
    """
    plans.clear()
    if "library" in _open:
        _open["library"].reset()
    if f"{__package__}.torch" in sys.modules:
        _native.torch_clear()
    _native.give_back()


def engines() -> list[Engine]:
    """Every engine that the library has loaded."""
    return [Engine(*engine) for engine in library().engines()]


def host_engines() -> set[int]:
    """The ids of engines that compute in host memory."""
    return {engine.id for engine in engines() if engine.device == "cpu"}


#: The engines that take memory of a kind of GPU; those that do not tell are assumed to support both makers'.
_OF_GPUS = {ROCM: ("rocm", ""), CUDA: ("cuda", ""), VULKAN: ("vulkan",)}


@functools.lru_cache(None)
def _computes_on(kind: int, pid: int) -> frozenset[int]:
    on_host = host_engines()
    if kind == HOST[0]:
        # Where there is no GPU, engines that do not tell can only compute on the host.
        untold = {engine.id for engine in engines() if not engine.device} if first_gpu() is None else set()
        return frozenset(on_host | untold)
    on_gpu = {engine.id for engine in engines() if engine.device in _OF_GPUS.get(kind, ())}
    if kind == VULKAN:
        # CPU engines do not know its memory.
        return frozenset(on_gpu)
    # CPU engines then copy from and to the GPU; the library's order puts GPU engines first.
    return frozenset(on_gpu | on_host if os.environ.get("HIPDNN_CPU_FALLBACK", "0") not in ("", "0") else on_gpu)


def forget_engines() -> None:
    """Forgets which engines there are, and graphs and plans: others will be loaded."""
    plans.made.clear()
    _computes_on.cache_clear()


def computes_on(device: Device) -> frozenset[int]:
    """The ids of engines that take arrays on a device."""
    return _computes_on(device[0], os.getpid())


def engine_device(engine: int) -> Device:
    """The first device that an engine computes on."""
    return next((device for device in (HOST, (CUDA, 0), (ROCM, 0), (VULKAN, 0)) if engine in computes_on(device)), HOST)


def is_log_wanted() -> bool:
    """Whether the program asked for the library's log. Engines log their reasons: if not, they are kept off standard error."""
    return os.environ.get("HIPDNN_LOG_LEVEL", "off") not in ("", "off") or "HIPDNN_LOG_FILE" in os.environ
