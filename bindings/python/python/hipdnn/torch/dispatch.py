"""Makes PyTorch's dispatcher call hipDNN's kernels in the threads that enabled them.

The kernels are in Rust (``src/torch``). They are registered under a dispatch key that no backend uses and that lies right above the
backends: below autograd, autocast, tracing, ``torch.func`` and every Python mode, which all stay PyTorch's. Adding the key to a
thread's included set enables them there, so other threads pay nothing, and autograd threads follow the thread that calls backward.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import inspect
import os
import sys
import threading
import time
import warnings
from typing import Any

import torch

from .. import __version__, _native
from ..library import library
from . import stored

#: Keys without a backend in PyTorch, which the dispatcher tries before CPU and CUDA and after everything that is not a backend. The first
#: has every operation, the second those that engines compute faster on GPUs: a thread switches to it when it meets a GPU tensor.
KEYS = ("CustomRNGKeyId", "FPGA")

_C: Any = torch._C

#: Kernels for several keys, which the dispatcher would use for these keys as well.
_EXPLICIT = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
#: Decompositions, whose parts autograd handles one by one.
_IMPLICIT = "CompositeImplicitAutograd"
_BACKENDS = ("CPU", "CUDA", "Meta")

#: Seconds between searches for new operations.
_AGAIN = 1.0


class _Registration:
    """The kernels of this process, registered on first use."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)
        self._libraries: dict[str, Any] = {}
        self._known: set[str] = set()
        self._kept: set[str] = set()
        self._ours: dict[str, set[str]] = {}
        self._looked = float("-inf")
        self._has_named = False
        #: Why there are no kernels.
        self.missing: str | None = None

    def ready(self) -> bool:
        """Whether kernels are available; registers them once."""
        with self._lock:
            if self.missing is None and time.monotonic() - self._looked > _AGAIN:
                try:
                    self._look()
                except (_native.Error, AttributeError, RuntimeError) as error:
                    self.missing = str(error)
                    warnings.warn(f"hipdnn.torch leaves PyTorch alone: {error}", RuntimeWarning, stacklevel=4)
            return self.missing is None

    def _renew(self) -> None:
        """Replaces the lock in a forked child: a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def _look(self) -> None:
        if not self._known:
            numbers = [int(_C._dispatch_key_parse(key)) for key in (*KEYS, "Tracer", "Python")]
            for key in KEYS:
                # Without a kernel for this key, the dispatcher falls through to the next one.
                self._of("_").fallback(key, torch.library.fallthrough_kernel, False)
            major, minor = (int(part) for part in torch.__version__.split(".")[:2])
            keys = [*zip(KEYS, numbers)]
            # The library reads the cache folder when it loads its plugins. Host plans are not stored: making them is as fast as reading.
            if torch.cuda.is_available() and (folder := stored.choose(os.environ)):
                stored.trim(folder)
            _native.torch_register(
                library(), keys, numbers[len(KEYS) :], major << 56 | minor << 48, torch.version.hip is not None
            )
            if folder := stored.find(os.environ):
                _native.torch_choices(str(stored.choices(folder, (torch.__version__, __version__))))
            self._ours = {key: set(_native.torch_operations(key == KEYS[1])) for key in KEYS}
        if not self._has_named and torch.cuda.is_initialized():
            # Asking earlier would initialize the GPUs, which a forked child could not use then.
            _native.torch_name_gpus([torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())])
            self._has_named = True
        names = {name for name in {*_C._dispatch_get_all_op_names()} - self._known if _C._dispatch_has_kernel(name)}
        if not names:
            # Training steps begin often, and the queries below take longer than many of them.
            self._looked = time.monotonic()
            return
        having = lambda *keys: {name for key in keys for name in _C._dispatch_get_registrations_for_dispatch_key(key)}  # noqa: E731
        explicit, implicit, chosen = having(*_EXPLICIT), having(_IMPLICIT), having("BackendSelect")
        # For these, the kernel for several keys would win over the backend's.
        mixed = explicit | implicit & having(*_BACKENDS)
        for name in names & (mixed | chosen):
            namespace, _, operation = name.partition("::")
            for key in KEYS:
                if name in self._ours[key]:
                    continue
                if name not in chosen:
                    self._of(namespace).impl(operation, key, torch.library.fallthrough_kernel, False)
                elif name not in explicit and name not in implicit:
                    # BackendSelect calls the next kernel itself and ignores excluded keys.
                    self._of(namespace).impl(operation, key, _without_keys(name), False)
                elif (dispatch_key := _C._dispatch_key_parse(key)) not in _function(name).py_kernels:
                    # While PyTorch traces for its compilers, it looks for kernels in Python by the first key, which is one of these.
                    _function(name).py_impl(dispatch_key)(_without_keys(name))
        for name in names & implicit & (mixed - chosen | self._ours[KEYS[0]]):
            self._keep_implicit(name)
        self._known |= names
        self._looked = time.monotonic()

    def _keep_implicit(self, name: str) -> None:
        """Lets other backends use an operation's decomposition, which a backend's kernel makes ambiguous."""
        if name not in self._kept and not _C._dispatch_has_kernel_for_dispatch_key(name, "AutogradOther"):
            namespace, _, operation = name.partition("::")
            self._of(namespace).impl(operation, "AutogradOther", _function(name).decompose, False)
        self._kept.add(name)

    def _of(self, namespace: str) -> Any:
        if namespace not in self._libraries:
            made = _C._dispatch_library("IMPL", namespace, "", __file__, 0)
            # Threads may compute until the process exits, so registrations are never freed.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
            self._libraries[namespace] = made
        return self._libraries[namespace]


def _function(name: str) -> Any:
    """An operation by its name."""
    namespace, _, operation = name.partition("::")
    operation, _, overload = operation.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), operation), overload or "default")


def _without_keys(name: str) -> Any:
    """PyTorch's own operation."""
    function = _function(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        for key in KEYS:
            _C._dispatch_tls_set_dispatch_key_excluded(key, True)
        try:
            return function(*args, **kwargs)
        finally:
            for key in KEYS:
                _C._dispatch_tls_set_dispatch_key_excluded(key, False)

    return kernel


_registration = _Registration()
_local = threading.local()


def _active() -> list[enable]:
    """The enabled contexts of this thread, the latest last."""
    if not hasattr(_local, "active"):
        _local.active = []
    active: list[enable] = _local.active
    return active


#: The enabled contexts of the process, the latest last.
_of_process: list[enable] = []


#: The enabled contexts of all threads that ask for batch invariance. While there is one, every thread has it: kernels of autograd's
#: threads belong to it, too.
_invariant: list[enable] = []


def is_enabled() -> bool:
    """Whether this thread or the process enabled hipDNN's kernels."""
    return bool(_active() or _of_process)


def _switch() -> None:
    """Enables kernels in this thread if the thread or the process wants them, and disables them otherwise."""
    if _registration.missing is not None:
        return
    active = _active() or _of_process
    _native.torch_invariant(bool(_invariant))
    _native.torch_always(bool(_invariant) or bool(active) and not active[-1].timed)
    _native.torch_switch(bool(active), not _active(), not active or active[-1].is_step)


class _Threads:
    """Enables kernels in other threads, for the process: Python calls a profile function in each thread, which then removes itself."""

    def __init__(self) -> None:
        self._before: Any = None
        self._is_set = False

    def begin(self) -> None:
        if not self._is_set:
            self._before, self._is_set = getattr(threading, "_profile_hook", None), True
            of_this_thread = sys.getprofile()
            # Running threads, from Python 3.12 on, and future ones.
            getattr(threading, "setprofile_all_threads", threading.setprofile)(self._follow)
            sys.setprofile(of_this_thread)

    def end(self) -> None:
        if self._is_set:
            self._is_set = False
            threading.setprofile(self._before)

    def _follow(self, frame: Any, event: str, argument: Any) -> None:
        sys.setprofile(self._before)
        if _of_process and not _active():
            _switch()
        if self._before is not None:
            self._before(frame, event, argument)


_threads = _Threads()


class enable:
    """Lets hipDNN compute PyTorch's operations in this thread where it is faster: until ``disable()``, as a context manager, or as
    a decorator.

    On CPUs, the first calls with new shapes alternate between both, and the faster one computes from then on. With ``timed=False``,
    hipDNN computes everything that its engines support. With ``process=True``, this applies to all Python threads, including future
    ones; before Python 3.12, other threads that already run are left out.

    With ``batch_invariant=True``, a row, image or sequence that hipDNN computes has the same bits whatever else is in its batch; this
    implies ``timed=False``. ``report()`` tells which operations PyTorch's own kernels computed.
    """

    #: Whether calls belong to the steps of a program, which are timed as a whole.
    is_step = True

    def __init__(self, *, timed: bool = True, process: bool = False, batch_invariant: bool = False) -> None:
        self.timed = timed and not batch_invariant
        self.batch_invariant = batch_invariant
        self._list = _of_process if process else _active()
        _registration.ready()
        self._list.append(self)
        if batch_invariant:
            _invariant.append(self)
        if process:
            _native.torch_switch_process(True)
            _threads.begin()
        _switch()

    def __enter__(self) -> enable:
        # Enabled by the constructor; leaving the context disables it.
        return self

    def __call__(self, function: Any) -> Any:
        """As a decorator: applies while the function runs."""
        self.__exit__(None, None, None)
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(
                f"enable() decorates {function!r}, expected a function that is neither a coroutine nor a generator"
            )

        @functools.wraps(function)
        def enabled(*args: Any, **named: Any) -> Any:
            process = self._list is _of_process
            with enable(timed=self.timed, process=process, batch_invariant=self.batch_invariant):
                return function(*args, **named)

        return enabled

    def __exit__(self, *error: Any) -> None:
        if self not in self._list:
            return
        self._list.remove(self)
        if self.batch_invariant:
            _invariant.remove(self)
        if self._list is _of_process and not _of_process:
            _threads.end()
            # Other threads notice at their next call.
            _native.torch_switch_process(False)
        _switch()


def disable(*, process: bool = False) -> None:
    """Ends what ``enable()`` began in this thread, or for the process."""
    of = _of_process if process else _active()
    while of:
        of[-1].__exit__(None, None, None)


# A plan still being made at exit would use libraries that are unloaded before it.
atexit.register(_native.torch_end)

if os.environ.setdefault("HIPDNN_CPU_THREAD_POOL", "openmp") == "openmp":
    # PyTorch's OpenMP threads spin for a while after each of its functions: CPU_ENGINE runs on them rather than compete for processors.
    # A forked child lacks these threads, and OpenMP would wait for them.
    os.register_at_fork(after_in_child=lambda: os.environ.update(HIPDNN_CPU_THREAD_POOL="own"))
