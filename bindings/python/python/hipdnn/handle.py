"""Handles, as programs for cuDNN have them: here they say the stream that executions go to."""

from __future__ import annotations

from typing import Any, Callable

from . import _native
from .errors import ArgumentError, Error

__all__ = ["Handle", "create_handle", "destroy_handle", "get_stream", "set_stream"]


class Handle:
    """What `create_handle` answers. Any thread may use it; what it says of a stream holds for executions that begin later."""

    def __init__(self) -> None:
        self._is_alive = True
        #: The stream as it was given, which lives as long, and its address.
        self._stream: tuple[Any, int] | None = None

    def __repr__(self) -> str:
        if not self._is_alive:
            return "<Handle, destroyed>"
        return "<Handle>" if self._stream is None else f"<Handle of stream {self._stream[1]:#x}>"

    def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function whose executions go to the stream."""
        stream = to_handle(self)._stream
        return function(*args) if stream is None else _native.on_stream(stream[1], function, *args)


def to_handle(handle: Any) -> Handle:
    """A handle that was given, if it is one."""
    if not isinstance(handle, Handle):
        raise ArgumentError(f"handle: is {handle!r}, expected what create_handle answered")
    if not handle._is_alive:
        raise Error("handle: was destroyed, expected one that create_handle answered since")
    return handle


def create_handle() -> Handle:
    """A handle for `Graph(handle=...)`, `execute(handle=...)`. Until a stream is set, arrays say the stream as without a handle."""
    return Handle()


def destroy_handle(handle: Handle) -> None:
    """Ends a handle, not what was queued with it; executions that are given it later raise an error."""
    to_handle(handle)._is_alive = False
    handle._stream = None


def set_stream(handle: Handle, stream: Any) -> None:
    """Has later executions with the handle go to a stream of the GPU that their arrays are on; on the host it means nothing.

    ``stream`` is its address (`torch.cuda.current_stream().cuda_stream`, 0 for the default stream), or a stream of PyTorch, of CuPy
    or with ``__cuda_stream__``, which is kept alive. One given by its address has to live as long as executions use it. What other
    streams do with the arrays is put in order with it on the device.
    """
    to_handle(handle)._stream = stream, _address(stream)


def get_stream(handle: Handle) -> int:
    """The address of the stream that was set; 0, the default stream, before."""
    stream = to_handle(handle)._stream
    return 0 if stream is None else stream[1]


def _address(stream: Any) -> int:
    wrong = ArgumentError(f"stream: is {stream!r}, expected an address or a stream of PyTorch or CuPy")
    if hasattr(stream, "__cuda_stream__"):
        told = stream.__cuda_stream__()
        if not isinstance(told, tuple) or len(told) != 2:
            raise wrong
        # Version and address.
        found = told[1]
    else:
        found = next((getattr(stream, name) for name in ("cuda_stream", "ptr") if hasattr(stream, name)), stream)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 64:
        raise wrong
    return int(found)
