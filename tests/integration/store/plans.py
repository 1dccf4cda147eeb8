"""How PostgreSQL carries out the store's statements: the nodes of a plan that really ran."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from jobs_store.statements import statement


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan, with what it really did."""

    kind: str
    relation: str
    index: str
    loops: int
    rows: float
    removed: float

    @property
    def ran(self) -> bool:
        """Whether it was carried out at all: pruned partitions are not."""
        return self.loops > 0

    @property
    def read(self) -> float:
        """Rows that it looked at."""
        return self.loops * (self.rows + self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One execution of a statement; `milliseconds` without planning."""

    nodes: Sequence[Node]
    milliseconds: float
    text: str

    def scans(self, relation: str) -> list[Node]:
        """The scans of a table, or of partitions of it, that ran."""
        return [node for node in self.nodes if node.ran and _is(node.relation, relation)]

    def indexes(self, relation: str) -> set[str]:
        """The indexes that were read for a table; empty name: a sequential scan."""
        return {node.index for node in self.scans(relation) if node.kind != "ModifyTable"}

    def sorted_rows(self) -> float:
        """The most rows that any one sort took."""
        return max(
            (node.loops * node.rows for node in self.nodes if "Sort" in node.kind and node.ran), default=0
        )


async def plan_of(dsn: str, name: str, *arguments: object, tenant: str = "", reading: bool = False) -> Plan:
    """Run a statement as the role of `dsn`, planned as that role plans, then roll back. `reading`: as in a
    transaction that only reads."""
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction(readonly=reading)
        await transaction.start()
        if reading:
            await connection.execute("SET LOCAL enable_partition_pruning = on")
        if tenant:
            await connection.execute(f"SET LOCAL hourglass.tenants = '{tenant}'")
        plan = await _explained(connection, statement(name), arguments)
        await transaction.rollback()
    finally:
        await connection.close()
    return plan


async def plan_of_invariant(dsn: str, sql: str, *arguments: object) -> Plan:
    """Run a page of an invariant as the role of `dsn`, planned as verifying plans."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(statement("plan_by_index"))
            return await _explained(connection, sql, arguments)
    finally:
        await connection.close()


async def _explained(
    connection: "asyncpg.Connection[asyncpg.Record]", sql: str, arguments: Sequence[object]
) -> Plan:
    await connection.execute(f"PREPARE planned AS {sql}")
    values = ", ".join(_literal(argument) for argument in arguments)
    given = f"({values})" if values else ""
    answer = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE planned{given}")
    (top,) = json.loads(answer)
    return Plan(
        nodes=list(_nodes(top["Plan"])), milliseconds=top["Execution Time"], text=json.dumps(top, indent=1)
    )


def _nodes(plan: dict[str, Any]) -> Iterator[Node]:
    yield Node(
        kind=plan["Node Type"],
        relation=plan.get("Relation Name", ""),
        index=plan.get("Index Name", ""),
        loops=plan["Actual Loops"],
        rows=plan["Actual Rows"],
        removed=plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0),
    )
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _is(found: str, relation: str) -> bool:
    return found == relation or found.startswith(f"{relation}_2")


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return str(value)
        case UUID() | datetime() | str():
            return "'" + str(value).replace("'", "''") + "'"
        case list() | tuple():
            return "'{" + ",".join(f'"{item}"' for item in value) + "}'"
        case _:
            raise TypeError(type(value).__name__)
