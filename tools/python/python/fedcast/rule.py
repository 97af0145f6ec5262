"""A server rule in Python: what the method ``python`` calls when a round closes."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy as np


@dataclass
class Update:
    """Upload of one client.

    Attributes
    ----------
    client, participant : int
        Client (from 0), and its place in the round.
    samples : float or None
        Samples that the client trained on.
    staleness : int
        Aggregations since its download; 0 in synchronous runs.
    parameters : dict of str to numpy.ndarray
        Parameters after local training, read-only, ``float32``. Head rows that did not travel are those of the download.
    """

    client: int
    participant: int
    samples: Optional[float]
    staleness: int
    parameters: Dict[str, np.ndarray]


@dataclass
class Round:
    """Round that closes.

    Attributes
    ----------
    number, task : int
        Round of the run and task, from 1.
    seed : int
        Seed of the run, for draws of the rule: ``numpy.random.default_rng([round.seed, round.number])``.
    classes : list of int
        Classes of the task.
    new_rows : range
        Head rows of these classes.
    parameters : dict of str to numpy.ndarray
        Parameters before the round, read-only.
    mean : dict of str to numpy.ndarray
        FedAvg's weighted mean, read-only.
    state : dict of str to numpy.ndarray
        Arrays that the rule keeps: they are saved with the server, so that a resumed run has them.
    metrics : dict of str to float
        Numbers for the journal of the round.
    """

    number: int
    task: int
    seed: int
    classes: List[int]
    new_rows: range
    parameters: Dict[str, np.ndarray]
    mean: Dict[str, np.ndarray]
    state: Dict[str, np.ndarray]
    metrics: Dict[str, float]


def weighted_mean(updates: List[Update], name: str) -> np.ndarray:
    """Return the mean of a parameter over updates, weighted by their samples.

    Parameters
    ----------
    updates : list of Update
    name : str
        Name of the parameter.

    Returns
    -------
    numpy.ndarray
    """
    weights = [1.0 if update.samples is None else update.samples for update in updates]
    return np.average([update.parameters[name] for update in updates], axis=0, weights=weights)


def describe(rule: object) -> Tuple[str, str]:
    """Return the name of a rule's class and a digest of its code and values.

    Parameters
    ----------
    rule : object
        Object with ``aggregate(round, updates)``.

    Returns
    -------
    tuple of (str, str)

    Raises
    ------
    TypeError
        If it has no such method.
    """
    if not callable(getattr(rule, "aggregate", None)):
        raise TypeError("a rule is an object with aggregate(round, updates)")
    of = type(rule)
    digest = hashlib.blake2b(digest_size=16)
    try:
        digest.update(inspect.getsource(of).encode())
    except (OSError, TypeError):
        # Typed at a prompt: there is no source, but its code.
        for name, member in sorted(vars(of).items()):
            code = getattr(member, "__code__", None)
            digest.update(repr((name, code and (code.co_code, code.co_consts, code.co_names))).encode())
    for name, value in sorted(vars(rule).items()):
        kept = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        digest.update(name.encode() + b"\0" + kept + b"\0")
    return f"{of.__module__}.{of.__qualname__}", digest.hexdigest()


def _call(rule, round, updates):
    """Call a rule for the native part; return parameters, state and metrics as bytes and numbers."""
    round = Round(metrics={}, **{**round, "new_rows": range(*round["new_rows"])})
    parameters = rule.aggregate(round, [Update(**update) for update in updates])
    if not isinstance(parameters, dict):
        raise TypeError("aggregate(round, updates) returns a dict of arrays by name")
    for name, array in parameters.items():
        known = round.parameters.get(name)
        if known is None:
            raise KeyError(f"`{name}` is no parameter; there are {', '.join(round.parameters)}")
        if np.shape(array) != known.shape:
            raise ValueError(f"`{name}` has shape {np.shape(array)}, not {known.shape}")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"`{name}` is not finite")
    metrics = {name: float(value) for name, value in round.metrics.items()}
    return _packed(parameters), _packed(round.state), metrics


def _packed(arrays):
    """Return arrays as shapes and bytes of ``float32``."""
    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}
