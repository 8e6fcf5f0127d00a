"""Handles, engines and plugins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import hipdnn
from hipdnn import _native
from hipdnn.library import forget_engines, library

from .types import PluginLoadingMode

__all__ = [
    "EngineInfo",
    "Handle",
    "create_handle",
    "destroy_handle",
    "engine_id_to_name",
    "get_loaded_engine_plugin_paths",
    "get_stream",
    "set_engine_plugin_paths",
    "set_stream",
]


class EngineInfo(NamedTuple):
    """A loaded engine."""

    engine_id: int
    engine_name: str
    plugin_name: str
    version: str
    type: str


class Handle:
    """A handle of the library, and the stream of its executions."""

    def __init__(self, stream: int = 0) -> None:
        self._native: _native.Handle | None = None
        try:
            self._native = _native.Handle(library())
        except hipdnn.Error as error:
            raise RuntimeError(f"Failed to create a handle: {error}") from None
        self._stream = int(stream)

    def _alive(self) -> _native.Handle:
        if self._native is None:
            raise RuntimeError("Handle has been destroyed, expected a live one of create_handle")
        return self._native

    def get(self) -> int:
        """The address of the library's handle."""
        return self._alive().address

    __int__ = get
    __index__ = get

    def __repr__(self) -> str:
        if self._native is None:
            return "<hipdnn_frontend.Handle (destroyed)>"
        return f"<hipdnn_frontend.Handle at {self.get():#x}>"

    def set_stream(self, stream: int) -> None:
        """Sends later executions to a stream of the GPU, given by address; 0 is the default stream."""
        self._alive()
        self._stream = int(stream)

    def get_stream(self) -> int:
        """The address of the stream; 0 for the default stream."""
        self._alive()
        return self._stream

    def get_loaded_engine_plugin_paths(self) -> list[str]:
        """The files of the engine plugins that are loaded."""
        return [os.fspath(path) for path in self._alive().engine_plugin_paths()]

    def get_engine_info(self, engine_id: int) -> EngineInfo:
        """Name, plugin, version and type of a loaded engine; raises IndexError for others."""
        for name, id, plugin, version, kind, _ in self._alive().engines():
            if id == engine_id:
                return EngineInfo(id, name, plugin, version, kind)
        raise IndexError(f"engine_id: is {engine_id}: Engine ID is not loaded")

    def engine_id_to_name(self, engine_id: int) -> str:
        """The name of a loaded engine; raises IndexError for others."""
        return self.get_engine_info(engine_id).engine_name


def address_of(handle: Any) -> int:
    """The address that a handle, or what stands for one, has; 0 for none."""
    return int(handle.get())


def stream_of(handle: Any) -> int:
    """The stream of a handle; the default stream if it has none."""
    return handle.get_stream() if isinstance(handle, Handle) else 0


def create_handle(stream: int = 0) -> Handle:
    """A new handle, for executions on a stream."""
    return Handle(stream)


def destroy_handle(handle: Handle) -> None:
    """Destroys a handle. Plans that were made with it go on."""
    handle._native = None


def set_stream(handle: Handle, stream: int) -> None:
    """Sends later executions with a handle to a stream of the GPU."""
    handle.set_stream(stream)


def get_stream(handle: Handle) -> int:
    """The address of a handle's stream."""
    return handle.get_stream()


def get_loaded_engine_plugin_paths(handle: Handle) -> list[str]:
    """The files of the engine plugins that are loaded."""
    return handle.get_loaded_engine_plugin_paths()


def set_engine_plugin_paths(
    paths: Sequence[str | os.PathLike[str]], mode: PluginLoadingMode = PluginLoadingMode.ADDITIVE
) -> None:
    """Loads engine plugins from files and folders, besides the library's own or in their place. Call it before creating handles."""
    try:
        forget_engines()
        library().set_engine_plugin_paths([os.fspath(path) for path in paths], mode is PluginLoadingMode.ABSOLUTE)
    except hipdnn.Error as error:
        raise RuntimeError(f"Failed to set engine plugin paths: {error}") from None


#: Engines that hipDNN knows by name. The number of an engine is a hash of its name.
_KNOWN = (
    "MIOPEN_ENGINE", "MIOPEN_ENGINE_DETERMINISTIC", "HIPBLASLT_ENGINE", "HIP_MLOPS_ENGINE", "ASM_SDPA_ENGINE",
    "AOT_CATALOG_ENGINE", "FUSILLI_ENGINE",
)  # fmt: skip


def id_of_name(name: str) -> int:
    """The number of the engine with a name: FNV-1a, as a signed number."""
    hash = 0xCBF29CE484222325
    for byte in name.encode():
        hash = (hash ^ byte) * 0x100000001B3 % (1 << 64)
    return hash - (1 << 64) if hash >> 63 else hash


def engine_id_to_name(engine_id: int) -> str:
    """The name of an engine that hipDNN knows or that is loaded; empty for others."""
    known = next((name for name in _KNOWN if id_of_name(name) == engine_id), "")
    return known or next((name for name, id, *_ in library().engines() if id == engine_id), "")
