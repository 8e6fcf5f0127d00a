"""Where later processes find GPU plans and timings, unless the program chooses a folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

#: The most bytes of stored plans.
MOST = 256 << 20


#: Values of HIPDNN_DISABLE_CACHE that disable files.
_ON = ("1", "true", "on", "yes", "enable", "enabled")


def choose(variables: MutableMapping[str, str]) -> Path | None:
    """Sets and returns the user's cache folder for the library's plans; None if the program chose a folder or disabled files."""
    if "HIPDNN_PLAN_CACHE_DIR" in variables:
        return None
    folder = find(variables)
    if folder is not None:
        variables["HIPDNN_PLAN_CACHE_DIR"] = str(folder)
    return folder


def find(variables: Mapping[str, str]) -> Path | None:
    """The folder, created if missing; None if files are disabled or others can write there."""
    chosen = variables.get("HIPDNN_PLAN_CACHE_DIR")
    if chosen == "" or variables.get("HIPDNN_DISABLE_CACHE", "").lower() in _ON:
        return None
    cache = variables.get("HIPDNN_CACHE_DIR") or "~/.cache/hipdnn"
    try:
        folder = Path(chosen) if chosen else Path(cache).expanduser() / "plans"
        # Anyone who can write there could make this process run code.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
            return None
    except (OSError, RuntimeError):
        return None
    return folder


def choices(folder: Path, versions: Sequence[str]) -> Path:
    """The file in a folder with timings, for these versions on this machine."""
    about = [*versions, platform.machine(), _processor(), str(len(os.sched_getaffinity(0)))]
    return folder / f"torch-choices-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.lower().startswith(("model name", "cpu part")):
                return line.partition(":")[2].strip()
    return platform.processor()


def trim(folder: Path, most: int = MOST) -> None:
    """Deletes the oldest files until the others fit into this many bytes. Other processes may do the same concurrently."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    found.append((max(about.st_mtime, about.st_atime), about.st_size, entry.path))
    size = sum(bytes_of for _, bytes_of, _ in found)
    for _, bytes_of, path in sorted(found):
        if size <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        size -= bytes_of
