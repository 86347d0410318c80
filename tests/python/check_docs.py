"""Runs every Python block of a page as a program of its own: what it prints must be what the comments beside print() say.

check_docs.py PAGE…
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def main():
    wrong = 0
    for page in map(pathlib.Path, sys.argv[1:]):
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        assert blocks, f"{page} has no Python"
        for number, block in enumerate(blocks, start=1):
            if "import torch" in block and importlib.util.find_spec("torch") is None:
                print(f"{page.name}, block {number}: PyTorch is not there")
                continue
            with tempfile.TemporaryDirectory(prefix="volador-docs-") as folder:
                script = pathlib.Path(folder) / "script.py"
                script.write_text(block)
                environment = {**os.environ, "VOLADOR_HOME": folder}
                done = subprocess.run([sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
                expected = re.findall(r"print\(.*\)  # (.*)$", block, re.MULTILINE)
                if done.returncode != 0 or done.stdout.splitlines() != expected:
                    print(f"{page.name}, block {number}: expected {expected}, got {done.stdout.splitlines()}\n{done.stderr}")
                    wrong += 1
        print(f"{page.name}: {len(blocks)} programs")
    return 1 if wrong else 0


sys.exit(main())
