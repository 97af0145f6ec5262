"""Studies: many runs from one file."""

from __future__ import annotations

import os
import pathlib
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _fedcast
from .run import Run, StrPath


@dataclass(frozen=True)
class Cell:
    """A run of a study.

    Attributes
    ----------
    label : str
        Arms of the cell, such as ``clients=10, method=hgp``.
    seed : int
        Its seed.
    status : str
        ``waiting``, ``running``, ``unfinished``, ``done`` or ``failed``.
    path : pathlib.Path
        Its run directory.
    error : str or None
        Why it failed.
    """

    label: str
    seed: int
    status: str
    path: pathlib.Path
    error: Optional[str]

    @property
    def run(self) -> Run:
        """Run of the cell, a `Run`."""
        return Run.open(self.path)


@dataclass(frozen=True)
class CellProgress:
    """Event of a study that runs.

    Attributes
    ----------
    event : str
        ``begun``, ``done``, ``failed``, ``interrupted`` or ``taken`` (another process has the cell).
    label : str
        Arms of the cell.
    seed : int
        Seed of the cell.
    wall_s : float or None
        Wall time of its process, once it has ended.
    ended, cells : int
        Cells that have ended, of those that were left.
    """

    event: str
    label: str
    seed: int
    wall_s: Optional[float]
    ended: int
    cells: int


class Study:
    """A grid of changes to a scenario, each with several seeds; make one with `load`."""

    def __init__(self, native: _fedcast.Study):
        self._native = native

    @classmethod
    def load(
        cls,
        path: StrPath,
        overrides: Optional[Dict[str, Any]] = None,
        *,
        out: Optional[StrPath] = None,
    ) -> Study:
        """Read a study file.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        overrides : dict, optional
            Values of keys in all cells, by their dotted paths.
        out : str or os.PathLike, optional
            Directory of the study; by default ``studies/<name>``.

        Returns
        -------
        Study

        Raises
        ------
        ScenarioError
            If the study is invalid.
        """
        out = None if out is None else os.fspath(out)
        return cls(_fedcast.Study.load(os.fspath(path), overrides, out))

    @property
    def name(self) -> str:
        """Label of the study."""
        return self._native.name

    @property
    def path(self) -> pathlib.Path:
        """Directory of the study, a `pathlib.Path`."""
        return pathlib.Path(self._native.directory)

    def cells(self) -> List[Cell]:
        """Return the cells with their states, a list of `Cell`."""
        return [Cell(*cell[:3], pathlib.Path(cell[3]), cell[4]) for cell in self._native.cells()]

    def run(
        self,
        jobs: Optional[int] = None,
        *,
        only: Union[str, Sequence[str]] = (),
        retry_failed: bool = False,
        progress: Union[bool, None, Callable[[CellProgress], object]] = False,
    ) -> Study:
        """Run the cells that are left, each in a process of this interpreter.

        Runs that exist are kept, unfinished ones are resumed. A cell that fails does not end the study: `cells` says
        why it failed.

        Parameters
        ----------
        jobs : int, optional
            Simultaneous processes; by default those of the study, else one per core.
        only : sequence of str, optional
            Cells to run, as after ``--only``: ``["method=hgp,clients=10"]``.
        retry_failed : bool, default False
            Run failed cells again.
        progress : bool or callable, default False
            True prints a line per cell; a callable gets a `CellProgress`.

        Returns
        -------
        Study
            This study.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C; another call continues.
        """
        if isinstance(only, str):
            only = [only]
        self._native.run(jobs, list(only), retry_failed, _listener(progress))
        return self

    def table(self) -> _fedcast.Table:
        """Return the main table: mean and standard deviation over seeds of every metric, one row per point."""
        return self._native.table()

    def cells_table(self) -> _fedcast.Table:
        """Return one row per run: axes, seeds, status, every metric, bytes by kind, digests."""
        return self._native.cells_table()

    def rounds(self) -> _fedcast.Table:
        """Return the rounds of all complete runs, with their axes."""
        return self._native.rounds()

    def paired(self) -> _fedcast.Table:
        """Return the differences from the baseline, paired by seed."""
        return self._native.paired()

    def __repr__(self):
        return f"<fedcast.Study {self.name}>"


def _listener(progress):
    """Return the callable that hears the native reports, or None."""
    if progress is None or progress is False:
        return None
    hear = _print if progress is True else progress
    if not callable(hear):
        raise TypeError("progress is True, False or a callable that takes a fedcast.CellProgress")
    return lambda report: hear(CellProgress(**report))


def _print(now):
    if now.event != "begun":
        took = "" if now.wall_s is None else f"  {now.wall_s:.1f} s"
        print(f"{now.ended}/{now.cells}  {now.label}, seed {now.seed}: {now.event}{took}", file=sys.stderr)
