"""Errors that reach the host."""

from __future__ import annotations

import traceback
from typing import Any

from howdah import contract

TRACEBACK_LIMIT_FRAMES = 8
"""Innermost frames of a traceback that the host's error shows."""


class Error(Exception):
    """Fails the running batch: what it wrote and emitted is dropped, and the pipeline goes on
    from its last checkpoint. Any other exception does the same."""

    kind = "OTHER"


class InvalidArgument(Error):
    """A buffer or a value that does not fit its column."""

    kind = "INVALID_ARGUMENT"


class ConfigError(Error):
    """The operator's table of the pipeline file is not usable."""

    kind = "INVALID_CONFIG"


def from_host(error: contract.Err) -> Error:
    """What the host's answer is in an operator. The host fails the batch in any case."""
    value = error.value
    made = Error(value.message)
    made.kind = value.kind.name
    return made


def to_contract(error: BaseException) -> contract.Err:
    """What the host is told: message and traceback."""
    if isinstance(error, contract.Err):
        return error
    if isinstance(error, Error):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}"
    # Not `traceback.extract_tb`, which looks for the source: a component has no files.
    frames = [
        f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    shown = frames[-TRACEBACK_LIMIT_FRAMES:]
    if shown:
        message += " (innermost last: " + " > ".join(shown) + ")"
    kind: Any = getattr(contract.types.ErrorKind, getattr(error, "kind", "OTHER"))
    return contract.Err(contract.types.Error(kind, message))
