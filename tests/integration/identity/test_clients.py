"""The clients prove who calls: the Python ones, and grpcurl as docs/security.md shows it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from hourglass_client import AsyncClient, Client, NotPermitted
from tests.integration.identity.callers import Known
from tests.jobs import spec
from tests.tokens import token
from tests.waiting import eventually
from transport.bearer import LOOK_EVERY

GRPCURL = Path(sys.executable).with_name("grpcurl")
LIST_JOBS = "hourglass.jobs.v1.JobService/ListJobs"


async def grpcurl(address: str, *arguments: str) -> tuple[int, str]:
    """Its exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        GRPCURL,
        *("-plaintext", *arguments, address, LIST_JOBS),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_grpcurl_says_who_calls_and_is_told_when_it_does_not(known: Known) -> None:
    code, output = await grpcurl(known.jobs.address, "-H", f"authorization: Bearer {token()}", "-d", "{}")
    assert (0, {}) == (code, json.loads(output))
    code, output = await grpcurl(known.jobs.address, "-d", "{}")
    assert code != 0
    assert "Unauthenticated" in output
    assert "MISSING_CREDENTIALS" in output


async def test_a_token_rotates_while_a_client_lives(known: Known, tmp_path: Path) -> None:
    file = tmp_path / "caller"
    file.write_text(token(lives=-60.0))
    async with AsyncClient.connect(known.jobs.address, token=file) as client:
        with pytest.raises(NotPermitted) as refused:
            await client.create(spec(), key="one", timeout=10.0)
        assert "TOKEN_EXPIRED" == refused.value.reason
        file.write_text(token(user="fresh"))

        async def created() -> str:
            try:
                return (await client.create(spec(), key="one", timeout=10.0)).job.principal
            except NotPermitted:
                return ""

        assert "fresh" == await eventually(created, within=5 * LOOK_EVERY)


async def test_a_client_that_blocks_calls_by_an_api_key(known: Known) -> None:
    secret = (await known.key("acme")).secret

    def create() -> str:
        with Client.connect(known.jobs.address, token=secret) as client:
            return client.create(spec(), timeout=10.0).job.principal

    assert "batch" == await asyncio.to_thread(create)
