"""The library that graphs are computed with."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NamedTuple

from . import _native
from ._native import Library
from .device import CUDA, HOST, ROCM, Device

#: The folder of this package that has the library and its plugins.
PACKAGED = Path(__file__).parent / "lib"

#: The library's file there.
_FILE = "hipdnn_backend.dll" if os.name == "nt" else "libhipdnn_backend.so"

#: The open library, once it is. `setdefault` is one operation, which no signal comes into: of two threads the first one's stays.
_open: dict[str, Library] = {}

# Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.forked)


class Engine(NamedTuple):
    """An engine that is loaded."""

    name: str
    id: int
    plugin: str
    version: str
    type: str


def library() -> Library:
    """The open library: the one in the folder ``HIPDNN_BACKEND_LIBRARY_PATH``, else this package's, else the loader's."""
    found = _open.get("library")
    if found is None:
        named = os.environ.get("HIPDNN_BACKEND_LIBRARY_PATH")
        if not named and (PACKAGED / _FILE).is_file():
            named = str(PACKAGED)
        found = _open.setdefault("library", Library(named or None))
    return found


def engines() -> list[Engine]:
    """Every engine that the library has loaded."""
    return [Engine(*engine) for engine in library().engines()]


def host_engines() -> set[int]:
    """The ids of engines that compute in host memory: the library does not say it, so the CPU plugin's and what is called alike."""
    return {engine.id for engine in engines() if engine.plugin == "CPU" or engine.name.startswith("CPU_")}


#: What engines of one maker's GPUs are called; engines of other names are taken to compute on either.
_MAKERS = {ROCM: ("CUDNN_", "CUBLASLT_", "NVRTC_"), CUDA: ("MIOPEN_", "HIPBLASLT_", "HIPRTC_")}


@functools.lru_cache(None)
def _computes_on(kind: int, pid: int) -> frozenset[int]:
    on_host = host_engines()
    if kind == HOST[0]:
        return frozenset(on_host)
    others = _MAKERS.get(kind, ())
    on_gpu = {engine.id for engine in engines() if engine.id not in on_host and not engine.name.startswith(others)}
    # They copy then; those of the GPU come first in the library's order.
    return frozenset(on_gpu | on_host if os.environ.get("HIPDNN_CPU_FALLBACK", "0") not in ("", "0") else on_gpu)


def computes_on(device: Device) -> frozenset[int]:
    """The ids of engines that take arrays on a device."""
    return _computes_on(device[0], os.getpid())


def engine_device(engine: int) -> Device:
    """The first device that an engine computes on."""
    return next((device for device in (HOST, (CUDA, 0), (ROCM, 0)) if engine in computes_on(device)), HOST)


def is_log_wanted() -> bool:
    """Whether the program asked for the library's log. Reasons of engines come through it: without this they are kept off standard error."""
    return os.environ.get("HIPDNN_LOG_LEVEL", "off") not in ("", "off") or "HIPDNN_LOG_FILE" in os.environ
