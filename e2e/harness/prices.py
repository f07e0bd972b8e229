"""What calls cost, computed from usage and prices by the tests themselves."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Price:
    """USD per million tokens, as decimal text."""

    input: str
    cached_input: str
    output: str

    def cost(self, prompt: int, cached: int, completion: int) -> Decimal:
        """Exact: twelve decimals hold a millionth of a price with six."""
        million = Decimal(1_000_000)
        return (
            (prompt - cached) * Decimal(self.input)
            + cached * Decimal(self.cached_input)
            + completion * Decimal(self.output)
        ) / million
