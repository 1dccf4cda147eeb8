"""What the processes of the stack really export, after a job and some failures."""

import json
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
from prometheus_client.parser import text_string_to_metric_families

from budget.core import Budget
from hourglass.jobs.v1 import admin_service_pb2, jobs_service_pb2
from hourglass.jobs.v1.admin_service_pb2_grpc import AdminServiceStub
from hourglass.jobs.v1.job_pb2 import Message, Role
from launcher.components import SIMULATED
from launcher.stack import JOBS, PRICING, Plan, Stack, running
from tests import prometheus
from tests.postgres import TestDatabase
from tests.stacks import (
    QUICK_JOBS,
    QUICK_WORKER,
    RETRY,
    START_LIMIT,
    Caller,
    calling,
    connected,
    prepared,
    spec_of,
)
from tests.waiting import eventually

JOB_NAMES = {JOBS: "hourglass-jobs", PRICING: "hourglass-pricing", "worker-1": "hourglass-worker"}
SCRAPED: Mapping[str, str] = {"METRICS_LISTEN": "127.0.0.1:0"}
OBSERVING = json.dumps({"postgres.read_job": {"enforcement": "observe", "limit": 0.0001, "floor": 0.0}})
SLOW = "simulated:tokens=64,tps=4"
WITHIN = 30.0


@dataclass(slots=True)
class Exported:
    """Label sets by the name of the series, as they were scraped; and what Prometheus made of them."""

    labels: dict[str, list[Mapping[str, str]]] = field(default_factory=dict)
    up: Sequence[Mapping[str, Any]] = ()
    accepted: Sequence[Mapping[str, Any]] = ()
    rules: Sequence[Mapping[str, Any]] = ()

    def add(self, address: str) -> None:
        """Scrapes a process."""
        with urlopen(f"http://{address}/metrics", timeout=WITHIN) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.labels.setdefault(sample.name, []).append(sample.labels)


async def play(database: TestDatabase, folder: Path) -> Exported:
    """Starts the processes, has things happen to them, and scrapes them."""
    exported = Exported()
    plan = Plan(
        models=(SIMULATED,),
        worker={**QUICK_WORKER, **SCRAPED},
        jobs={**QUICK_JOBS, **SCRAPED, "POLICIES": OBSERVING},
        pricing=SCRAPED,
        logs=folder,
    )
    async with running(prepared(database), plan, budget=Budget.for_work(START_LIMIT)) as stack:
        targets = {job: metrics_address(folder / f"{name}.log") for name, job in JOB_NAMES.items()}
        if not prometheus.installed():
            await _act(stack, exported, targets)
            return exported
        with prometheus.prometheus(folder, targets, free_port()) as watching:
            await _act(stack, exported, targets, watching)
    return exported


def metrics_address(log: Path) -> str:
    """Where a process said that it serves its metrics."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return next(str(line["address"]) for line in lines if line["event"] == "serving metrics")


def free_port() -> int:
    """A port that is free now: Prometheus does not tell which one it has chosen."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _act(
    stack: Stack,
    exported: Exported,
    targets: Mapping[str, str],
    watching: prometheus.Prometheus | None = None,
) -> None:
    async with calling(stack.jobs) as caller, connected(stack.jobs) as channel:
        await _let_jobs_end(caller)
        await _cut_off(caller)
        await _short_call(caller)
        await _close_a_lane(caller)
        await _verify(channel)
        if watching is not None:
            await _see(watching, exported)
        exported.add(targets["hourglass-worker"])
        await _kill_the_worker(stack, caller, database_worker="worker-1")
        exported.add(targets["hourglass-pricing"])
        await eventually(lambda: _has_lease_expired(exported, targets["hourglass-jobs"]), within=WITHIN)


async def _let_jobs_end(caller: Caller) -> None:
    """Accepted, failed for good, of unknown outcome and tried again, cancelled."""
    ended = ("simulated-fast", "simulated-400", "simulated-reset-mid:times=1")
    for model in ended:
        created = await caller.create(spec_of(model, prompt=model, unknown_outcome_policy=RETRY))
        await caller.watch(created.job.job_id)


async def _cut_off(caller: Caller) -> None:
    """Budgets that are too small: an optional call is skipped, a required one refused or cut."""
    request = jobs_service_pb2.QuoteRequest(models=["simulated-fast"], input_token_bound=9)
    for timeout in (0.08, 0.02):
        try:
            await caller.stub.Quote(request, timeout=timeout)
        except grpc.aio.AioRpcError:
            continue


async def _short_call(caller: Caller) -> None:
    message = Message(role=Role.ROLE_USER, content="Say something.")
    request = jobs_service_pb2.GenerateRequest(
        model="simulated-fast", messages=[message], max_output_token_count=32
    )
    async for _ in caller.stub.Generate(request, timeout=10):
        pass


async def _close_a_lane(caller: Caller) -> None:
    """A key that the provider refuses parks the lane."""
    created = await caller.create(spec_of("simulated-401"))
    await eventually(lambda: _waits_again(caller, created.job.job_id), within=WITHIN)


async def _waits_again(caller: Caller, job_id: str) -> bool:
    return bool((await caller.get(job_id)).attempts)


async def _verify(channel: grpc.aio.Channel) -> None:
    admin: Any = AdminServiceStub(channel)
    async for _ in admin.Verify(admin_service_pb2.VerifyRequest(), timeout=30):
        pass


async def _see(watching: prometheus.Prometheus, exported: Exported) -> None:
    """Waits until Prometheus has scraped everybody twice and evaluated every rule."""
    await eventually(watching.ready, within=WITHIN)
    await eventually(
        lambda: len(watching.query('count_over_time(up{job=~"hourglass-.*"}[1m]) > 1')) == len(JOB_NAMES),
        within=WITHIN,
    )
    await eventually(
        lambda: all(rule["health"] == "ok" for rule in watching.rules()) and watching.rules(), within=WITHIN
    )
    exported.up = watching.query('up{job=~"hourglass-.*"}')
    exported.accepted = watching.query("sum(hourglass_jobs_accepted_total)")
    exported.rules = watching.rules()


async def _kill_the_worker(stack: Stack, caller: Caller, *, database_worker: str) -> None:
    created = await caller.create(spec_of(SLOW))
    await caller.watch(created.job.job_id, seen=lambda transcript: transcript.token_count > 0)
    stack.children[database_worker].signal(signal.SIGKILL)


async def _has_lease_expired(exported: Exported, address: str) -> bool:
    now = Exported()
    now.add(address)
    if "hourglass_jobs_lease_expired_total" not in now.labels:
        return False
    for name, labels in now.labels.items():
        exported.labels.setdefault(name, []).extend(labels)
    return True
