"""``python -m hipdnn``: describes the environment, for bug reports."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

from . import __version__, _native, engines, library
from .errors import Error


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _hardware() -> list[str]:
    """Lines about GPUs: drivers, AMD's and NVIDIA's libraries, devices. The labels are those of `hipdnn doctor`."""
    drivers = [name for name in ("/dev/kfd", "/dev/nvidiactl") if os.path.exists(name)]
    lines = [f"GPU driver  {name}" for name in drivers] or ["GPU driver  none"]
    libraries, devices, _ = _native.hardware()
    for name, version, file, missing in libraries:
        where = "not there" if missing is not None else file or "in this process"
        lines.append(f"GPU library {name}{f' {version}' if version else ''}, {where}")
    for number, architecture, units, memory in devices:
        lines.append(f"device      {number}, {architecture}, {units} units, {memory >> 20} MiB")
    return lines


def _vulkan() -> list[str]:
    """Returns a line for each Vulkan device, or one that says why Vulkan has none."""
    try:
        devices = library().vulkan_devices()
    except Error as error:
        return [f"device      no Vulkan device: {error}"]
    lines = []
    for number, name, kind, version, memory, is_usable in devices:
        use = "" if is_usable else ", not usable"
        lines.append(f"device      vulkan:{number}, {name}, {kind}, Vulkan {version}, {memory >> 20} MiB{use}")
    return lines or ["device      no Vulkan device: the loader found no driver"]


def main() -> int:
    print(f"hipdnn      {__version__}")
    print(f"Python      {sys.version.split()[0]}, {platform.platform()}")
    print(f"processor   {_processor()}, {os.cpu_count()} threads")
    instructions = _native.instructions()
    if instructions is not None:
        print(f"ISA         {instructions}")
    print("\n".join(_hardware()))
    for package in ("numpy", "torch", "jax", "cupy", "ml_dtypes"):
        try:
            print(f"{package:<11} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    failed = False
    try:
        print(f"library     {library().version or 'of no version'}, {library().path}")
        print("\n".join(_vulkan()))
        for engine in engines():
            print(f"engine      {engine.name} ({engine.plugin} {engine.version})")
    except Error as error:
        print(f"library     {error}")
        failed = True
    # The labels are those of `hipdnn doctor`.
    prefixes = ("HIPDNN_", "HIP_", "CUDA_", "ROCM_", "VK_", "LD_LIBRARY_PATH")
    settings = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    for name, value in sorted(settings.items()):
        print(f"variable    {name}={value}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Python must not fail again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
