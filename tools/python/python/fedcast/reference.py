"""The data dictionary."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from . import _fedcast


def columns(file: Optional[str] = None) -> List[Dict[str, Any]]:
    """Explain the columns of the files of runs and studies, as ``fedcast columns`` does.

    Parameters
    ----------
    file : str, optional
        Name of a file, such as ``rounds.csv``; all files by default.

    Returns
    -------
    list of dict
        Of a file its columns, each with ``name``, ``type``, ``unit`` and ``meaning``; otherwise the files with ``name``,
        ``about`` and ``columns``.
    """
    files = json.loads(_fedcast.columns())
    if file is None:
        return files
    for known in files:
        if known["name"] == file:
            return known["columns"]
    raise KeyError(f"{file}: there are {', '.join(known['name'] for known in files)}")
