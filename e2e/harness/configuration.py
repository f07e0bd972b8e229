"""The gateway's configuration: models, where they are deployed, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from .prices import Price

CHEAP = Price("0.15", "0.075", "0.60")
# Digits that a float does not hold.
ODD = Price("1.000003", "0.100007", "4.999999")


@dataclass(frozen=True)
class Model:
    """A model, and on which mocks (by index) it is deployed."""

    name: str
    mocks: tuple[int, ...] = (0,)
    price: Price = CHEAP
    kind: str = "chat"
    default_max_tokens: int = 64

    def toml(self, mock_urls: list[str]) -> str:
        lines = [
            "[[models]]",
            f'name = "{self.name}"',
            f'kind = "{self.kind}"',
            'tokenizer = "o200k_base"',
            f"default_max_tokens = {self.default_max_tokens}",
            "context_tokens = 128000",
        ]
        for mock in self.mocks:
            lines += [
                "[[models.deployments]]",
                f'id = "{self.name}-{"abc"[mock]}"',
                f'base_url = "{mock_urls[mock]}/v1"',
                f'input_usd_per_million = "{self.price.input}"',
                f'cached_input_usd_per_million = "{self.price.cached_input}"',
                f'output_usd_per_million = "{self.price.output}"',
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Configuration:
    """What a stack's gateways are told."""

    models: tuple[Model, ...]
    routing: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    budget: dict[str, str | int] = field(default_factory=dict)

    def model(self, name: str) -> Model:
        return next(model for model in self.models if model.name == name)

    def cost(self, name: str, prompt: int, cached: int, completion: int):
        return self.model(name).price.cost(prompt, cached, completion)

    def toml(self, mock_urls: list[str]) -> str:
        parts = []
        for name in ("routing", "limits", "budget"):
            given = getattr(self, name)
            if given:
                parts.append("\n".join([f"[{name}]", *(f"{key} = {_value(value)}" for key, value in given.items())]))
        parts += [model.toml(mock_urls) for model in self.models]
        return "\n\n".join(parts) + "\n"


def _value(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
