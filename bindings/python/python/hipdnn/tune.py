"""Measuring which engine is fastest."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any, Callable, NamedTuple, Sequence

from .errors import Error


class Progress(NamedTuple):
    """How many engines were measured, of how many, and what is measured now; a notebook shows it as a bar."""

    done: int
    total: int
    what: str

    def __repr__(self) -> str:
        filled = 24 * self.done // max(1, self.total)
        return f"[{'#' * filled}{'.' * (24 - filled)}] {self.what}"

    def _repr_html_(self) -> str:
        return f'<progress value="{self.done}" max="{self.total}"></progress> <code>{escape(self.what)}</code>'


def _shown() -> Callable[[Progress], None] | None:
    """What shows how far it is: a cell of a notebook, a line of a terminal, or nothing."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        from IPython.display import display

        handle: Any = None

        def in_cell(progress: Progress) -> None:
            nonlocal handle
            if handle is None:
                handle = display(progress, display_id=True)
            else:
                handle.update(progress)

        return in_cell
    if not sys.stderr.isatty():
        return None

    def in_line(progress: Progress) -> None:
        is_end = progress.done == progress.total
        sys.stderr.write(f"\r{' ' * 72}\r" if is_end else f"\r{progress!r:<72}")
        sys.stderr.flush()

    return in_line


def measure(
    engines: Sequence[tuple[str, int]],
    prepare: Callable[[int], Callable[[], None]],
    synchronize: Callable[[], None],
    seconds: float,
    progress: bool,
) -> dict[str, float]:
    """Milliseconds of an execution by each engine, of names and ids. Those that fail are left out."""
    show = _shown() if progress else None
    times: dict[str, float] = {}
    for at, (name, id) in enumerate(engines):
        if show is not None:
            show(Progress(at, len(engines), name))
        try:
            execute = prepare(id)
            execute()
            synchronize()
            runs, started = 0, time.perf_counter()
            while runs < 3 or time.perf_counter() - started < seconds:
                execute()
                runs += 1
                # A GPU has work in a queue, which is kept short.
                if runs % 50 == 0:
                    synchronize()
            synchronize()
            times[name] = 1000 * (time.perf_counter() - started) / runs
        except Error:
            # An engine that takes the graph and fails is no choice.
            continue
    if show is not None:
        fastest = min(times, key=times.__getitem__, default=None)
        words = f"{fastest}, {times[fastest]:.3g} ms" if fastest is not None else "no engine"
        show(Progress(len(engines), len(engines), words))
    return times
