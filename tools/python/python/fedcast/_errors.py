"""Exceptions: the texts, places and exit codes of the command line."""

import json


class FedcastError(Exception):
    """Error of fedcast, with the text that the command line prints.

    Attributes
    ----------
    exit_code : int
        Exit code of a command that ends with this error; ``fedcast --help`` lists them.
    help : str or None
        What to do about it.
    """

    exit_code = 1

    def __init__(self, message, exit_code=1, help=None):
        super().__init__(message)
        self.exit_code = exit_code
        self.help = help


class ScenarioError(FedcastError, ValueError):
    """Scenario or study that is invalid, or that asks for more than the data can give.

    Attributes
    ----------
    file : str or None
        File of the first error as it was given, or ``--set`` for an override.
    line, column : int or None
        Place of the first error, from 1.
    help : str or None
        Advice on the first error.
    diagnostics : list of dict
        All errors: ``message``, ``place`` (``file``, ``line``, ``column``, ``length``, ``text``), ``label``, ``help``.
    """

    def __init__(self, message, diagnostics=()):
        self.diagnostics = list(diagnostics)
        first = self.diagnostics[0] if self.diagnostics else {}
        place = first.get("place") or {}
        super().__init__(message, 3, first.get("help") or _advice(message))
        self.file = place.get("file")
        self.line = place.get("line")
        self.column = place.get("column")


class RunExistsError(FedcastError):
    """Run that is there already: it is never computed again or replaced unless ``force`` is true."""


class InputError(FedcastError):
    """Data or weights that are missing, truncated or of the wrong shape."""


class DivergedError(FedcastError):
    """Recorded run that another computation of it does not equal."""


class RecordingError(FedcastError):
    """Run directory that is incomplete or damaged, or that cannot be written."""


_BY_EXIT = {4: RunExistsError, 6: InputError, 10: DivergedError, 12: RecordingError}


def _advice(message):
    """Return the text after the first ``help:``, or None."""
    _, found, advice = message.partition("\n  help: ")
    return advice if found else None


def of_failure(message, exit_code, diagnostics):
    """Return the exception of an error of the native part.

    Parameters
    ----------
    message : str
        Text of the error.
    exit_code : int
        Exit code of the command line.
    diagnostics : str or None
        JSON list of the errors of a scenario.

    Returns
    -------
    FedcastError
    """
    if exit_code == 3:
        return ScenarioError(message, json.loads(diagnostics) if diagnostics else ())
    return _BY_EXIT.get(exit_code, FedcastError)(message, exit_code, _advice(message))
