"""The ledger, read by plain SQL: none of the project's code is between the rows and the judgement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True)
class Row:
    request_id: str
    organization: str
    key: str
    model: str
    prompt: int
    cached: int
    completion: int
    status: str
    cost: Decimal
    scopes: list[str]
    started_at: datetime

    @property
    def minute(self) -> int:
        return int(self.started_at.timestamp() // 60)


class Ledger:
    """A connection a question: the server is stopped and killed between them."""

    def __init__(self, url: str):
        self._url = url

    def _ask(self, sql: str, *parameters, factory=None):
        with psycopg.connect(self._url, connect_timeout=10) as connection:
            with connection.cursor(row_factory=factory) if factory else connection.cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchall()

    def change(self, sql: str, *parameters) -> int:
        with psycopg.connect(self._url, connect_timeout=10) as connection:
            return connection.execute(sql, parameters).rowcount

    def rows(self, organization: str) -> list[Row]:
        return self._ask(
            """select request_id, organization_id as organization, key_id as key, model,
                      prompt_tokens as prompt, cached_tokens as cached, completion_tokens as completion,
                      status, cost_usd as cost, scopes, started_at
               from usage_events where organization_id = %s""",
            organization,
            factory=class_row(Row),
        )

    def ids(self, organization: str) -> set[str]:
        rows = self._ask("select request_id from usage_events where organization_id = %s", organization)
        return {row[0] for row in rows}

    def settled(self, scopes: list[str]) -> dict[str, Decimal]:
        """What each scope was charged in all its periods."""
        rows = self._ask(
            """select kind || '/' || id, sum(spend_usd) from scope_spend
               where kind || '/' || id = any(%s) group by 1""",
            scopes,
        )
        return dict(rows)

    def by_day(self, organization: str) -> tuple[int, int, int, Decimal]:
        rows = self._ask(
            """select coalesce(sum(events), 0)::bigint, coalesce(sum(prompt_tokens), 0)::bigint,
                      coalesce(sum(completion_tokens), 0)::bigint, coalesce(sum(cost_usd), 0)
               from usage_daily where organization_id = %s""",
            organization,
        )
        return rows[0]

    def open_holds(self, organization: str) -> int:
        return self._ask("select count(*) from open_holds where organization_id = %s", organization)[0][0]

    def now(self) -> datetime:
        return self._ask("select now()")[0][0]
