"""Locks that a forked child finds open, whichever thread of its parent had them."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import _native


class Lock:
    """A lock for ``with``."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


os.register_at_fork(after_in_child=_native.forked)
