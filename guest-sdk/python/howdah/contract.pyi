"""What a type checker sees of the contract: the names, and how its calls fail."""

from typing import Any

IN_COMPONENT: bool

class Err(Exception):
    value: Any
    def __init__(self, value: Any) -> None: ...

Due: Any
types: Any
state: Any
operator: Any
logging: Any
metrics: Any
clock: Any
timers: Any
