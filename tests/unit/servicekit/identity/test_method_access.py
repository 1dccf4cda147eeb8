"""Every method of every service says what it asks of a caller."""

import pytest
from google.protobuf import descriptor_pool

import hourglass.jobs.v1.admin_service_pb2
import hourglass.jobs.v1.jobs_service_pb2
import hourglass.pricing.v1.pricing_service_pb2
import hourglass.worker.v1.worker_service_pb2  # noqa: F401 - fills the pool
from jobs_service.methods import ADMIN, JOBS
from jobs_service.methods import methods as jobs_methods
from pricing_service.rpc import METHODS as PRICING_METHODS
from pricing_service.rpc import SERVICE as PRICING
from servicekit.identity.scopes import Scope
from servicekit.methods import MethodPolicies
from worker.rpc import SERVICE as WORKER
from worker.rpc import methods as worker_methods

SERVED = {
    JOBS: jobs_methods(max_stream_age=1.0),
    ADMIN: jobs_methods(max_stream_age=1.0),
    PRICING: PRICING_METHODS,
    WORKER: worker_methods(stream_age=1.0),
}
CHANGING = {"CreateJob", "CancelJob", "RetryJob", "ResolveJob", "EraseJobContent", "Generate", "Quote"}
"""Methods of JobService that leave a trace."""


def names_of(service: str) -> list[str]:
    return [method.name for method in descriptor_pool.Default().FindServiceByName(service).methods]


@pytest.mark.parametrize(("service", "policies"), SERVED.items())
def test_every_method_of_the_contract_asks_for_something(service: str, policies: MethodPolicies) -> None:
    for name in names_of(service):
        access = policies[f"/{service}/{name}"].access
        assert access is not None, name
        assert access.scopes, name


def test_no_table_names_a_method_that_is_not_there() -> None:
    for service, policies in SERVED.items():
        stated = {name.rpartition("/")[2] for name in policies if name.startswith(f"/{service}/")}
        assert set(names_of(service)) == stated


def test_all_of_admin_asks_for_admin_and_nothing_else_of_the_public_face_does() -> None:
    for name in names_of(ADMIN):
        access = SERVED[ADMIN][f"/{ADMIN}/{name}"].access
        assert access is not None
        assert {Scope.ADMIN} == access.scopes
    for name in names_of(JOBS):
        access = SERVED[JOBS][f"/{JOBS}/{name}"].access
        assert access is not None
        assert Scope.ADMIN not in access.scopes
        assert access.of_tenant
        assert (Scope.WRITE in access.scopes) == (name in CHANGING), name


def test_whatever_streams_text_by_itself_asks_for_content() -> None:
    for service, name in ((JOBS, "Generate"), (WORKER, "Generate"), (WORKER, "StreamProgress")):
        access = SERVED[service][f"/{service}/{name}"].access
        assert access is not None
        assert Scope.READ_CONTENT in access.scopes
