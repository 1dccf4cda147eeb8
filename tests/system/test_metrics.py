"""What the processes really export: nothing under deploy/ names anything else, and a Prometheus reads it."""

import asyncio
import re
from collections.abc import Mapping

import pytest

from tests import prometheus, promql
from tests.postgres import TestServer
from tests.system.exported import JOB_NAMES, Exported, play

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

RARE: Mapping[str, frozenset[str]] = {
    "hourglass_admission_refused_total": frozenset({"rpc_method", "hourglass_refusal"}),
    "hourglass_identity_decisions_total": frozenset({"hourglass_credentials", "hourglass_outcome"}),
    "hourglass_rate_limit_refusals_total": frozenset({"rpc_method"}),
    "hourglass_tls_certificate_remaining_days": frozenset({"hourglass_tls_end", "hourglass_tls_file"}),
    "hourglass_tls_reloads_total": frozenset({"hourglass_tls_end", "hourglass_tls_reload"}),
    "hourglass_money_overrun_USD_total": frozenset({"provider", "model", "work"}),
}
"""What takes a worse day than ours, or credentials, with its labels."""
LABELS = frozenset(
    {
        "basis",
        "cause",
        "db_client_connection_pool_name",
        "db_client_connection_state",
        "error_type",
        "hourglass_admission",
        "hourglass_credentials",
        "hourglass_dependency",
        "hourglass_dependency_method",
        "hourglass_ending",
        "hourglass_outcome",
        "hourglass_reason",
        "hourglass_refusal",
        "hourglass_tls_end",
        "hourglass_tls_file",
        "hourglass_tls_reload",
        "invariant",
        "kind",
        "lane",
        "model",
        "outcome",
        "provider",
        "result",
        "retry",
        "rpc_method",
        "rpc_response_status_code",
        "rpc_system_name",
        "state",
        "work",
    }
)
"""All labels that there are. Whoever adds one has to know what bounds its values."""
OF_THE_EXPORTER = frozenset({"le", "otel_scope_name", "otel_scope_schema_url", "otel_scope_version"})
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")
with_prometheus = pytest.mark.skipif(
    not prometheus.installed(), reason=f"NO PROMETHEUS SCRAPES ANYTHING: {prometheus.HOW_TO_INSTALL}"
)


@pytest.fixture(scope="module")
def exported(postgres_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """One run for all tests."""

    async def once() -> Exported:
        async with postgres_server.database() as database:
            return await play(database, tmp_path_factory.mktemp("metrics"))

    return asyncio.run(once())


def ours(exported: Exported) -> dict[str, frozenset[str]]:
    """Series of ours, with all labels that they were seen with."""
    seen = {
        name: frozenset().union(*labels)
        for name, labels in exported.labels.items()
        if name.startswith(("hourglass_", "rpc_", "db_"))
    }
    return {**RARE, **seen}


def test_every_instrument_is_exported(exported: Exported) -> None:
    series = ours(exported)
    missing = {
        name
        for name in promql.instruments()
        if not any(one.startswith(name.replace(".", "_")) for one in series)
    }
    assert set() == missing


def test_nothing_under_deploy_names_a_series_or_a_label_that_is_not_exported(exported: Exported) -> None:
    series: dict[str, frozenset[str]] = {"up": frozenset(), **ours(exported)}
    for name, labels in exported.labels.items():
        series.setdefault(name, frozenset().union(*labels))
    for name, made_of in promql.recorded().items():
        series[name] = made_of.grouped - {"le"}
    for named in promql.everything_named():
        assert named.series.keys() <= series.keys(), named.at
        offered = frozenset().union(promql.OF_PROMETHEUS, *(series[name] for name in named.series))
        assert named.grouped <= offered, named.at
        for name, selected in named.series.items():
            assert selected <= series[name] | promql.OF_PROMETHEUS, f"{named.at}: {name}"


def test_labels_are_bounded_and_name_neither_tenants_nor_jobs(exported: Exported) -> None:
    for name, labels in ours(exported).items():
        assert labels <= LABELS | OF_THE_EXPORTER, name
    for name in ours(exported):
        values = {value for labels in exported.labels.get(name, ()) for value in labels.values()}
        assert not {value for value in values if value == "demo" or UUID.search(value)}, name


@with_prometheus
def test_a_real_prometheus_scrapes_every_process(exported: Exported) -> None:
    up = {one["metric"]["job"]: one["value"][1] for one in exported.up}
    assert dict.fromkeys(JOB_NAMES.values(), "1") == up


@with_prometheus
def test_it_answers_what_was_accepted(exported: Exported) -> None:
    (accepted,) = exported.accepted
    assert "2" == accepted["value"][1]


@with_prometheus
def test_it_evaluates_all_our_rules(exported: Exported) -> None:
    assert promql.recorded().keys() | promql.alerts().keys() == {rule["name"] for rule in exported.rules}
    assert {"ok"} == {rule["health"] for rule in exported.rules}
