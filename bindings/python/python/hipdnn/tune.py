"""Search for the fastest engine and its knobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from html import escape
from typing import Any, Callable, NamedTuple


class Progress(NamedTuple):
    """The progress of a search, and its best so far; a notebook shows it as a bar."""

    done: int
    total: int
    what: str

    def __repr__(self) -> str:
        filled = 24 * self.done // max(1, self.total)
        return f"[{'#' * filled}{'.' * (24 - filled)}] {self.what}"

    def _repr_html_(self) -> str:
        return f'<progress value="{self.done}" max="{self.total}"></progress> <code>{escape(self.what)}</code>'


def _shown() -> Callable[[Progress], None] | None:
    """A function that shows progress in a notebook cell or on a terminal line; None if there is neither."""
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


class Trial(NamedTuple):
    """A configuration that was tried."""

    engine: str
    id: int
    knobs: dict[str, Any]
    """The knobs that are set; the others keep their defaults."""
    ms: float | None
    """Milliseconds per execution; None if it failed."""
    runs: int
    at: float
    """When it was tried, in seconds."""
    failure: str | None


class Tuned(NamedTuple):
    """What a search found."""

    trials: list[Trial]
    best: Trial | None
    """The first in the ranking: the default choice, unless something is clearly faster."""
    gain: float
    """The speedup of the best over the default choice."""


def search(
    graph: Any,
    engines: Sequence[tuple[str, int]],
    prepare: Callable[[int, list[tuple[str, Any]]], Callable[[], None]],
    synchronize: Callable[[], None],
    budget: float,
    strategy: str,
    values: int,
    progress: bool,
) -> Tuned:
    """Searches for the fastest of some engines, of names and ids, and its knobs. Engines that fail are not chosen."""
    show = _shown() if progress else None
    names = {id: name for name, id in engines}
    measured = ""

    def ready_of(engine: int, knobs: list[tuple[str, Any]]) -> Callable[[], None]:
        nonlocal measured
        measured = names[engine]
        return prepare(engine, knobs)

    def execute(ready: Callable[[], None], count: int) -> float:
        synchronize()
        started = time.perf_counter()
        for at in range(count):
            ready()
            # Keeps the GPU's queue short.
            if at % 50 == 49:
                synchronize()
        synchronize()
        return time.perf_counter() - started

    def tell(part: float, tried: int, best: float | None) -> None:
        if show is not None:
            words = f"{measured}, {tried} tried" + (f", best {best:.3g} ms" if best is not None else "")
            show(Progress(min(int(100 * part), 99), 100, words))

    found, ranking, gain = graph.tune(strategy, budget, values, list(names), (ready_of, execute, tell))
    trials = [Trial(names.get(id, hex(id)), id, dict(knobs), *rest) for (id, knobs), *rest in found]
    best = trials[ranking[0]] if ranking else None
    if show is not None:
        words = f"{best.engine}, {best.ms:.3g} ms" if best is not None else "no engine"
        show(Progress(100, 100, words))
    return Tuned(trials, best, gain)
