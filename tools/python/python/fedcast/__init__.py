"""Federated class-incremental learning: exact bytes, virtual time, bit-for-bit replay.

Scenarios are read from TOML files or dictionaries, planned and run; results are Arrow tables::

    import fedcast

    scenario = fedcast.Scenario.load("scenarios/quickstart.toml", {"federation.rounds": 2})
    run = scenario.run()
    run.rounds().to_pandas().plot(x="round", y="accuracy_seen")

The guide has a page on the package, ``src/guide/python.md``; ``fedcast.columns()`` explains every column.
"""

import os as _os
import sys as _sys

# Parallelism is fedcast's: one client per worker thread. Inner pools would fight for the same cores.
for _pool in ("RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"):
    _os.environ.setdefault(_pool, "1")

from . import _fedcast
from ._errors import (
    DivergedError,
    FedcastError,
    InputError,
    RecordingError,
    RunExistsError,
    ScenarioError,
)
from ._fedcast import Table
from .progress import Progress
from .reference import columns
from .rule import Round, Update, weighted_mean
from .run import Run, Verified, WhatIf
from .scenario import Scenario
from .study import Cell, CellProgress, Study

# Cells of a study are processes of this interpreter, which runs the package as a program.
_fedcast.set_program(_sys.executable or "python3", ["-m", "fedcast"])

__all__ = [
    "Cell",
    "CellProgress",
    "DivergedError",
    "FedcastError",
    "InputError",
    "Progress",
    "RecordingError",
    "Round",
    "Run",
    "RunExistsError",
    "Scenario",
    "ScenarioError",
    "Study",
    "Table",
    "Update",
    "Verified",
    "WhatIf",
    "columns",
    "weighted_mean",
]
