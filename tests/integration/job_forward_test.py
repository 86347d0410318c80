"""Ports of running jobs on this machine: real servers in jobs, real connections to them.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from jobs_test import VOLADOR, Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

# Serves a greeting with the rank by HTTP, and everything that it gets back after "echo " on a second port.
SERVER = r"""
import http.server, os, socketserver, threading
class Greeting(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = (f"rank {os.environ.get('RANK', 0)} " + self.path).encode() if self.path != "/big" else bytes(range(256)) * 40000
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while piece := self.request.recv(65536): self.request.sendall(piece)
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 128
    daemon_threads = True
web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Greeting)
echo = Server(("127.0.0.1", 0), Echo)
threading.Thread(target=echo.serve_forever, daemon=True).start()
print("ports", web.server_port, echo.server_address[1], flush=True)
web.serve_forever()
"""


class Forward:
    """A running `volador job forward`; `address` is (host, port)."""

    def __init__(self, cluster, *arguments, **environment):
        self.process = subprocess.Popen([VOLADOR, "job", "forward", *arguments], cwd=cluster.work, env=cluster.home.environment(**environment),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def read_address(self):
        line = self.process.stderr.readline()
        if "http://127.0.0.1:" not in line:
            raise AssertionError(line + self.process.stderr.read())
        self.address = ("127.0.0.1", int(line.split("http://127.0.0.1:")[1].split()[0]))
        return self.address

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.address[1]}{path}", timeout=60) as reply:
            return reply.read()

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.process.wait(60)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class JobForward(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.job = cls.cluster.submit("--no-code", "--nodes=2", "--cpus=0.5", "--", "python3", "-c", SERVER)
        cls.ports = [cls.ports_of(cls.job, rank) for rank in (0, 1)]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    @classmethod
    def ports_of(cls, job, rank=0):
        def ports():
            words = cls.cluster.run("job", "logs", f"--rank={rank}", job).stdout.split()
            return words[words.index("ports") + 1:][:2] if "ports" in words else None

        return wait_until("its server listens", ports)

    def forward(self, *arguments, **environment):
        forward = Forward(self.cluster, *arguments, **environment)
        self.addCleanup(forward.close)
        return forward

    def test_each_rank_is_reached(self):
        for rank in (0, 1):
            forward = self.forward(self.job, f"0:{self.ports[rank][0]}", f"--rank={rank}")
            forward.read_address()
            self.assertEqual(forward.get("/a?b=1"), f"rank {rank} /a?b=1".encode())
            self.assertEqual(hashlib.sha256(forward.get("/big")).hexdigest(), hashlib.sha256(bytes(range(256)) * 40000).hexdigest())
            self.assertEqual(forward.end(), 0)

    def test_many_connections_at_once_keep_their_bytes(self):
        forward = self.forward(self.job, f"0:{self.ports[0][1]}")
        address = forward.read_address()

        def echo(number):
            sent = bytes([number]) * 300_000
            with socket.create_connection(address, timeout=60) as connection:
                sender = threading.Thread(target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR)))
                sender.start()
                received = b""
                while piece := connection.recv(65536):
                    received += piece
                sender.join()
            return received == sent

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            self.assertEqual(list(pool.map(echo, range(60))), [True] * 60)
        self.assertEqual(forward.end(signal.SIGTERM), 0)
        entries = json.loads(self.cluster.must("list", "audit", "--json"))["audit"]
        self.assertLessEqual(sum(entry["action"] == "forward_port" and entry["outcome"] == "done" for entry in entries), 5)

    def test_the_end_of_the_forward_closes_connections_in_the_job(self):
        forward = self.forward(self.job, f"0:{self.ports[0][1]}")
        with socket.create_connection(forward.read_address(), timeout=60) as connection:
            connection.sendall(b"x")
            self.assertEqual(connection.recv(1), b"x")
            self.assertEqual(forward.end(), 0)
            self.assertEqual(connection.recv(1), b"")

    def test_a_port_without_a_server_is_said_once_and_tried_again(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            forward = self.forward(self.job, f"0:{port}")
            address = forward.read_address()
            for _ in range(2):
                with socket.create_connection(address, timeout=60) as connection:
                    self.assertEqual(connection.recv(1), b"")
            free.listen()
            with socket.create_connection(address, timeout=60), free.accept()[0] as inner:
                inner.sendall(b"x")
            self.assertEqual(forward.end(), 0)
            self.assertEqual(forward.process.stderr.read().count(f"nothing listens on port {port}"), 1)

    def test_a_command_runs_meanwhile(self):
        forward = self.forward(self.job, "0:18999", "--", "bash", "-c", "echo up; exec sleep 1000")
        forward.read_address()
        self.assertEqual(forward.process.stdout.readline(), "up\n")
        self.assertEqual(forward.end(signal.SIGTERM), 128 + signal.SIGTERM)
        forward = self.forward(self.job, "0:18999", "--", "bash", "-c", "exit 7")
        self.assertEqual(forward.process.wait(60), 7)

    def test_what_cannot_be_is_refused_with_the_next_step(self):
        ended = self.cluster.submit("--no-code", "--cpus=0.5", "--", "true")
        self.cluster.wait_state(ended, "succeeded")
        viewer = json.loads(self.cluster.must("token", "create", "--role=viewer", "--json"))["token"]
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            cases = [((self.job, "eighty"), 2, "expected a port from 1 to 65535 such as 8888"), ((self.job, "0"), 2, 'got "0"'),
                     ((self.job, "1:2:3"), 2, 'got "1:2:3"'), ((self.job, f"{port}:80"), 1, f"port {port} of 127.0.0.1 cannot be opened: Address already in use"),
                     ((ended, "0:80"), 2, f"{ended}: it has ended (succeeded)"), (("job-999", "0:80"), 6, "there is no job"),
                     ((self.job, "0:80", "--rank=2"), 2, "rank: expected 0 to 1, got 2")]
            for arguments, code, words in cases:
                with self.subTest(arguments):
                    ran = self.cluster.run("job", "forward", *arguments)
                    self.assertEqual(ran.returncode, code, ran.stderr)
                    self.assertIn(words, ran.stderr)
        self.assertEqual(self.cluster.run("job", "forward", self.job, "0:80", VOLADOR_TOKEN=viewer).returncode, 5)

    def test_it_ends_with_the_job(self):
        job = self.cluster.submit("--no-code", "--cpus=0.5", "--", "python3", "-c", SERVER)
        forward = self.forward("--wait", job, f"0:{self.ports_of(job)[0]}")
        forward.read_address()
        self.assertEqual(forward.get("/"), b"rank 0 /")
        self.cluster.must("job", "stop", "--now", job)
        self.assertEqual(forward.process.wait(60), 0)
        self.assertIn(f"{job} has ended (stopped)", forward.process.stderr.read())


class JobForwardFaults(unittest.TestCase):
    def test_new_connections_pass_after_a_restart_of_the_head(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        job = cluster.submit("--no-code", "--", "python3", "-c", SERVER)
        JobForward.cluster = cluster
        forward = Forward(cluster, job, f"0:{JobForward.ports_of(job)[0]}")
        self.addCleanup(forward.close)
        forward.read_address()
        self.assertEqual(forward.get("/"), b"rank 0 /")
        cluster.kill(cluster.pid_of("head"))
        cluster.start_head()

        def answered():
            try:
                return forward.get("/again") == b"rank 0 /again"
            except OSError:
                return False

        wait_until("the port answers again", answered)
        self.assertEqual(forward.end(), 0)


if __name__ == "__main__":
    unittest.main()
