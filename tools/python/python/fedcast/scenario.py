"""Scenarios."""

import json
import os

from . import _fedcast
from .progress import listener
from .run import ended


class Scenario:
    """Everything that a run depends on, read and checked; make one with `load` or `from_dict`."""

    def __init__(self, native):
        self._native = native

    @classmethod
    def load(cls, path, overrides=None):
        """Read a scenario file.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        overrides : dict, optional
            Values by the dotted paths of their keys, as after ``--set``: ``{"federation.clients": 100}``.

        Returns
        -------
        Scenario

        Raises
        ------
        ScenarioError
            If the scenario is invalid; ``line``, ``column`` and ``help`` are those of the first error.
        """
        return cls(_fedcast.Scenario.load(os.fspath(path), overrides))

    @classmethod
    def from_dict(cls, table, overrides=None, *, name="scenario", folder="."):
        """Read a scenario from a dictionary.

        Parameters
        ----------
        table : dict
            Keys and tables of a scenario file; ``schema`` is that of this version unless it is given.
        overrides : dict, optional
            As of `load`.
        name : str, default "scenario"
            Label of the scenario, and the name of the file in errors.
        folder : str or os.PathLike, default "."
            Folder at which relative paths start.

        Returns
        -------
        Scenario
        """
        table = {"schema": 2, **table}
        return cls(_fedcast.Scenario.from_dict(table, name, os.path.abspath(folder), overrides))

    @property
    def name(self):
        """Label of the scenario."""
        return self._native.name

    @property
    def hash(self):
        """Digest of the effective scenario; runs of one hash have the same digests."""
        return self._native.hash

    @property
    def directory(self):
        """Directory of a run by default, ``runs/<name>-<hash>-s<seed>``."""
        return self._native.directory

    def to_toml(self):
        """Return the scenario as TOML with every default written out."""
        return self._native.to_toml()

    def check(self):
        """Draw the partition where class sizes are known, and return notes.

        Returns
        -------
        list of str
            Notes on keys that have no effect on the run.

        Raises
        ------
        ScenarioError
            If the partition cannot be drawn.
        """
        return [note["message"] for note in json.loads(self._native.check())]

    def plan(self, faults=False):
        """Predict bytes, virtual time and jobs without data, weights or training.

        Parameters
        ----------
        faults : bool, default False
            Include losses, crashes and restarts of the scenario.

        Returns
        -------
        dict
            The document of ``fedcast plan --format json``: ``total``, ``phases``, ``one_client``, ..., and ``notes``.
        """
        return json.loads(self._native.plan(faults))

    def run(self, out=None, *, workers=None, force=False, progress=False):
        """Run the scenario into a directory.

        The GIL is released. Ctrl-C, or an exception of the callback, ends the run after its current event; the directory
        can be resumed then.

        Parameters
        ----------
        out : str or os.PathLike, optional
            The run directory; `directory` by default.
        workers : int, optional
            Worker threads; no result depends on them.
        force : bool, default False
            Replace a run that is there.
        progress : bool or callable, default False
            True prints a line per round; a callable gets a `Progress` after every round and evaluation.

        Returns
        -------
        Run

        Raises
        ------
        RunExistsError
            If a run is there and `force` is false.
        KeyboardInterrupt
            After Ctrl-C.
        """
        out = None if out is None else os.fspath(out)
        return ended(self._native.run(out, workers, force, listener(progress)))

    def __repr__(self):
        return f"<fedcast.Scenario {self.name} {self.hash[:8]}>"
