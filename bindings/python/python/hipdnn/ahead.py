"""Plans for devices that are not present, each made in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from . import _native
from .errors import ArgumentError, NoEngineError
from .library import library

#: The device that a process plans for; the library reads the variable when it first plans.
TARGET = "HIPDNN_TARGET_DEVICE"

#: The process reads the graph as JSON from standard input, and writes the plan file to standard output.
_PROGRAM = "import sys; from hipdnn.ahead import plan_for; sys.exit(plan_for(*sys.argv[1:]))"


def compile_for(name: str, text: str, devices: Sequence[str]) -> bytes:
    """The bytes of a file with a graph's plans for these devices."""
    wanted = [devices] if isinstance(devices, str) else list(dict.fromkeys(devices))
    if not wanted or not all(isinstance(device, str) and device for device in wanted):
        raise ArgumentError(f"devices is {devices!r}, expected names such as 'sm_90', 'gfx942' or 'cpu'")
    parts = []
    for device in wanted:
        # The same package and library as in this process.
        paths = os.pathsep.join(path for path in sys.path if path)
        settings = {**os.environ, TARGET: device, "PYTHONPATH": paths}
        command = [sys.executable, "-c", _PROGRAM, device, library().path]
        done = subprocess.run(command, input=text.encode(), capture_output=True, env=settings, check=False)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            reasons = dict(line.split(": ", 1) for line in words.splitlines() if ": " in line)
            raise NoEngineError(f"graph {name!r} has no plan for {device}:\n{words}", reasons)
        parts.append(done.stdout)
    return _native.join_packages(parts)


def plan_for(device: str, path: str) -> int:
    """Makes the plan for a device by the library at a path; the status of the process."""
    try:
        made = _native.Library(path).compile(sys.stdin.buffer.read().decode(), device)
    except _native.Error as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(made)
    return 0
