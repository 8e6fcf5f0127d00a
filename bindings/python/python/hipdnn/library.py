"""The library that graphs are computed with."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Iterator, NamedTuple

from ._native import Library

#: The folder of this package that has the library and its plugins.
PACKAGED = Path(__file__).parent / "lib"

_lock = threading.Lock()
_library: Library | None = None


class Engine(NamedTuple):
    """An engine that is loaded."""

    name: str
    id: int
    plugin: str
    version: str
    type: str


def library() -> Library:
    """The open library: the one in the folder ``HIPDNN_BACKEND_LIBRARY_PATH``, else this package's, else the loader's."""
    global _library
    with _lock:
        if _library is None:
            named = os.environ.get("HIPDNN_BACKEND_LIBRARY_PATH")
            if not named and (PACKAGED / "libhipdnn_backend.so").is_file():
                named = str(PACKAGED)
            _library = Library(named or None)
        return _library


def engines() -> list[Engine]:
    """Every engine that the library has loaded."""
    return [Engine(*engine) for engine in library().engines()]


def host_engines() -> set[int]:
    """The ids of engines that compute in host memory: the library does not say it, so the CPU plugin's and what is called alike."""
    return {engine.id for engine in engines() if engine.plugin == "CPU" or engine.name.startswith("CPU_")}


@contextlib.contextmanager
def quiet_log() -> Iterator[None]:
    """Keeps the library's log off standard error while engines are asked for their reasons, which come through it."""
    wanted = os.environ.get("HIPDNN_LOG_LEVEL", "off") not in ("", "off") or "HIPDNN_LOG_FILE" in os.environ
    if wanted:
        yield
        return
    # The library reads this once, at the first line that is written.
    os.environ["HIPDNN_LOG_FILE"] = os.devnull
    try:
        yield
    finally:
        os.environ.pop("HIPDNN_LOG_FILE", None)
