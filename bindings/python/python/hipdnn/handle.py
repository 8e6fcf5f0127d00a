"""Handles, as in cuDNN: here they set the stream of executions."""

from __future__ import annotations

from typing import Any, Callable

from . import _native
from .errors import ArgumentError, Error

__all__ = ["Handle", "create_handle", "destroy_handle", "get_stream", "set_stream"]


class Handle:
    """What `create_handle` returns. Any thread may use it; a new stream applies to executions that begin later."""

    def __init__(self) -> None:
        self._is_alive = True
        #: The stream as it was given, kept alive here, and its address.
        self._stream: tuple[Any, int] | None = None

    def __repr__(self) -> str:
        if not self._is_alive:
            return "<Handle, destroyed>"
        return "<Handle>" if self._stream is None else f"<Handle of stream {self._stream[1]:#x}>"

    def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function whose executions use the stream."""
        stream = to_handle(self)._stream
        return function(*args) if stream is None else _native.on_stream(stream[1], function, *args)


def to_handle(handle: Any) -> Handle:
    """Returns a valid handle; raises an error for anything else."""
    if not isinstance(handle, Handle):
        raise ArgumentError(f"handle: is {handle!r}, expected a handle from create_handle")
    if not handle._is_alive:
        raise Error("handle: was destroyed, expected a live handle from create_handle")
    return handle


def create_handle() -> Handle:
    """A handle for `Graph(handle=...)` and `execute(handle=...)`. Until a stream is set, the arrays determine it as without a handle."""
    return Handle()


def destroy_handle(handle: Handle) -> None:
    """Destroys a handle; queued work goes on, and later executions with the handle raise an error."""
    to_handle(handle)._is_alive = False
    handle._stream = None


def set_stream(handle: Handle, stream: Any) -> None:
    """Sends later executions with the handle to a stream of the GPU that their arrays are on; has no effect on the host.

    ``stream`` is its address (`torch.cuda.current_stream().cuda_stream`, 0 for the default stream), or a stream of PyTorch, of CuPy
    or with ``__cuda_stream__``, which is kept alive. A stream given by address must outlive the executions that use it. The device
    orders the work after what other streams do with the arrays.
    """
    to_handle(handle)._stream = stream, _address(stream)


def get_stream(handle: Handle) -> int:
    """The address of the stream that was set; 0, the default stream, if none was."""
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
