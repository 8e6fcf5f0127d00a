"""How calls of PyTorch's functions get to their handlers, and past them where the same was called before."""

from __future__ import annotations

import functools
from typing import Any, Callable

from torch import Tensor

from .. import _native
from . import counts
from .graphs import NotNow, Unsupported
from .operation import noting
from .route import HANDLERS
from .transforms import asked


def search(func: Any, handler: Callable[..., Any], args: Any, kwargs: Any, counted: _native.Counts) -> Any:
    """Has a handler compute a call, and keeps which operation it comes down to."""
    kwargs = kwargs or {}
    try:
        reason = asked()
        if reason is not None:
            raise NotNow(reason)
        with noting() as noted:
            result, plans = _native.noting(functools.partial(handler, *args, **kwargs))
    except (Unsupported, TypeError) as reason:
        if isinstance(reason, Unsupported) and not isinstance(reason, NotNow):
            ROUTER.keep_elsewhere(func, args, kwargs, str(reason))
        counted.reasons[str(reason)] += 1
        return func(*args, **kwargs)
    counted.add()
    counted.ran(plans)
    if len(noted.calls) == 1:
        _keep(func, args, kwargs, result, noted)
    return result


def _keep(func: Any, args: Any, kwargs: Any, result: Any, noted: noting) -> None:
    """Keeps the one operation of a call, if it is given the call's tensors or casts of them, and answers what the call does."""
    ((operation, of, found),) = noted.calls
    takes_first = isinstance(found, tuple)
    if result is not (found[0] if takes_first else found):
        return
    given = [*args, *kwargs.values()]
    places = {id(value): at for at, value in enumerate(given) if isinstance(value, Tensor)}
    if len(places) < sum(isinstance(value, Tensor) for value in given):
        # One tensor twice now may be two another time.
        return
    pieces: list[tuple[int | None, Any]] = []
    for value in of:
        if not isinstance(value, Tensor):
            pieces.append((None, value))
            continue
        _, source = noted.casts.get(id(value), (value, value))
        if id(source) not in places:
            return
        pieces.append((places[id(source)], None if source is value else value.dtype))
    ROUTER.keep(func, args, kwargs, operation, pieces, takes_first)


ROUTER = _native.Router(HANDLERS, search, counts.counts_of, counts.is_inside, Unsupported)


def reset() -> None:
    """Begins the report anew."""
    counts.clear()
    ROUTER.forget_sites()
