"""Messages to the host's log: `log.info("%d keys", count)`."""

from __future__ import annotations

from howdah import contract


def _write(level: str, message: str, arguments: tuple[object, ...]) -> None:
    wanted = contract.logging.Level[level]
    if contract.logging.enabled(wanted):
        contract.logging.log(wanted, message % arguments if arguments else message)


def trace(message: str, *arguments: object) -> None:
    """Each step, for those who wrote the operator."""
    _write("TRACE", message, arguments)


def debug(message: str, *arguments: object) -> None:
    """What helps to find a fault."""
    _write("DEBUG", message, arguments)


def info(message: str, *arguments: object) -> None:
    """What an operator of the pipeline wants to know."""
    _write("INFO", message, arguments)


def warn(message: str, *arguments: object) -> None:
    """Something is wrong; the operator goes on."""
    _write("WARN", message, arguments)


def error(message: str, *arguments: object) -> None:
    """Something is wrong; the operator cannot go on."""
    _write("ERROR", message, arguments)
