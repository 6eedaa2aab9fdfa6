"""Makes a component of an operator: `python -m howdah.build my_operator.py`.

Needs componentize-py (`pip install componentize-py==0.25.1`), and the contract, which lies beside
this package or is given with `--wit`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

from howdah.errors import Error
from howdah.mend import marked, mended
from howdah.operators import Operator

TOOL, TOOL_VERSION = "componentize-py", "0.25.1"
"""What makes the component; what is mended in it is known of this version."""
SDK_VERSION = "0.1.0"
"""The version of this SDK, which the component names."""
_PACKAGE = Path(__file__).resolve().parent
_ENTRY = """from howdah.component import exports
from {module} import {operator}

globals().update(exports({operator}))
"""


def find_operator(module_name: str) -> type[Operator]:
    """The one operator that a module defines."""
    module = importlib.import_module(module_name)
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Operator)
        and value.__module__ == module_name
    ]
    if len(found) != 1:
        names = ", ".join(operator.__name__ for operator in found) or "none"
        raise Error(f"{module_name}.py must define one operator, not {names}")
    return found[0]


def find_wit(given: str | None) -> Path:
    """The directory of the contract."""
    places = [Path(given)] if given else [_PACKAGE / "wit", _PACKAGE.parents[2] / "wit"]
    for place in places:
        if (place / "operator.wit").is_file():
            return place
    raise Error(f"no contract (operator.wit) in {places[0]}: say with --wit where it is")


def check_tool() -> None:
    """Refuses another version of the tool."""
    try:
        version = importlib.metadata.version(TOOL)
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version != TOOL_VERSION:
        raise Error(f"needs {TOOL} {TOOL_VERSION}, not {version}: pip install {TOOL}=={TOOL_VERSION}")


def build(source: Path, target: Path, wit: Path, world: str) -> None:
    """Builds the component. Describes the operator first: what it declares wrong shows here."""
    check_tool()
    sys.path.insert(0, str(source.resolve().parent))
    operator = find_operator(source.stem)
    operator._describe("{}")
    with tempfile.TemporaryDirectory() as directory:
        entry = _ENTRY.format(module=source.stem, operator=operator.__name__)
        (Path(directory) / "howdah_entry.py").write_text(entry)
        made = Path(directory) / "made.wasm"
        command = [
            str(Path(sys.executable).parent / TOOL),
            "--quiet",
            *("--wit-path", str(wit)),
            *("--world", f"howdah:operator/{world}"),
            "componentize",
            "--stub-wasi",
            *("--python-path", directory),
            *("--python-path", str(source.resolve().parent)),
            *("--python-path", str(_PACKAGE.parent)),
            *("--output", str(made)),
            "howdah_entry",
        ]
        subprocess.run(command, check=True)
        target.write_bytes(marked(mended(made.read_bytes()), "Python", SDK_VERSION))


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m howdah.build", description=__doc__)
    parser.add_argument("source", type=Path, help="the module that defines the operator")
    parser.add_argument("--output", type=Path, help="the component; default: beside the module")
    parser.add_argument("--wit", help="the directory of the contract")
    parser.add_argument("--world", default="timed-operator", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    target = arguments.output or arguments.source.with_name(
        arguments.source.stem.replace("_", "-") + ".wasm"
    )
    try:
        build(arguments.source, target, find_wit(arguments.wit), arguments.world)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"error: {error}; pip install {TOOL}=={TOOL_VERSION}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
