"""Runs the cells of one notebook, and prints each result as JSON: notebook.py PATH."""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import sys
import traceback
import types
from pathlib import Path

import pretend


def commands(line: str) -> bool:
    """Whether a line is a notebook command, like those that install packages."""
    return line.strip().startswith(("!", "%"))


def main(path: Path):
    program = types.ModuleType("__main__")
    sys.modules["__main__"] = program
    for at, cell in enumerate(json.loads(path.read_text())["cells"]):
        lines = "".join(cell["source"]).split("\n")
        if cell["cell_type"] != "code" or not any(line.strip() for line in lines):
            continue
        source = pretend.on_device("\n".join(line for line in lines if not commands(line)))
        name = f"cell {at}"
        # Compilers and tracebacks look up lines here.
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        shown, error = io.StringIO(), None
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            try:
                exec(compile(source, name, "exec"), program.__dict__)
            except Exception as failure:
                error = failure
        where = traceback.extract_tb(error.__traceback__)[-3:] if error else []
        line = {
            "case": at,
            "outcome": "failed" if error else "passed",
            "reason": f"{type(error).__name__}: {error}"[:500] if error else "",
            "at": [f"{Path(frame.filename).name}:{frame.lineno}" for frame in where],
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
