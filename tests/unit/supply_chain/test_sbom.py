"""`make sbom` lists what is shipped, with hashes, the same each time."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.processes import PROJECT
from requirements.licences import locked, normalised


def made(file: Path) -> bytes:
    subprocess.run(["make", "--silent", "sbom", f"SBOM={file}"], cwd=PROJECT, check=True, capture_output=True)
    return file.read_bytes()


def hashes(component: Any) -> list[str]:
    return [one["alg"] for reference in component["externalReferences"] for one in reference["hashes"]]


@pytest.mark.faults
def test_the_bill_of_materials_is_the_lock_and_is_the_same_each_time(tmp_path: Path) -> None:
    first = made(tmp_path / "here" / "first.json")
    bill = json.loads(first)
    assert first == made(tmp_path / "second.json")
    assert ("CycloneDX", "hourglass") == (bill["bomFormat"], bill["metadata"]["component"]["name"])
    assert locked("runtime.lock") == {normalised(one["name"]) for one in bill["components"]}
    assert {"SHA-256"} == {algorithm for one in bill["components"] for algorithm in hashes(one)}
    assert [] == [one["name"] for one in bill["components"] if not hashes(one)]
