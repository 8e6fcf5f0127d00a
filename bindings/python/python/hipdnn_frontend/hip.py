"""Parts of HIP's own interface, for programs that measure times: where there is no HIP, they raise RuntimeError."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from typing import Any

from hipdnn.device import ROCM, driver_files

__all__ = [
    "HipEvent",
    "HipStallGate",
    "hip_can_use_stream_wait_value",
    "hip_device_synchronize",
    "hip_get_device_count",
    "hip_stream_synchronize",
]

_NO_DEVICE = 100
#: hipDeviceAttributeCanUseStreamWaitValue, hipMallocSignalMemory, hipStreamWaitValueEq, hipStreamNonBlocking.
_CAN_WAIT, _SIGNAL_MEMORY, _EQUAL, _NON_BLOCKING = 10013, 2, 1, 1
#: The most seconds that a gate keeps a stream waiting.
_LONGEST = 2.0


@functools.lru_cache(None)
def _hip() -> ctypes.CDLL | None:
    for file in driver_files(ROCM):
        try:
            return ctypes.CDLL(file)
        except OSError:
            continue
    return None


def _call(name: str, *args: Any) -> None:
    """Calls one of HIP's functions."""
    hip = _hip()
    if hip is None:
        raise RuntimeError(f"{name}: HIP is not here, expected one of {', '.join(driver_files(ROCM))}")
    status = getattr(hip, name)(*args)
    if status != 0:
        hip.hipGetErrorString.restype = ctypes.c_char_p
        text = hip.hipGetErrorString(status) or b"unknown error"
        raise RuntimeError(f"{name} failed: {text.decode(errors='replace')} ({status})")


class HipEvent:
    """An event of HIP."""

    def __init__(self) -> None:
        self._event = ctypes.c_void_p()
        _call("hipEventCreate", ctypes.byref(self._event))

    def _alive(self) -> ctypes.c_void_p:
        if not self._event:
            raise RuntimeError("HIP event has been destroyed, expected a live one")
        return self._event

    def record(self, stream: int = 0) -> None:
        """Records the event on a stream, given by address."""
        _call("hipEventRecord", self._alive(), ctypes.c_void_p(int(stream)))

    def synchronize(self) -> None:
        """Waits for the event."""
        _call("hipEventSynchronize", self._alive())

    def elapsed_time(self, stop_event: HipEvent) -> float:
        """The milliseconds from this event to another."""
        found = ctypes.c_float()
        _call("hipEventElapsedTime", ctypes.byref(found), self._alive(), stop_event._alive())
        if not math.isfinite(found.value) or found.value < 0:
            raise RuntimeError(
                f"hipEventElapsedTime returned {found.value} milliseconds, expected a time of at least 0"
            )
        return found.value

    def destroy(self) -> None:
        """Destroys the event."""
        event, self._event = self._event, ctypes.c_void_p()
        if event:
            _call("hipEventDestroy", event)

    def ptr(self) -> int:
        """The address of the event."""
        return self._alive().value or 0

    __int__ = ptr
    __index__ = ptr

    def __del__(self) -> None:
        if getattr(self, "_event", None):
            self.destroy()

    def __repr__(self) -> str:
        return f"<hipdnn_frontend.HipEvent at {self.ptr():#x}>"


def hip_stream_synchronize(stream: int = 0) -> None:
    """Waits for a stream, given by address."""
    _call("hipStreamSynchronize", ctypes.c_void_p(int(stream)))


def hip_device_synchronize() -> None:
    """Waits for all work of the current device."""
    _call("hipDeviceSynchronize")


def hip_get_device_count() -> int:
    """The number of HIP devices; 0 if there is no HIP."""
    hip, count = _hip(), ctypes.c_int()
    if hip is None or hip.hipGetDeviceCount(ctypes.byref(count)) == _NO_DEVICE:
        return 0
    _call("hipGetDeviceCount", ctypes.byref(count))
    return count.value


def hip_can_use_stream_wait_value() -> bool:
    """Whether streams of the current device can wait for a value in memory, which `HipStallGate` needs."""
    device, found = ctypes.c_int(), ctypes.c_int()
    _call("hipGetDevice", ctypes.byref(device))
    _call("hipDeviceGetAttribute", ctypes.byref(found), _CAN_WAIT, device)
    return found.value != 0


class HipStallGate:
    """Keeps a stream waiting until ``release``, so that what is queued meanwhile runs without gaps; at most two seconds."""

    #: Whether a gate was not released in time: none is armed after that, since times would be of the host.
    _is_off = False

    def __init__(self) -> None:
        self._memory: ctypes.c_void_p | None = None
        if not hip_can_use_stream_wait_value():
            raise RuntimeError(
                "hipStreamWaitValue32 is not supported by this device, expected one that can wait for a value"
            )
        memory, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        _call("hipExtMallocWithFlags", ctypes.byref(memory), ctypes.c_size_t(8), ctypes.c_uint(_SIGNAL_MEMORY))
        self._memory, self._watchdog, self._timed_out = memory, None, False
        # Values are written by a stream that does not wait for the one that is stalled.
        _call("hipStreamCreateWithFlags", ctypes.byref(self._stream), ctypes.c_uint(_NON_BLOCKING))

    _watchdog: threading.Timer | None

    def _alive(self) -> ctypes.c_void_p:
        if self._memory is None:
            raise RuntimeError("HipStallGate is closed: it has been destroyed, expected a live one")
        return self._memory

    def _write(self, value: int) -> None:
        _call("hipStreamWriteValue32", self._stream, self._alive(), ctypes.c_uint32(value), ctypes.c_uint(0))
        _call("hipStreamSynchronize", self._stream)

    def arm(self, stream: int = 0) -> None:
        """Makes a stream, given by address, wait. Synchronize a stream that waited before."""
        memory = self._alive()
        self._timed_out = False
        if HipStallGate._is_off:
            raise RuntimeError(
                "HipStallGate: the watchdog released an earlier gate after 2 s, so streams are not stalled any more"
            )
        self.release()
        self._write(0)
        watchdog = threading.Timer(_LONGEST, self._expire)
        watchdog.daemon = True
        words = (ctypes.c_uint32(1), ctypes.c_uint(_EQUAL), ctypes.c_uint32(0xFFFFFFFF))
        _call("hipStreamWaitValue32", ctypes.c_void_p(int(stream)), memory, *words)
        self._watchdog = watchdog
        watchdog.start()

    def _expire(self) -> None:
        if self._memory is not None and self._watchdog is not None:
            HipStallGate._is_off, self._timed_out = True, True
            self._write(1)

    def release(self) -> None:
        """Lets the stream go on."""
        self._alive()
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.cancel()
            self._write(1)

    def timed_out(self) -> bool:
        """Whether the last stall ended after two seconds, without ``release``."""
        self._alive()
        return self._timed_out

    def close(self) -> None:
        """Releases the stream, and frees the memory that it waits for."""
        if self._memory is None:
            return
        self.release()
        memory, self._memory = self._memory, None
        _call("hipFree", memory)
        if self._stream:
            _call("hipStreamDestroy", self._stream)

    destroy = close

    def __enter__(self) -> HipStallGate:
        self._alive()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
