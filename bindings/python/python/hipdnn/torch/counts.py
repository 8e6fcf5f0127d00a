"""What was computed here and what went on in PyTorch, for each place of a program."""

from __future__ import annotations

import collections
import os
import sys
from types import CodeType
from typing import NamedTuple

import torch

from .._native import Counts

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


_counts: dict[tuple[str, str, int], Counts] = {}


def counts_of(function: str, place: tuple[str, int]) -> Counts:
    """The counts of a function at a file and line."""
    key = (function, *place)
    found = _counts.get(key)
    return found if found is not None else _counts.setdefault(key, Counts(collections.Counter()))


def is_inside(code: CodeType) -> bool:
    """Whether code is PyTorch's or this package's, rather than the program's."""
    return code.co_filename.startswith((_HERE, _TORCH))


def report() -> list[Routed]:
    """What was computed where, one entry for each place of the program."""
    return [
        Routed(function, f"{file}:{line}", counts.routed, sum(counts.reasons.values()), tuple(counts.reasons))
        for (function, file, line), counts in list(_counts.items())
    ]


def clear() -> None:
    """Forgets all."""
    _counts.clear()
