"""The contract's tool: write the typed stubs, check them and the .proto files, move the baseline.

`python -m protos.generate write|check|baseline`. buf cannot fetch the google/*.proto files without a network,
so it reads images that protoc made, which carry them; `--path` keeps its rules to our own files.
"""

import filecmp
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
STUBS = ROOT / "hourglass"
BASELINE = PROTOS / "baseline.binpb"
PROGRAMS = Path(sys.executable).parent


def write() -> None:
    """Write `hourglass/` anew from `protos/hourglass/`; when that fails, nothing changes."""
    with tempfile.TemporaryDirectory() as folder:
        _compile_stubs(Path(folder))
        shutil.rmtree(STUBS, ignore_errors=True)
        shutil.copytree(Path(folder) / "hourglass", STUBS)


def check() -> None:
    """Fail on stubs that differ, on lint or format findings, and on a break with the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        _compile_stubs(Path(folder))
        differences = sorted(_differences(Path(folder) / "hourglass", STUBS))
        if differences:
            sys.exit("\n".join(["stubs differ from the contract; run `make proto`:", *differences]))
        image = Path(folder) / "image.binpb"
        _compile_image(image, "--include_source_info")
        _buf("lint", str(image), "--path", "hourglass")
        _buf("format", "--diff", "--exit-code", "protos")
        _buf("breaking", str(image), "--against", str(BASELINE), "--path", "hourglass")


def baseline() -> None:
    """Make the present contract the one that later ones are compared with."""
    _compile_image(BASELINE)


def _compile_stubs(target: Path) -> None:
    files = sorted(PROTOS.rglob("*.proto"))
    _protoc(files, *_plugin("mypy", target), f"--python_out={target}")
    services = [path for path in files if "\nservice " in path.read_text()]
    _protoc(services, *_plugin("mypy_grpc", target), f"--grpc_python_out={target}")
    package = target / "hourglass"
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()
    (package / "py.typed").touch()


def _compile_image(target: Path, *options: str) -> None:
    files = sorted(PROTOS.rglob("*.proto"))
    _protoc(files, "--include_imports", f"--descriptor_set_out={target}", *options)


def _plugin(name: str, target: Path) -> tuple[str, str]:
    return f"--plugin=protoc-gen-{name}={PROGRAMS / f'protoc-gen-{name}'}", f"--{name}_out=quiet:{target}"


def _protoc(files: Sequence[Path], *options: str) -> None:
    folders = [f"--proto_path={PROTOS}", f"--proto_path={_google()}"]
    _run(sys.executable, "-m", "grpc_tools.protoc", *folders, *options, *map(str, files))


def _google() -> Path:
    """The folder that holds google/type/*.proto: googleapis-common-protos ships them beside its modules."""
    money = find_spec("google.type.money_pb2")
    if money is None or money.origin is None:
        sys.exit("googleapis-common-protos is not installed; run `make setup`")
    return Path(money.origin).parents[2]


def _buf(command: str, *arguments: str) -> None:
    _run(str(PROGRAMS / "buf"), command, *arguments, "--config", "buf.yaml")


def _run(*command: str) -> None:
    finished = subprocess.run(command, cwd=ROOT, check=False, timeout=120)
    if finished.returncode != 0:
        sys.exit(f"{Path(command[0]).name} {command[1]} failed")


def _differences(expected: Path, actual: Path) -> Iterator[str]:
    names = _files(expected) | _files(actual)
    for name in names:
        if not (actual / name).exists():
            yield f"  missing: hourglass/{name}"
        elif not (expected / name).exists():
            yield f"  not generated: hourglass/{name}"
        elif not filecmp.cmp(expected / name, actual / name, shallow=False):
            yield f"  differs: hourglass/{name}"


def _files(folder: Path) -> set[Path]:
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


COMMANDS: dict[str, Callable[[], None]] = {"write": write, "check": check, "baseline": baseline}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m protos.generate {'|'.join(COMMANDS)}")
    COMMANDS[sys.argv[1]]()
