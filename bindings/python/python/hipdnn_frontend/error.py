"""Errors as values: calls return them, and a good one means success."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

import hipdnn

from .types import Numbered

__all__ = ["Error", "ErrorCode", "as_error", "bad", "raising"]

F = TypeVar("F", bound=Callable[..., Any])


class ErrorCode(Numbered):
    """The kind of an error."""

    OK = 0
    INVALID_VALUE = 1
    HIPDNN_BACKEND_ERROR = 2
    ATTRIBUTE_NOT_SET = 3
    GRAPH_NOT_SUPPORTED = 4
    SHAPE_DEDUCTION_FAILED = 101
    INVALID_TENSOR_NAME = 102
    INVALID_VARIANT_PACK = 103
    GRAPH_EXECUTION_PLAN_CREATION_FAILED = 104
    GRAPH_EXECUTION_FAILED = 105
    HEURISTIC_QUERY_FAILED = 106
    UNSUPPORTED_GRAPH_FORMAT = 107
    CUDA_API_FAILED = 108
    CUDNN_BACKEND_API_FAILED = 109
    INVALID_CUDA_DEVICE = 110
    HANDLE_ERROR = 111
    NVRTC_COMPILATION_FAILED = 112


class Error:
    """The result of a call: a code, and a message if the call failed."""

    def __init__(self, code: ErrorCode = ErrorCode.OK, err_msg: str = "") -> None:
        self.code = code
        self.err_msg = err_msg

    def get_code(self) -> ErrorCode:
        """The kind of the error; ``OK`` if the call succeeded."""
        return self.code

    def get_message(self) -> str:
        """What failed; empty if the call succeeded."""
        return self.err_msg

    def is_good(self) -> bool:
        """Whether the call succeeded."""
        return self.code is ErrorCode.OK

    def is_bad(self) -> bool:
        """Whether the call failed."""
        return self.code is not ErrorCode.OK

    def __repr__(self) -> str:
        return f"<Error {self.code.name}{': ' * bool(self.err_msg)}{self.err_msg}>"


def bad(message: str, code: ErrorCode = ErrorCode.INVALID_VALUE) -> Error:
    """A failure."""
    return Error(code, message)


def _of(error: hipdnn.Error) -> Error:
    if isinstance(error, hipdnn.NoEngineError):
        code = ErrorCode.GRAPH_NOT_SUPPORTED
    elif isinstance(error, (hipdnn.GraphError, hipdnn.ArrayError)):
        code = ErrorCode.INVALID_VALUE
    else:
        code = ErrorCode.HIPDNN_BACKEND_ERROR
    return Error(code, str(error) or type(error).__name__)


class Refused(hipdnn.Error):
    """A failure with its code, on its way to the call that returns it."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_VALUE) -> None:
        super().__init__(message)
        self.error = Error(code, message)


def as_error(method: Callable[..., None]) -> Callable[..., Error]:
    """Makes a method return an `Error` in place of raising the library's."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Error:
        try:
            method(*args, **named)
        except Refused as refused:
            return refused.error
        except hipdnn.Error as error:
            return _of(error)
        return Error()

    return call


def raising(what: str) -> Callable[[F], F]:
    """Makes a method raise RuntimeError, which says what failed, in place of the library's errors."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return method(*args, **named)
            except hipdnn.Error as error:
                raise RuntimeError(f"{what}: {error}") from None

        return call  # type: ignore[return-value]

    return decorate
