"""Lets a program written for cuDNN import hipDNN, and find a GPU if the run is on the host."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import types

import hipdnn
import numpy
import torch

ON_HOST = os.environ.get("PROGRAMS_DEVICE", "cpu") == "cpu"

sys.modules["cudnn"] = hipdnn
for _name in [name for name in sys.modules if name.startswith("hipdnn.")]:
    sys.modules["cudnn" + _name[6:]] = sys.modules[_name]


def on_device(text: str) -> str:
    """A program's text with its device changed, if the run is on the host."""
    return re.sub(r"""(["'])cuda(:\d)?\1""", r"\1cpu\1", text) if ON_HOST else text


class Stream:
    cuda_stream = 0
    stream_id = 0
    device = torch.device("cpu")

    def __init__(self, *_, **__): ...
    def synchronize(self): ...
    def wait_stream(self, *_): ...
    def wait_event(self, *_): ...
    def record_event(self, *_):
        return Event()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Event:
    def __init__(self, *_, **__):
        self.at = 0.0

    def record(self, *_):
        self.at = time.perf_counter()

    def synchronize(self): ...
    def elapsed_time(self, later):
        return (later.at - self.at) * 1e3


class Properties:
    major, minor, multi_processor_count, name, total_memory = 9, 0, 132, "H100", 80 << 30


class Nothing:
    """A stand-in for a context, and for a profiler that sees no kernels."""

    def __init__(self, *_, **__): ...
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def key_averages(self):
        return self

    def table(self, **_):
        return ""


def constant(value):
    return lambda *_, **__: value


PRETENDED = {
    "is_available": constant(True),
    "is_initialized": constant(True),
    "is_current_stream_capturing": constant(False),
    "current_stream": Stream,
    "default_stream": Stream,
    "stream": Stream,
    "Stream": Stream,
    "Event": Event,
    "device": Nothing,
    "current_device": constant(0),
    "device_count": constant(1),
    "get_device_capability": constant((9, 0)),
    "get_device_name": constant("H100 (pretended)"),
    "get_device_properties": constant(Properties()),
    "mem_get_info": constant((80 << 30, 80 << 30)),
    "get_rng_state": lambda *_, **__: torch.get_rng_state(),
    **{
        name: constant(None)
        for name in (
            "synchronize",
            "empty_cache",
            "manual_seed",
            "manual_seed_all",
            "set_rng_state",
            "set_device",
            "init",
        )
    },
}
REAL = {name: getattr(torch.cuda, name) for name in PRETENDED}


def give(functions):
    for name, function in functions.items():
        setattr(torch.cuda, name, function)


@contextlib.contextmanager
def as_it_is():
    """PyTorch's compiler asks which devices are there, and compiles for those."""
    now = {name: getattr(torch.cuda, name) for name in PRETENDED}
    give(REAL)
    try:
        yield
    finally:
        give(now)


def references():
    """PyTorch's kernels for the host lack types, or round where those for GPUs sum in single precision."""
    functional = torch.nn.functional
    count, layer_norm, batch_norm = torch.count_nonzero, functional.layer_norm, functional.batch_norm

    def single(tensor):
        return None if tensor is None else tensor.float()

    def flat(tensor):
        return None if tensor is None else tensor.view(-1)

    def layer_norm_in_single(x, shape, weight=None, bias=None, eps=1e-5):
        if x.dtype in (torch.half, torch.bfloat16):
            return layer_norm(x.float(), shape, single(weight), single(bias), eps).to(x.dtype)
        return layer_norm(x, shape, weight, bias, eps)

    def batch_norm_of_flat(x, mean, variance, weight=None, bias=None, *more, **options):
        return batch_norm(x, flat(mean), flat(variance), flat(weight), flat(bias), *more, **options)

    torch.count_nonzero = lambda t, *a, **k: count(t.float() if "float8" in str(t.dtype) else t, *a, **k)
    functional.layer_norm, functional.batch_norm = layer_norm_in_single, batch_norm_of_flat


class Array(numpy.ndarray):
    """NumPy's array as one of CuPy's."""


def cupy():
    made = types.ModuleType("cupy")
    made.__dict__.update(
        {name: getattr(numpy, name) for name in ("float16", "float32", "asnumpy", "int32") if hasattr(numpy, name)}
    )
    made.random = types.SimpleNamespace(randn=lambda *dims: numpy.random.randn(*dims).view(Array))
    Array.__module__ = "cupy"
    return made


def on_host():
    import torch.profiler

    give(PRETENDED)
    torch.profiler.profile = Nothing
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_, **__: self
    sys.modules.setdefault("cupy", cupy())
    compile_as_it_is = torch.compile

    def compiled(function=None, **options):
        if function is None:
            return lambda f: compiled(f, **options)
        made = compile_as_it_is(function, **options)

        def call(*operands, **named):
            with as_it_is():
                return made(*operands, **named)

        return call

    torch.compile = compiled
    references()


if ON_HOST:
    on_host()
