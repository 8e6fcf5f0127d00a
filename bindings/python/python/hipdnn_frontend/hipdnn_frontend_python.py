"""The name that hipDNN's own package has for its extension module."""

from __future__ import annotations

from typing import Any

from . import *  # noqa: F403
from .pack import memory_of

__all__: list[str] = []


def _get_data_ptr(value: Any) -> int:
    """The address that executions take a value for."""
    return memory_of(value).address
