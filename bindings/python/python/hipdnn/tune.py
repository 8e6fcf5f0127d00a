"""Measuring which engine is fastest."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple

from . import _native
from .errors import Error
from .library import computes_on

if TYPE_CHECKING:
    from .graph import Graph


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


def autotune(graph: Graph, tensors: Mapping[Any, Any], seconds: float, progress: bool) -> dict[str, float]:
    """Milliseconds of each engine that applies; the graph is built with the fastest."""
    if graph._plan is None:
        graph._plan_for(next(iter(tensors.values()), None))
    device = graph._device
    verdicts = [of for of in graph._verdicts() if of.rank is not None and of.id in computes_on(device)]
    show = _shown() if progress else None
    times: dict[str, float] = {}
    for at, verdict in enumerate(verdicts):
        if show is not None:
            show(Progress(at, len(verdicts), verdict.engine))
        try:
            graph.build(engine=verdict.id, device=device)
            graph.execute(tensors)
            _native.synchronize(device)
            runs, started = 0, time.perf_counter()
            while runs < 3 or time.perf_counter() - started < seconds:
                graph.execute(tensors)
                runs += 1
                # A GPU has work in a queue, which is kept short.
                if runs % 50 == 0:
                    _native.synchronize(device)
            _native.synchronize(device)
            times[verdict.engine] = 1000 * (time.perf_counter() - started) / runs
        except Error:
            # An engine that takes the graph and fails is no choice.
            continue
    best = sorted(times, key=times.__getitem__)
    if show is not None:
        fastest = f"{best[0]}, {times[best[0]]:.3g} ms" if best else "no engine"
        show(Progress(len(verdicts), len(verdicts), fastest))
    if not best:
        graph.build(device=device)
        return times
    ids = {verdict.engine: verdict.id for verdict in verdicts}
    graph._native_graph(graph.to_json()).write_ranking([ids[name] for name in best])
    graph.build(engine=best[0], device=device)
    return times
