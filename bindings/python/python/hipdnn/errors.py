"""Errors and warnings."""

from __future__ import annotations

from ._native import ArrayError, EngineError, Error

__all__ = [
    "ArgumentError",
    "ArrayError",
    "EngineError",
    "EngineWarning",
    "Error",
    "GraphError",
    "NoEngineError",
    "UnsupportedError",
    "cudnnGraphNotSupportedError",
]


class cudnnGraphNotSupportedError(Error):
    """cuDNN's name for the error raised for a graph that cannot be computed here; the message has the reason."""


class GraphError(Error, ValueError):
    """An invalid graph: names the node, the argument and what was expected."""

    def __init__(self, node: str, argument: str, expected: str) -> None:
        super().__init__(f"{node}: {argument}: {expected}")
        self.node = node
        self.argument = argument
        self.expected = expected


class ArgumentError(Error, TypeError):
    """An argument of the wrong type."""


class UnsupportedError(GraphError, cudnnGraphNotSupportedError):
    """An argument of cuDNN's that operations here do not support."""


class NoEngineError(cudnnGraphNotSupportedError):
    """No engine can run a graph. ``reasons`` maps the name of each engine to its reason."""

    def __init__(self, message: str, reasons: dict[str, str]) -> None:
        super().__init__(message)
        self.reasons = reasons


class EngineWarning(RuntimeWarning):
    """An engine that offered to run a graph failed, and the next one runs it."""
