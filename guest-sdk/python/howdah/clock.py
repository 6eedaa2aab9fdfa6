"""The host's clock, which tests replace."""

from __future__ import annotations

from howdah import contract


def now() -> int:
    """Milliseconds since 1970-01-01T00:00 UTC. The same in all of one call of the host."""
    time: int = contract.clock.now()
    return time
