"""The whole stack: two servers, two mocks, gateways and a flusher, each a process of its own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import redis

from .books import Books
from .caller import Caller
from .configuration import Configuration
from .gateway import Gateway
from .ledger import Ledger
from .mock import Mock
from .process import Process, run
from .servers import Servers
from .tally import Tally
from .tenants import Key, Tenant, enrol

PEPPER = "a pepper for these scenarios and nothing else"


class Stack:
    def __init__(self, folder: Path, configuration: Configuration, gateways: int = 2):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.configuration = configuration
        self._gateways_made = 0
        self.servers = Servers(folder / "devstack.log")
        self.env = {
            "TALLYWEIR_REDIS_URL": self.servers.urls["redis"],
            "TALLYWEIR_DATABASE_URL": self.servers.urls["postgres"],
        }
        self.gateway_env = {**self.env, "TALLYWEIR_PEPPER": PEPPER}
        run("usage-flusher", "migrate", env=self.env)
        self.ledger = Ledger(self.servers.urls["postgres"])
        self.redis = redis.Redis.from_url(self.servers.urls["redis"])
        self.mocks = [Mock(f"mock-{name}", folder) for name in "ab"]
        self.gateways = [self.another_gateway() for _ in range(gateways)]
        self.flusher = Process(
            "usage-flusher",
            ["run", "--log-format", "json", "--linger-ms", "20", "--idle-ms", "50"],
            self.env,
            folder / "flusher.log",
        )
        self.flusher.start()
        self.books = Books(self.env, self.ledger, configuration, self.mocks)
        self._open: list[tuple[Tenant, Tally]] = []

    def another_gateway(self, grace_ms: int = 4000, budget: dict | None = None) -> Gateway:
        """One more, which its test stops."""
        self._gateways_made += 1
        name = f"gateway-{self._gateways_made}"
        config = self.folder / f"{name}.toml"
        configuration = replace(self.configuration, budget=budget or self.configuration.budget)
        config.write_text(configuration.toml([mock.url for mock in self.mocks]))
        return Gateway(name, config, self.gateway_env, self.folder, grace_ms)

    # Tenants and their clients.

    def tenant(self, **settings) -> Tenant:
        """An organization whose books are closed at the end of the test."""
        tenant = enrol(self.gateway_env, self.folder, **settings)
        self._open.append((tenant, Tally()))
        return tenant

    def tally(self, key: Key) -> Tally:
        return next(tally for tenant, tally in self._open if tenant.id == key.organization)

    def caller(self, key: Key, gateway: Gateway | None = None, **options) -> Caller:
        url = (gateway or self.gateways[0]).url
        return Caller(url, key, self.tally(key), self.configuration, **options)

    def admin(self, *arguments: str):
        """An administrator's command of the gateway's program, as JSON."""
        printed = run("tallyweir-gateway", *arguments, "--json", env=self.gateway_env)
        return json.loads(printed) if printed.strip() else None

    def close_books(self) -> None:
        """Whatever the test did: everything drains, the audit is exact, the ledger is what the clients counted."""
        tenants, self._open = self._open, []
        for tenant, tally in tenants:
            self.books.close(tenant.id, tally)

    def wait_ready(self) -> None:
        for gateway in self.gateways:
            gateway.wait_ready()

    def end(self, keep: bool = False) -> dict[str, int | None]:
        """Stops everything in order; the exit codes of what was asked to end."""
        codes = {gateway.name: gateway.stop() for gateway in self.gateways}
        codes["flusher"] = self.flusher.stop()
        for mock in self.mocks:
            mock.stop()
        self.redis.close()
        self.servers.end(keep)
        return codes
