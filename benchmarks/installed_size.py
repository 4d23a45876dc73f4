"""What the core's dependencies weigh on disk, and what the libraries left out would add.

Installs the dependencies of pyproject.toml into an empty environment, at the versions of
constraints.txt, and adds up the files that each distribution's own record lists (compiled
`.pyc` files included, as pip leaves them). Prints a table and writes installed_size.json beside
this file. Needs a package index; takes about a minute:

    python benchmarks/installed_size.py
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = ("scipy", "narwhals", "pyarrow", "pandas")

WEIGH = """
import importlib.metadata, json, sys
sizes = {}
for found in importlib.metadata.distributions(path=sys.argv[1:]):
    paths = {file.locate().resolve() for file in found.files or ()}
    size = sum(path.stat().st_size for path in paths if path.is_file())
    sizes[found.metadata["Name"]] = [found.version, size]
print(json.dumps(sizes))
"""


def run(*command: str | Path) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def weigh(python: Path, *folders: Path) -> dict[str, tuple[str, int]]:
    return {
        name: (v, size)
        for name, (v, size) in json.loads(run(python, "-c", WEIGH, *folders)).items()
    }


def measure(folder: Path) -> tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """Version and bytes of each distribution: of the core, and of those left out of it."""
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = (python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    before = weigh(python, site)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run(*install, *project["dependencies"])
    core = {name: found for name, found in weigh(python, site).items() if name not in before}
    left_out = {}
    for name in LEFT_OUT:
        run(*install, "--no-deps", "--target", folder / name, name)
        left_out |= weigh(python, folder / name)
    return core, left_out


def table(title: str, sizes: dict[str, tuple[str, int]]) -> None:
    print(f"\n{title}")
    for name, (version, size) in sorted(sizes.items(), key=lambda row: -row[1][1]):
        print(f"  {name:20} {version:>12} {size / 1e6:8.1f} MB")
    print(f"  {'total':20} {'':>12} {sum(size for _, size in sizes.values()) / 1e6:8.1f} MB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        core, left_out = measure(Path(folder))
    table("core, with everything it brings", core)
    table("left out of the core, each without its own dependencies", left_out)
    result = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "unit": "bytes",
        "core": {
            name: dict(zip(("version", "size"), core[name], strict=True)) for name in sorted(core)
        },
        "core_total": sum(size for _, size in core.values()),
        "left_out": {
            name: dict(zip(("version", "size"), left_out[name], strict=True))
            for name in sorted(left_out)
        },
    }
    (ROOT / "benchmarks" / "installed_size.json").write_text(
        json.dumps(result, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
