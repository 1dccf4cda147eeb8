"""Names that reflection can be asked for."""

import pytest
from google.protobuf import descriptor_pool

from hourglass.jobs.v1 import jobs_service_pb2
from servicekit.symbols import Symbols

FILE = jobs_service_pb2.DESCRIPTOR.name
SYMBOLS = Symbols(descriptor_pool.Default())


@pytest.mark.parametrize(
    "symbol",
    [
        "hourglass.jobs.v1.JobService",
        "hourglass.jobs.v1.JobService.CreateJob",
        "hourglass.jobs.v1.CreateJobRequest",
        "hourglass.jobs.v1.CreateJobRequest.spec",
    ],
)
def test_services_methods_messages_and_fields_are_found(symbol: str) -> None:
    assert FILE == SYMBOLS.FindFileContainingSymbol(symbol).name


@pytest.mark.parametrize("symbol", ["hourglass.jobs.v1.JobService.Nothing", "hourglass.Nothing", "", "x"])
def test_nothing_else_is(symbol: str) -> None:
    with pytest.raises(KeyError):
        SYMBOLS.FindFileContainingSymbol(symbol)


def test_everything_else_is_the_pools() -> None:
    assert FILE == SYMBOLS.FindFileByName(FILE).name
