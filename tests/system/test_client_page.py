"""docs/client.md: what it shows runs, and what it says of classes and limits is so."""

import asyncio
import inspect
import re
from pathlib import Path

import pytest

import hourglass_client
from hourglass_client import HourglassError
from hourglass_client.errors import _FAMILIES
from launcher.processes import PROJECT
from tests.postgres import TestDatabase
from tests.stacks import stack_on

PAGE = (PROJECT / "docs" / "client.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.faults
@pytest.mark.timeout(120)
async def test_the_code_on_the_page_runs_as_it_stands(database: TestDatabase, tmp_path: Path) -> None:
    async with stack_on(database, tmp_path) as stack:
        code = "\n".join(BLOCKS).replace("127.0.0.1:50051", stack.jobs)
        await asyncio.to_thread(exec, compile(code, "docs/client.md", "exec"), {})


def test_every_family_of_errors_is_on_the_page() -> None:
    named = set(re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE))
    families = {
        name for name, kind in inspect.getmembers(hourglass_client, inspect.isclass) if _is_family(kind)
    }
    assert families == named
    for code, kind in _FAMILIES.items():
        assert re.search(rf"^\| `{kind.__name__}` \| .*{code.name}", PAGE, re.MULTILINE)


def _is_family(kind: type) -> bool:
    return kind.__base__ is HourglassError
