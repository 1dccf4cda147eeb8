"""How a transaction opens: one message, every limit in it, nothing in it that was not checked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.connections import DatabaseLimits
from budget.transaction import opening


def message(remaining: float, *tenants: str) -> str:
    return opening(remaining, tenants=tenants, tenant_setting="hourglass.tenants", limits=DatabaseLimits())


def limits(remaining: float) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"SET LOCAL (\w+) = (\d+)", message(remaining))}


@given(st.floats(min_value=0.0, max_value=1e9))
def test_no_statement_is_ever_without_a_limit(remaining: float) -> None:
    found = limits(remaining)

    assert {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} == found.keys()
    assert min(found.values()) >= 1


@given(st.floats(min_value=0.02, max_value=3600.0))
def test_the_server_stops_a_statement_before_we_do(remaining: float) -> None:
    assert limits(remaining)["statement_timeout"] < remaining * 1000


def test_the_tenants_are_set_in_the_opening_message() -> None:
    assert message(1.0, "acme", "beta-2").endswith("; SET LOCAL hourglass.tenants = 'acme,beta-2'")
    assert "tenants" not in message(1.0)


@pytest.mark.parametrize("tenant", ["", "Acme", "a'; DROP TABLE jobs; --", "a" * 64, "a,b", "a\n"])
def test_a_tenant_that_is_no_name_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match="tenants"):
        message(1.0, tenant)
