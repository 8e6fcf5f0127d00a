"""Measuring which engine is fastest."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Mapping

from .errors import Error

if TYPE_CHECKING:
    from .graph import Graph


def autotune(graph: Graph, tensors: Mapping[Any, Any], seconds: float, progress: bool) -> dict[str, float]:
    """Milliseconds of each engine that applies; the graph is built with the fastest."""
    verdicts = [verdict for verdict in graph._verdicts() if verdict.rank is not None]
    show = progress and sys.stderr.isatty()
    times: dict[str, float] = {}
    for at, verdict in enumerate(verdicts):
        if show:
            done = 24 * at // len(verdicts)
            sys.stderr.write(f"\r[{'#' * done}{'.' * (24 - done)}] {verdict.engine:<32}")
            sys.stderr.flush()
        try:
            graph.build(engine=verdict.id)
            graph.execute(tensors)
            runs, started = 0, time.perf_counter()
            while runs < 3 or time.perf_counter() - started < seconds:
                graph.execute(tensors)
                runs += 1
            times[verdict.engine] = 1000 * (time.perf_counter() - started) / runs
        except Error:
            # An engine that takes the graph and fails is no choice.
            continue
    if show:
        sys.stderr.write("\r" + " " * 60 + "\r")
    best = sorted(times, key=times.__getitem__)
    if not best:
        graph.build()
        return times
    ids = {verdict.engine: verdict.id for verdict in verdicts}
    graph._native_graph(graph.to_json()).write_ranking([ids[name] for name in best])
    graph.build(engine=best[0])
    return times
