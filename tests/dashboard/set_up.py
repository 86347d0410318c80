"""What the tests of the dashboard start and ask: a cluster, volador view, clients of HTTP and WebSocket.

Environment: VOLADOR_BIN, the folder of the programs. main() ends with exit code 77 where the binary is not there.
"""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))


def environment_of(home, *unset):
    """The environment of programs with this home and no settings of the user."""
    unset = ("VOLADOR_ADDRESS", "VOLADOR_TOKEN", *unset)
    return {**{name: value for name, value in os.environ.items() if name not in unset}, "VOLADOR_HOME": home, "HOME": home}


class Client:
    """One kind of visitor: what it sends with each request."""

    def __init__(self, port, headers=None):
        self.port, self.headers = port, headers or {}

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            sent = dict(self.headers)
            sent.update({name.replace("_", "-"): value for name, value in headers.items()})
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=sent)
            answer = connection.getresponse()
            answer.text = answer.read()
            return answer
        finally:
            connection.close()

    def get(self, path):
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer.status, answer.text)
        return json.loads(answer.text)


class WebSocket:
    """As much of RFC 6455 as a client needs."""

    def __init__(self, port, path="/ws", **headers):
        self.line = socket.create_connection(("127.0.0.1", port), timeout=20)
        request = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                   "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()]
        request += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.line.sendall(("\r\n".join(request) + "\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            piece = self.line.recv(65536)
            if not piece:
                break
            self.buffer += piece
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.status = int(head.split()[1]) if head else 0

    def take(self, size):
        while len(self.buffer) < size:
            piece = self.line.recv(1 << 20)
            if not piece:
                raise EOFError
            self.buffer += piece
        out, self.buffer = self.buffer[:size], self.buffer[size:]
        return out

    def frame(self, opcode, payload, masked=True):
        head = bytes([0x80 | opcode])
        size = len(payload)
        bit = 0x80 if masked else 0
        head += bytes([bit | size]) if size < 126 else bytes([bit | 126]) + struct.pack(">H", size) if size < 65536 else bytes([bit | 127]) + struct.pack(">Q", size)
        mask = os.urandom(4) if masked else b""
        self.line.sendall(head + mask + (bytes(b ^ mask[i % 4] for i, b in enumerate(payload)) if masked else payload))

    def send(self, message):
        self.frame(1, (message if isinstance(message, str) else json.dumps(message)).encode())

    def read(self):
        """The next message; None: a close frame, or the end."""
        while True:
            try:
                first, second = self.take(2)
                size = second & 0x7F
                if size == 126:
                    size = struct.unpack(">H", self.take(2))[0]
                elif size == 127:
                    size = struct.unpack(">Q", self.take(8))[0]
                payload = self.take(size)
            except (EOFError, ConnectionError):
                return None
            opcode = first & 0x0F
            if opcode == 8:
                return None
            if opcode == 9:
                self.frame(10, payload)
            elif opcode in (0, 1):
                assert first & 0x80, "fragments are not expected of the server"
                return json.loads(payload)

    def next(self, wanted):
        """The next message for which wanted() holds."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            message = self.read()
            assert message is not None, "closed"
            if wanted(message):
                return message
        raise AssertionError("no such message came")

    def close(self):
        self.line.close()


class Case(unittest.TestCase):
    """A test case that starts programs with its `environment`."""

    def wait_for(self, holds):
        """A head that starts anew may refuse connections meanwhile."""
        until = time.monotonic() + 40
        while True:
            try:
                if holds():
                    return
            except ConnectionError:
                pass
            self.assertLess(time.monotonic(), until, "it did not come to that")
            time.sleep(0.02)

    def view(self, folder):
        """volador view of it: the program, what it printed, and a browser that has opened its link."""
        program = subprocess.Popen([BIN / "volador", "view", folder, "--json", "--no-browser"], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        text = ""
        while not text.endswith("}\n"):
            line = program.stdout.readline()
            self.assertTrue(line, "it ended: " + text)
            text += line
        told = json.loads(text)
        link = told["dashboard"]
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/login", link)[1])
        answer = Client(port).ask("GET", link[link.index("/login"):])
        return program, told, Client(port, {"Cookie": answer.getheader("Set-Cookie").split(";")[0]})


class Cluster(Case):
    """A cluster of one node, with a visitor of each role."""

    options = ()  # Further options of volador start.

    @classmethod
    def setUpClass(cls):
        # Short: sockets lie below it.
        cls.home = tempfile.mkdtemp(prefix="vd-", dir="/tmp")
        cls.environment = environment_of(cls.home)
        cls.addClassCleanup(cls.stop_cluster)  # Also if what follows fails.
        cls.start()
        cls.tokens = {role: cls.volador("token", "create", f"--role={role}").strip() for role in ("viewer", "operator", "driver", "join")}
        cls.visitors = {"nobody": Client(cls.port), **{role: Client(cls.port, {"Authorization": f"Bearer {token}"}) for role, token in cls.tokens.items()}}
        cls.viewer, cls.operator = cls.visitors["viewer"], cls.visitors["operator"]

    @classmethod
    def stop_cluster(cls):
        subprocess.run([BIN / "volador", "stop"], env=cls.environment, stdout=subprocess.DEVNULL, check=False)
        shutil.rmtree(cls.home, ignore_errors=True)

    @classmethod
    def start(cls):
        started = json.loads(cls.volador("start", "--head", "--port=0", "--num-cpus=2", *cls.options, "--json"))
        cls.address = started["address"]
        cls.link = started["dashboard"]
        cls.pids = started["pids"]
        cls.port = int(re.search(r":(\d+)/login", cls.link)[1])

    @classmethod
    def volador(cls, *arguments):
        done = subprocess.run([BIN / "volador", *arguments], env=cls.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def login(self):
        """A browser that has opened a fresh link."""
        link = self.volador("dashboard").strip()
        answer = Client(self.port).ask("GET", link[link.index("/login"):])
        self.assertEqual(answer.status, 303)
        cookie = answer.getheader("Set-Cookie")
        return Client(self.port, {"Cookie": cookie.split(";")[0]}), cookie

    def same_origin(self):
        return {"Origin": f"http://127.0.0.1:{self.port}", "X_Volador_Request": "1"}

    def restart_head(self):
        """Killed, and another one started on its folder."""
        os.kill(self.pids[0], signal.SIGKILL)
        self.wait_for(lambda: not os.path.exists(f"/proc/{self.pids[0]}") or open(f"/proc/{self.pids[0]}/stat", encoding="utf-8").read().split()[2] == "Z")
        type(self).start()
        for visitor in self.visitors.values():
            visitor.port = self.port


def main():
    if not (BIN / "volador").exists():
        sys.exit(77)
    unittest.main(warnings="ignore")
