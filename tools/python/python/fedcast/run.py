"""Runs: their results, and what can be done with a recorded one."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Union

from . import _fedcast
from .progress import Listener, listener

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Verified:
    """Result of a verification: both computations are the same.

    Attributes
    ----------
    entries : int
        Entries that were compared.
    digests : dict
        ``events`` and ``numbers``, of both.
    partial : bool
        True if the recorded run was interrupted and agrees as far as it goes.
    replayed : int
        Entries that were replayed up to a checkpoint and not computed.
    notes : list of str
        Notes about checkpoints.
    """

    entries: int
    digests: Dict[str, str]
    partial: bool
    replayed: int
    notes: List[str]


@dataclass(frozen=True)
class WhatIf:
    """Times of a recorded run beside those with other links, speeds or closing rules.

    Attributes
    ----------
    recorded, retimed : dict
        ``closed_s`` (by round, from 0), ``virtual_s``, ``sent`` and ``wasted`` bytes.
    digests : dict
        Digests that a run of the changed scenario would have.
    """

    recorded: Dict[str, Any]
    retimed: Dict[str, Any]
    digests: Dict[str, str]


class Run:
    """A run directory. Make one with `Scenario.run` or `open`."""

    def __init__(self, path: StrPath, rule: Optional[object] = None):
        self._path = pathlib.Path(path)
        self._rule = rule

    @classmethod
    def open(cls, path: StrPath, *, rule: Optional[object] = None) -> Run:
        """Open a run directory.

        Parameters
        ----------
        path : str or os.PathLike
            The directory.
        rule : object, optional
            Object of the method ``python``, to resume, verify or fork a run of it.

        Returns
        -------
        Run

        Raises
        ------
        FedcastError
            If it is no run directory.
        """
        _fedcast.manifest(os.fspath(path))
        return cls(path, rule)

    @property
    def path(self) -> pathlib.Path:
        """Directory of the run, a `pathlib.Path`."""
        return self._path

    @property
    def manifest(self) -> Dict[str, Any]:
        """Content of ``manifest.json``: scenario, inputs, machine and status."""
        return json.loads(_fedcast.manifest(str(self._path)))

    @property
    def status(self) -> str:
        """``running``, ``done``, ``interrupted`` or ``failed``."""
        return self.manifest["status"]

    @property
    def digests(self) -> Optional[Dict[str, str]]:
        """Digests of events and numbers; None unless the run is done."""
        return self.manifest.get("digests")

    @property
    def summary(self) -> Dict[str, Any]:
        """Content of ``summary.json``: accuracy, forgetting, bytes, times."""
        return json.loads(_fedcast.summary(str(self._path)))

    def table(self, name: str) -> _fedcast.Table:
        """Return a CSV table of the run.

        Parameters
        ----------
        name : str
            Name of the file with or without its ending, such as ``participation``.

        Returns
        -------
        Table
            The columns of the file, in the units that `columns` gives; an empty cell is null.
        """
        name = name if name.endswith(".csv") else f"{name}.csv"
        return _fedcast.run_table(str(self._path), name)

    def rounds(self) -> _fedcast.Table:
        """Return ``rounds.csv``: accuracy, loss, virtual time and bytes, one row per round."""
        return self.table("rounds")

    def messages(self) -> _fedcast.Table:
        """Return ``bytes.csv``: exact bytes by round, client, direction, outcome and kind."""
        return self.table("bytes")

    def matrix(self) -> _fedcast.Table:
        """Return ``matrix.csv``: accuracy on every task after every task."""
        return self.table("matrix")

    def clients(self) -> _fedcast.Table:
        """Return ``clients.csv``: device, link, work and traffic of every client that was ever sampled."""
        return self.table("clients")

    def events(self) -> _fedcast.Table:
        """Return the journal, one row per event.

        Returns
        -------
        Table
            Keys of events that have a column, named and counted as in ``events.jsonl`` (from 0, times in nanoseconds);
            the others are a JSON object in the column ``more``. Digests are not checked: `verify` does.
        """
        return _fedcast.events(str(self._path))

    def resume(
        self,
        *,
        places: Optional[Dict[str, Any]] = None,
        workers: Optional[int] = None,
        force: bool = False,
        progress: Listener = False,
    ) -> Run:
        """Continue a run that was killed, interrupted or failed, from its last checkpoint.

        Parameters
        ----------
        places : dict, optional
            Other places of the same inputs, if they moved: ``data.path``, ``backbone.weights``, ``cache.folder``.
        workers, progress
            As of `Scenario.run`.
        force : bool, default False
            Resume even if another version or arithmetic started the run.

        Returns
        -------
        Run
            This run.
        """
        found = _fedcast.resume(
            str(self._path), places, workers, force, listener(progress), self._rule
        )
        return ended(found, self._rule)

    def verify(
        self,
        *,
        places: Optional[Dict[str, Any]] = None,
        workers: Optional[int] = None,
        from_round: Optional[int] = None,
        progress: Listener = False,
    ) -> Verified:
        """Execute the run again and compare every event and number.

        Parameters
        ----------
        places
            As of `resume`.
        workers, progress
            As of `Scenario.run`.
        from_round : int, optional
            Compute only what follows the last checkpoint before this round.

        Returns
        -------
        Verified

        Raises
        ------
        DivergedError
            At the first difference.
        """
        hear = listener(progress)
        found = _fedcast.verify(
            str(self._path), places, workers, from_round, hear, self._rule
        )
        return Verified(**json.loads(found))

    def what_if(self, overrides: Dict[str, Any], out: Optional[StrPath] = None) -> WhatIf:
        """Time the recorded exchanges again, without computing anything.

        Parameters
        ----------
        overrides : dict
            Other values of keys of ``[time]``, ``[links]``, ``[round]``.
        out : str or os.PathLike, optional
            Folder for the tables that a run of the changed scenario would write.

        Returns
        -------
        WhatIf

        Raises
        ------
        FedcastError
            If other updates would be aggregated.
        """
        out = None if out is None else os.fspath(out)
        return WhatIf(**json.loads(_fedcast.what_if(str(self._path), overrides, out)))

    def fork(
        self,
        after_task: int,
        overrides: Optional[Dict[str, Any]] = None,
        out: Optional[StrPath] = None,
        *,
        recompute: bool = False,
        force: bool = False,
        workers: Optional[int] = None,
        progress: Listener = False,
    ) -> Run:
        """Continue the run from the end of a task with other settings, as a new run.

        Parameters
        ----------
        after_task : int
            Last task that is taken over, from 1.
        overrides : dict, optional
            As of `Scenario.load`.
        out : str or os.PathLike, optional
            Directory of the new run.
        recompute : bool, default False
            Compute the run again up to that task if it kept no checkpoint of it.
        force, workers, progress
            As of `Scenario.run`.

        Returns
        -------
        Run
            The new run.
        """
        out = None if out is None else os.fspath(out)
        options = (recompute, force, workers, listener(progress), self._rule)
        return ended(_fedcast.fork(str(self._path), after_task, overrides, out, *options), self._rule)

    def __repr__(self):
        return f"<fedcast.Run {self._path}>"


def ended(native: _fedcast.Ended, rule: Optional[object] = None) -> Run:
    """Return the run of a native result, with its notes as warnings."""
    for note in native.notes:
        warnings.warn(note, stacklevel=3)
    if native.learned_nothing:
        warnings.warn("no update was aggregated: the model did not learn", stacklevel=3)
    return Run(native.directory, rule)
