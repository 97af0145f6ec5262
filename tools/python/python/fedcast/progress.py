"""Progress of a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Union


@dataclass(frozen=True)
class Progress:
    """State of a run after a round closed or the model was evaluated.

    Attributes
    ----------
    event : str
        ``round_closed`` or ``evaluated``.
    task, tasks, round : int
        Task (from 1), number of tasks, round of the run (from 1).
    virtual_time_s : float
        Time on the simulated clock, in seconds.
    aggregated : int
        Uploads that the round aggregated.
    bytes_down, bytes_up : int
        Bytes of whole frames since the start of the run.
    accuracy : float or None
        Fraction of correct predictions in the last evaluation.
    """

    event: str
    task: int
    tasks: int
    round: int
    virtual_time_s: float
    aggregated: int
    bytes_down: int
    bytes_up: int
    accuracy: Optional[float]


Listener = Union[bool, None, Callable[[Progress], object]]


def listener(progress: Listener) -> Optional[Callable[[Dict[str, Any]], object]]:
    """Return the callable that hears the native reports, or None.

    Parameters
    ----------
    progress : bool or callable
        True prints a line per round on ``sys.stderr``; a callable gets a `Progress`.
    """
    if progress is None or progress is False:
        return None
    hear = _print if progress is True else progress
    if not callable(hear):
        raise TypeError("progress is True, False or a callable that takes a fedcast.Progress")
    return lambda report: hear(Progress(**report))


def _print(now: Progress) -> None:
    accuracy = "" if now.accuracy is None else f"  accuracy {100 * now.accuracy:.2f} %"
    if now.event == "round_closed":
        line = f"task {now.task}/{now.tasks}  round {now.round}  {now.aggregated} aggregated"
        print(f"{line}  down {now.bytes_down}  up {now.bytes_up} bytes{accuracy}", file=sys.stderr)
