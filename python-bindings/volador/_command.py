"""The command `volador`, which the package brings along."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("bin") / "volador"
    if not program.exists():
        sys.exit(f"error: {program} is missing; install the package again: pip install --force-reinstall volador")
    os.execv(program, ["volador", *sys.argv[1:]])
