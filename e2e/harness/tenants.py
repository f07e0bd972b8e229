"""Organizations with teams and keys, made by the gateway's own command."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path

from .process import run

_numbers = itertools.count(1)


@dataclass
class Key:
    """An API key: the stable id that is billed, and the secret of the day."""

    id: str
    secret: str
    organization: str


@dataclass
class Tenant:
    """An organization of one test: ids are unique, so that tests share servers and not limits."""

    id: str
    keys: dict[str, Key] = field(default_factory=dict)

    def key(self, name: str = "key") -> Key:
        return self.keys[name]


def enrol(
    env: dict[str, str],
    folder: Path,
    organization: dict | None = None,
    teams: dict[str, dict] | None = None,
    keys: dict[str, dict] | None = None,
) -> Tenant:
    """Makes an organization; teams and keys are named within it. A key's `team` is such a name. Default: one key."""
    number = next(_numbers)
    tenant = Tenant(f"org-{number}")

    def id_of(name: str) -> str:
        return f"{name}-{number}"

    tables = [("organizations", {"id": tenant.id, "name": tenant.id, **(organization or {})})]
    for name, settings in (teams or {}).items():
        tables.append(("teams", {"id": id_of(name), "name": name, "organization": tenant.id, **settings}))
    for name, settings in (keys or {"key": {}}).items():
        settings = dict(settings)
        if "team" in settings:
            settings["team"] = id_of(settings["team"])
        tables.append(("keys", {"id": id_of(name), "name": name, "organization": tenant.id, **settings}))
    file = folder / f"{tenant.id}.toml"
    file.write_text("\n\n".join(_table(kind, settings) for kind, settings in tables) + "\n")
    made = json.loads(run("tallyweir-gateway", "tenant", str(file), "--json", env=env))
    secrets = {key["id"]: key["secret"] for key in made["keys"]}
    for name in keys or {"key": {}}:
        tenant.keys[name] = Key(id_of(name), secrets[id_of(name)], tenant.id)
    return tenant


def _table(kind: str, settings: dict) -> str:
    lines = [f"[[{kind}]]"]
    for name, value in settings.items():
        lines.append(f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"')
    return "\n".join(lines)
