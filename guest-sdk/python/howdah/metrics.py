"""Metrics of the operator's own. A name has lower-case letters, digits and `_`, and ends in its
unit: `_total`, `_ms`, `_bytes`."""

from __future__ import annotations

from howdah import contract


def counter_add(name: str, amount: int = 1) -> None:
    """Adds to a counter."""
    contract.metrics.counter_add(name, amount)


def gauge_set(name: str, value: float) -> None:
    """Sets a gauge."""
    contract.metrics.gauge_set(name, value)


def histogram_record(name: str, value: float) -> None:
    """Takes a value into a histogram."""
    contract.metrics.histogram_record(name, value)
