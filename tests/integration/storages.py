"""Servers of object stores, for tests: moto for S3. Exit code 77 where it is not there (scripts/setup_storage.sh)."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fault_proxy  # noqa: E402
import pypi_folder  # noqa: E402
from single_machine import BIN, Home, wait_until  # noqa: E402

PACKAGES = pypi_folder.require("storage", "moto", BIN / "volador", BIN / "storage_contract")
RCLONE = pathlib.Path(PACKAGES) / "bin" / "rclone"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Server:
    def __init__(self, command, port, **environment):
        self.folder = tempfile.mkdtemp(prefix="vs-", dir="/tmp")
        self.port = port
        self.process = subprocess.Popen([part.format(port=port, folder=self.folder) for part in command], cwd=self.folder,
                                        env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(f"{command[0]} listens", lambda: answers(port))

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def moto():
    server = Server([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}"], free_port(), PYTHONPATH=PACKAGES)
    for bucket in ("models", "other"):
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.port}/{bucket}", method="PUT"), timeout=60).close()
    return server


class WithMoto(unittest.TestCase):
    """A home and a server of S3 with the buckets models and other."""

    @classmethod
    def setUpClass(cls):
        cls.moto = moto()

    @classmethod
    def tearDownClass(cls):
        cls.moto.close()

    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        self.s3 = {"VOLADOR_RCLONE": str(RCLONE), "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "not-so-secret"}

    def address(self, key, port=None):
        return f"s3://models/{self.id().rsplit('.', 1)[-1]}/{key}?endpoint=http://127.0.0.1:{port or self.moto.port}"

    def volador(self, *arguments, code=0, **environment):
        ran = self.home.run(BIN / "volador", *arguments, **{**self.s3, **environment})
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout if code == 0 else ran.stderr

    def proxy(self, fault):
        proxy = fault_proxy.FaultProxy(self.moto.port, fault)
        self.addCleanup(proxy.close)
        return proxy

    def folder(self, size=300_000):
        folder = self.home.path / "made"
        (folder / "inner").mkdir(parents=True)
        (folder / "weights").write_bytes(os.urandom(size))
        (folder / "inner" / "note.txt").write_text("text\n")
        return folder

    def rclones(self):
        """Processes of rclone that belong to this test, with their arguments."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if words and words[0] == os.fsencode(RCLONE) and f"HOME={self.home.path}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((int(entry.name), words))
            except OSError:
                pass
        return found

    def keys(self, prefix, field="Key"):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.moto.port}/models?list-type=2&prefix={prefix}", timeout=60) as reply:
            return re.findall(rf"<{field}>([^<]+)</{field}>", reply.read().decode())
