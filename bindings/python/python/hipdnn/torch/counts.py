"""What was computed here and what went on in PyTorch, for each place of a program."""

from __future__ import annotations

import collections
import os
import sys
from typing import NamedTuple

import torch

_HERE = os.path.dirname(__file__)
_TORCH = os.path.dirname(torch.__file__)


class Routed(NamedTuple):
    """How often a function was computed here and in PyTorch, from one place of a program."""

    function: str
    place: str
    routed: int
    passed_on: int
    #: Why it went on in PyTorch, where it did.
    reasons: tuple[str, ...]


class Counts:
    """The same, while it is counted."""

    __slots__ = ("reasons", "routed")

    def __init__(self) -> None:
        self.routed = 0
        self.reasons: collections.Counter[str] = collections.Counter()


_counts: dict[tuple[str, str, int], Counts] = {}


def counts_of(function: str, place: tuple[str, int]) -> Counts:
    """The counts of a function at a file and line."""
    key = (function, *place)
    found = _counts.get(key)
    return found if found is not None else _counts.setdefault(key, Counts())


def caller() -> tuple[str, int]:
    """The line of the program that called PyTorch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, _TORCH)):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def report() -> list[Routed]:
    """What was computed where, one entry for each place of the program."""
    return [
        Routed(function, f"{file}:{line}", counts.routed, sum(counts.reasons.values()), tuple(counts.reasons))
        for (function, file, line), counts in list(_counts.items())
    ]


def reset() -> None:
    """Begins the report anew."""
    _counts.clear()
