"""Alerts of a real cluster at a real webhook: alerts_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import http.server
import json
import os
import pathlib
import queue
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading

from set_up import BIN, Case, main


class Webhook(http.server.ThreadingHTTPServer):
    """Answers with the next of its statuses, then with 200; keeps what it was told."""

    def __init__(self, statuses=(), context=None):
        self.told, self.statuses = queue.Queue(), list(statuses)
        super().__init__(("127.0.0.1", 0), Taker)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that does not trust the certificate ends the handshake."""


class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        self.end_headers()
        self.server.told.put((self.path, self.headers["Authorization"], self.headers["Content-Type"], status, body))

    def log_message(self, *_):
        pass


class Alerts(Case):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="vd-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.environment = {**os.environ, "VOLADOR_HOME": str(self.home), "HOME": str(self.home)}
        for name in ("VOLADOR_ADDRESS", "VOLADOR_TOKEN"):
            self.environment.pop(name, None)
        self.secret = self.home / "secret"
        self.secret.write_text("s3cr3t\n", encoding="ascii")

    def start(self, url, *flags):
        return subprocess.run([BIN / "volador", "start", "--head", "--port=0", "--num-cpus=2", "--json", f"--alert-url={url}", *flags], env=self.environment, capture_output=True, text=True, timeout=60, check=False)

    def started(self, hook, scheme="http"):
        self.addCleanup(hook.server_close)
        self.addCleanup(hook.shutdown)
        done = self.start(f"{scheme}://127.0.0.1:{hook.server_address[1]}/hook?x=1", f"--alert-secret-file={self.secret}", "--lease=1500ms", "--reconnect-window=3s")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(subprocess.run, [BIN / "volador", "stop"], env=self.environment, stdout=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout)

    def run_one(self, *flags):
        return subprocess.Popen([BIN / "tune_sleep", "--num-samples=1", *flags], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_it_tells_of_experiments_that_end_and_of_a_node_that_is_lost(self):
        hook = Webhook(statuses=[503, 200, 404])
        cluster = self.started(hook)
        self.assertEqual(self.run_one("--seconds=0.1").wait(), 0)
        path, secret, kind, status, first = hook.told.get(timeout=30)
        self.assertEqual((path, secret, kind, status), ("/hook?x=1", "Bearer s3cr3t", "application/json", 503))
        self.assertEqual((first["event"], first["fields"]["failed"]), ("experiment.finished", "0"))
        self.assertIn(f"experiment {first['fields']['experiment']} finished; best ", first["text"])
        self.assertEqual(first["url"], cluster["dashboard"].split("/login")[0] + "/#/experiments/" + first["fields"]["experiment"])
        again = hook.told.get(timeout=30)
        self.assertEqual((again[3], again[4]), (200, first), "it is sent again, the same")

        program = self.run_one("--seconds=300")
        self.wait_for(lambda: "running" in subprocess.run([BIN / "volador", "list", "experiments", "--state=running"], env=self.environment, capture_output=True, text=True, check=True).stdout)
        program.kill()
        program.wait()
        *_, status, crashed = hook.told.get(timeout=60)
        self.assertEqual((status, crashed["event"]), (404, "experiment.crashed"))
        self.assertNotEqual(crashed["id"], first["id"])

        os.kill(cluster["pids"][1], signal.SIGKILL)
        *_, lost = hook.told.get(timeout=60)
        self.assertEqual(lost["event"], "node.lost", "what was refused with 404 is not sent again")

    def test_it_tells_nobody_whose_certificate_the_system_does_not_know(self):
        certificate, key = self.home / "hook.pem", self.home / "hook.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=hook",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.environment["SSL_CERT_FILE"] = str(certificate)
        known = Webhook(context=context)
        self.started(known, "https")
        self.assertEqual(self.run_one("--seconds=0.1").wait(), 0)
        self.assertEqual(known.told.get(timeout=30)[4]["event"], "experiment.finished")
        subprocess.run([BIN / "volador", "stop"], env=self.environment, stdout=subprocess.DEVNULL, check=True)

        self.environment["SSL_CERT_FILE"] = os.devnull
        unknown = Webhook(context=context)
        self.started(unknown, "https")
        self.assertEqual(self.run_one("--seconds=0.1").wait(), 0)
        logs = lambda: "".join(file.read_text(encoding="utf-8") for file in self.home.glob("clusters/*/head/*.log"))
        self.wait_for(lambda: "an alert was not taken" in logs())
        self.assertIn("SSL certificate problem", logs())
        self.assertTrue(unknown.told.empty())

    def test_what_cannot_be_used_is_said_before_anything_starts(self):
        for said, url, flags in (("alert_url: expected an address like https://example.org/hook, which begins with https:// or http://", "hooks.example/s3cr3t", []),
                                 ("alert_secret_file: ", "https://hooks.example/", ["--alert-secret-file=/none"]),
                                 ("leave out --no-dashboard", "https://hooks.example/", ["--no-dashboard"])):
            with self.subTest(said=said):
                refused = self.start(url, *flags)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn(said, refused.stderr)
                self.assertNotIn("s3cr3t", refused.stderr)
        self.assertFalse((self.home / "clusters").exists(), "nothing was made")


if __name__ == "__main__":
    main()
