"""Measuring which engine is fastest."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Mapping

from . import _native
from .errors import Error
from .library import computes_on

if TYPE_CHECKING:
    from .graph import Graph


def autotune(graph: Graph, tensors: Mapping[Any, Any], seconds: float, progress: bool) -> dict[str, float]:
    """Milliseconds of each engine that applies; the graph is built with the fastest."""
    if graph._plan is None:
        graph._plan_for(next(iter(tensors.values()), None))
    device = graph._device
    verdicts = [of for of in graph._verdicts() if of.rank is not None and of.id in computes_on(device)]
    show = progress and sys.stderr.isatty()
    times: dict[str, float] = {}
    for at, verdict in enumerate(verdicts):
        if show:
            done = 24 * at // len(verdicts)
            sys.stderr.write(f"\r[{'#' * done}{'.' * (24 - done)}] {verdict.engine:<32}")
            sys.stderr.flush()
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
    if show:
        sys.stderr.write("\r" + " " * 60 + "\r")
    best = sorted(times, key=times.__getitem__)
    if not best:
        graph.build(device=device)
        return times
    ids = {verdict.engine: verdict.id for verdict in verdicts}
    graph._native_graph(graph.to_json()).write_ranking([ids[name] for name in best])
    graph.build(engine=best[0], device=device)
    return times
