"""Has PyTorch's dispatcher call hipDNN's kernels, for the threads that want it.

The kernels are in Rust (``src/torch``). They are registered under a dispatch key that no backend uses and that lies right above the
backends: below autograd, autocast, tracing, ``torch.func`` and every mode in Python, which all stay PyTorch's. Including the key in a
thread's set switches them on there, so other threads pay nothing, and PyTorch's threads for gradients follow the one that asks for them.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import warnings
from typing import Any

import torch

from .. import _native
from ..library import library

#: No backend of PyTorch has it; the dispatcher looks at it before CPU and CUDA and after all that is not a backend.
KEY = "CustomRNGKeyId"

_C: Any = torch._C

#: Kernels for several keys, which the dispatcher would take for this one as well.
_EXPLICIT = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
#: The parts of an operation, which autograd looks at one by one.
_IMPLICIT = "CompositeImplicitAutograd"
_BACKENDS = ("CPU", "CUDA", "Meta")

#: Operations that may be new are looked for again after so many seconds.
_AGAIN = 1.0


class _Registration:
    """The kernels of this process, registered when they are first wanted."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)
        self._libraries: dict[str, Any] = {}
        self._known: set[str] = set()
        self._kept: set[str] = set()
        self._looked = float("-inf")
        #: Why there are none.
        self.missing: str | None = None

    def ready(self) -> bool:
        """Whether kernels are there; registers them once."""
        with self._lock:
            if self.missing is None and time.monotonic() - self._looked > _AGAIN:
                try:
                    self._look()
                except (_native.Error, AttributeError, RuntimeError) as error:
                    self.missing = str(error)
                    warnings.warn(f"hipdnn.torch leaves PyTorch alone: {error}", RuntimeWarning, stacklevel=4)
            return self.missing is None

    def _renew(self) -> None:
        """Opens the lock in a forked child, whichever thread of its parent had it."""
        self._lock = threading.Lock()

    def _look(self) -> None:
        if not self._known:
            # Where there is no kernel for the key, the next one is taken.
            self._of("_").fallback(KEY, torch.library.fallthrough_kernel, False)
            major, minor = (int(part) for part in torch.__version__.split(".")[:2])
            number, tracer = (int(_C._dispatch_key_parse(key)) for key in (KEY, "Tracer"))
            version = major << 56 | minor << 48
            _native.torch_register(library(), KEY, number, tracer, version, torch.version.hip is not None)
            self._known.update(_native.torch_operations())
        has = _C._dispatch_has_kernel_for_dispatch_key
        for name in _C._dispatch_get_all_op_names():
            if name in self._known or not _C._dispatch_has_kernel(name):
                continue
            self._known.add(name)
            namespace, _, operation = name.partition("::")
            has_explicit, has_implicit = any(has(name, key) for key in _EXPLICIT), has(name, _IMPLICIT)
            if has(name, "BackendSelect"):
                # It calls the next kernel by itself, without asking which keys are passed over.
                if not has_explicit and not has_implicit:
                    self._of(namespace).impl(operation, KEY, _without_key(name), False)
            elif has_explicit or has_implicit and any(has(name, key) for key in _BACKENDS):
                # Else the kernel for several keys would be taken before that of the backend.
                self._of(namespace).impl(operation, KEY, torch.library.fallthrough_kernel, False)
                if has_implicit:
                    self._keep_implicit(name)
        for name in _native.torch_operations():
            if has(name, _IMPLICIT):
                self._keep_implicit(name)
        self._looked = time.monotonic()

    def _keep_implicit(self, name: str) -> None:
        """Has tensors of other backends find an operation's parts, which a kernel of one of them makes ambiguous."""
        if name not in self._kept and not _C._dispatch_has_kernel_for_dispatch_key(name, "AutogradOther"):
            namespace, _, operation = name.partition("::")
            self._of(namespace).impl(operation, "AutogradOther", _function(name).decompose, False)
        self._kept.add(name)

    def _of(self, namespace: str) -> Any:
        if namespace not in self._libraries:
            made = _C._dispatch_library("IMPL", namespace, "", __file__, 0)
            # Threads may compute until the process has ended, so the registrations never do.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
            self._libraries[namespace] = made
        return self._libraries[namespace]


def _function(name: str) -> Any:
    """An operation, by its name."""
    namespace, _, operation = name.partition("::")
    operation, _, overload = operation.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), operation), overload or "default")


def _without_key(name: str) -> Any:
    """The operation as PyTorch has it."""
    function = _function(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        _C._dispatch_tls_set_dispatch_key_excluded(KEY, True)
        try:
            return function(*args, **kwargs)
        finally:
            _C._dispatch_tls_set_dispatch_key_excluded(KEY, False)

    return kernel


_registration = _Registration()
_local = threading.local()


def _active() -> list[enable]:
    """What is on in this thread, the last one last."""
    if not hasattr(_local, "active"):
        _local.active = []
    active: list[enable] = _local.active
    return active


def _switch(on: bool) -> None:
    if _registration.missing is None:
        _C._dispatch_tls_set_dispatch_key_included(KEY, on)


class enable:
    """Has hipDNN compute PyTorch's operations in this thread where it is faster: until ``disable()``, or as a context manager.

    On CPUs the first calls with new shapes go to both in turns, and the faster one computes from then on. With ``timed=False`` hipDNN
    computes all that its engines can.
    """

    def __init__(self, *, timed: bool = True) -> None:
        self.timed = timed
        if _registration.ready():
            _native.torch_always(not timed)
        _active().append(self)
        _switch(True)

    def __enter__(self) -> enable:
        # It is on already; the end of the context switches it off.
        return self

    def __exit__(self, *error: Any) -> None:
        active = _active()
        if self not in active:
            return
        active.remove(self)
        if active:
            _native.torch_always(not active[-1].timed)
        else:
            _native.torch_always(False)
            _switch(False)


def disable() -> None:
    """Ends what ``enable()`` began in this thread."""
    while _active():
        _active()[-1].__exit__(None, None, None)


if os.environ.setdefault("HIPDNN_CPU_THREAD_POOL", "openmp") == "openmp":
    # PyTorch's OpenMP threads poll for a while after each of its functions: CPU_ENGINE computes on them instead of taking their processors.
    # In a child by fork these threads are missing, and OpenMP would wait for them.
    os.register_at_fork(after_in_child=lambda: os.environ.update(HIPDNN_CPU_THREAD_POOL="own"))
