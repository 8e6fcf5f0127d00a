"""Where plans of GPUs are stored for the next process, unless the program says it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import MutableMapping
from pathlib import Path

#: The most bytes of stored plans.
MOST = 256 << 20


def choose(variables: MutableMapping[str, str]) -> Path | None:
    """Has the library store plans in the user's cache folder, and answers which; None where the program chose a folder or none."""
    if "HIPDNN_PLAN_CACHE_DIR" in variables:
        return None
    cache = variables.get("HIPDNN_CACHE_DIR") or "~/.cache/hipdnn"
    folder = Path(cache).expanduser() / "plans"
    try:
        # Whoever can write there could have this process run code.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
            return None
    except (OSError, RuntimeError):
        return None
    variables["HIPDNN_PLAN_CACHE_DIR"] = str(folder)
    return folder


def trim(folder: Path, most: int = MOST) -> None:
    """Deletes the oldest files until the others have at most so many bytes. Other processes may do the same at the same time."""
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
