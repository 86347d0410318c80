"""Where packages are that scripts/setup_NAME.sh installs from PyPI for tests."""

import pathlib
import subprocess
import sys


def find(name):
    """The folder of its packages, the first place to import from after this; empty where they are not installed."""
    setup = pathlib.Path(__file__).resolve().parents[1] / "scripts" / f"setup_{name}.sh"
    folder = subprocess.run([setup, "--folder"], capture_output=True, text=True, check=False).stdout.strip()
    if folder:
        sys.path.insert(0, folder)
    return folder


def require(name, what, *programs):
    """The same; ends the test with 77 where they or one of the programs, which are paths, are missing."""
    folder = find(name)
    if not folder or not all(program.exists() for program in programs):
        print(f"skipped: {' or '.join([program.name for program in programs] + [what])} is missing; scripts/setup_{name}.sh installs the latter")
        sys.exit(77)
    return folder
