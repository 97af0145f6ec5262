"""Scenarios."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence

from . import _fedcast
from . import arrays as _arrays
from .progress import Listener, listener
from .rule import describe
from .run import Run, StrPath, ended


class Scenario:
    """Everything that a run depends on, read and checked; make one with `load` or `from_dict`."""

    def __init__(self, native: _fedcast.Scenario, rule: Optional[object] = None):
        self._native = native
        self._rule = rule

    @classmethod
    def load(
        cls,
        path: StrPath,
        overrides: Optional[Dict[str, Any]] = None,
        *,
        data: Optional[Dict[str, Any]] = None,
        splits: Optional[Sequence[Any]] = None,
        rule: Optional[object] = None,
    ) -> Scenario:
        """Read a scenario file.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        overrides : dict, optional
            Values by the dotted paths of their keys, as after ``--set``: ``{"federation.clients": 100}``.
        data : dict, optional
            Own data, ``{"train": (x, y), "test": (x, y)}``: arrays or tensors, ``x`` of
            ``uint8`` (n, height, width[, channels]), floats (n, channels, height, width) or rows (n, width), ``y`` of
            integers. They replace ``[data]`` but its transforms; their hash is the last component of ``data.path``.
        splits : sequence, optional
            Own division of the training samples: an array of sample indices per client, or per client one such array
            per task, whose classes must be those of the task.
        rule : object, optional
            Object with ``aggregate(round, updates)`` for ``method.name = "python"``.

        Returns
        -------
        Scenario

        Raises
        ------
        ScenarioError
            If the scenario is invalid; ``line``, ``column`` and ``help`` are those of the first error.
        """
        own = _own(data, splits, rule)
        return cls(_fedcast.Scenario.load(os.fspath(path), {**(overrides or {}), **own}, rule), rule)

    @classmethod
    def from_dict(
        cls,
        table: Dict[str, Any],
        overrides: Optional[Dict[str, Any]] = None,
        *,
        name: str = "scenario",
        folder: StrPath = ".",
        splits: Optional[Sequence[Any]] = None,
    ) -> Scenario:
        """Read a scenario from a dictionary.

        Parameters
        ----------
        table : dict
            Keys and tables of a scenario file; ``schema`` is that of this version unless it is given. ``data`` may be
            own data, ``{"train": (x, y), "test": (x, y)}``, and ``method`` may have the object of a rule:
            ``{"name": "python", "rule": Median()}``.
        overrides : dict, optional
            As of `load`.
        name : str, default "scenario"
            Label of the scenario, and the name of the file in errors.
        folder : str or os.PathLike, default "."
            Folder at which relative paths start.
        splits : sequence, optional
            As of `load`.

        Returns
        -------
        Scenario
        """
        table = {"schema": 2, **table}
        data, method = table.get("data"), table.get("method")
        arrays = isinstance(data, dict) and isinstance(data.get("train"), (tuple, list))
        if arrays:
            own = {part: data[part] for part in ("train", "test") if part in data}
            rest = {key: value for key, value in data.items() if key not in own}
            table["data"] = {**_arrays.store(own), **rest}
        rule = method.get("rule") if isinstance(method, dict) else None
        rule = None if isinstance(rule, str) else rule
        if rule is not None:
            named, digest = describe(rule)
            table["method"] = {**method, "rule": named, "digest": digest}
        if splits is not None:
            labels = data["train"][1] if arrays else None
            for key, value in _arrays.split(splits, labels).items():
                table[key] = {**table.get(key, {}), **value} if key == "federation" else value
        native = _fedcast.Scenario.from_dict(table, name, os.path.abspath(folder), overrides, rule)
        return cls(native, rule)

    @property
    def name(self) -> str:
        """Label of the scenario."""
        return self._native.name

    @property
    def hash(self) -> str:
        """Digest of the effective scenario; runs of one hash have the same digests."""
        return self._native.hash

    @property
    def directory(self) -> pathlib.Path:
        """Directory of a run by default, ``runs/<name>-<hash>-s<seed>``."""
        return self._native.directory

    def to_toml(self) -> str:
        """Return the scenario as TOML with every default written out."""
        return self._native.to_toml()

    def check(self) -> List[str]:
        """Draw the partition where class sizes are known, and return notes.

        Returns
        -------
        list of str
            Notes on keys that have no effect on the run, and on data and weights that are not on this machine.

        Raises
        ------
        ScenarioError
            If the partition cannot be drawn.
        """
        return [note["message"] for note in json.loads(self._native.check())]

    def plan(self, faults: bool = False) -> Dict[str, Any]:
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

    def run(
        self,
        out: Optional[StrPath] = None,
        *,
        workers: Optional[int] = None,
        force: bool = False,
        progress: Listener = False,
    ) -> Run:
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
        return ended(self._native.run(out, workers, force, listener(progress)), self._rule)

    def __repr__(self):
        return f"<fedcast.Scenario {self.name} {self.hash[:8]}>"


def _own(data, splits, rule):
    """Return overrides for own data, splits and the object of a rule."""
    own = {}
    if data is not None:
        own = {f"data.{key}": value for key, value in _arrays.store(data).items()}
    if splits is not None:
        labels = data["train"][1] if data is not None else None
        keys = _arrays.split(splits, labels)
        own["federation.clients"] = keys.pop("federation")["clients"]
        own.update(keys)
    if rule is not None:
        own["method.name"] = "python"
        own["method.rule"], own["method.digest"] = describe(rule)
    return own
