"""Reports of jobs by mail and webhooks: a real head, a real mail server with STARTTLS and login, real webhooks.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary or aiosmtpd (scripts/setup_aiosmtpd.sh) is
not there.
"""

import email
import email.header
import email.policy
import hashlib
import hmac
import http.server
import json
import pathlib
import queue
import socket
import ssl
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402
from single_machine import BIN, Home, wait_until  # noqa: E402

VOLADOR = BIN / "volador"
pypi_folder.require("aiosmtpd", "aiosmtpd", VOLADOR)
from aiosmtpd.controller import Controller  # noqa: E402
from aiosmtpd.smtp import SMTP, AuthResult  # noqa: E402

PASSWORD = "pa55-of-mail"


class MailServer(Controller):
    """Takes mail after STARTTLS and a login; keeps what it got."""

    def __init__(self, context):
        self.got, self.refused, self.context = queue.Queue(), queue.Queue(), context
        super().__init__(self, hostname="127.0.0.1", port=free_port())

    def factory(self):
        def authenticator(_server, _session, _envelope, _mechanism, data):
            good = data.login == b"volador" and data.password == PASSWORD.encode()
            if not good:
                self.refused.put(data.login)
            return AuthResult(success=good, handled=False)

        return SMTP(self, hostname="localhost", tls_context=self.context, require_starttls=True, authenticator=authenticator, auth_required=True)

    async def handle_DATA(self, _server, session, envelope):
        self.got.put((session.ssl is not None, envelope.rcpt_tos, email.message_from_bytes(envelope.content, policy=email.policy.default)))
        return "250 taken"


class Webhook(http.server.ThreadingHTTPServer):
    """Answers with the next of its answers, (status, body), then with `usual`; keeps what it was told."""

    allow_reuse_address = True

    def __init__(self, usual="{}", answers=(), port=0, context=None):
        self.told, self.answers, self.usual = queue.Queue(), list(answers), (200, usual)
        super().__init__(("127.0.0.1", port), Taker)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def close(self):
        self.shutdown()
        self.server_close()


class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = self.server.answers.pop(0) if self.server.answers else self.server.usual
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.encode())
        self.server.told.put((self.path, self.headers, body))

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class JobNotify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Home()
        cls.addClassCleanup(cls.home.close)
        cls.work = cls.home.path / "work"
        cls.work.mkdir()
        certificate, key = cls.home.path / "peer.pem", cls.home.path / "peer.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=peer",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        cls.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        cls.context.load_cert_chain(certificate, key)
        cls.trust = {"SSL_CERT_FILE": str(certificate), "no_proxy": "*"}
        cls.start = ("start", "--head", "--cluster=heron", "--port=0", "--name=west", "--num-cpus=8", "--num-gpus=0")
        cls.must(*cls.start)
        cls.addClassCleanup(cls.run_, "stop")

    @classmethod
    def run_(cls, *arguments):
        return cls.home.run(VOLADOR, *arguments, cwd=cls.work, **cls.trust)

    @classmethod
    def must(cls, *arguments):
        done = cls.run_(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"volador {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def apply(self, notifications=None, mail=None):
        file = self.work / "queue.yaml"
        file.write_text(json.dumps({key: value for key, value in (("notifications", notifications), ("mail", mail)) if value}), encoding="utf-8")
        self.must("job", "queue", f"--apply={file}")

    def submit(self, *arguments):
        return json.loads(self.must("job", "submit", "--json", "--no-code", *arguments))["id"]

    def logs(self):
        return "".join(file.read_text(encoding="utf-8") for file in self.home.path.glob("volador/clusters/*/head/*.log"))

    def mail_server(self):
        server = MailServer(self.context)
        server.start()
        self.addCleanup(server.stop)
        return server, {"host": "127.0.0.1", "port": server.port, "user": "volador", "password": PASSWORD, "from": "volador@example.org"}

    @staticmethod
    def mail_to(server, address):
        """The next mail to this address: reports of other tests may come between."""
        while True:
            secure, to, message = server.got.get(timeout=60)
            if to == [address]:
                return secure, message

    def webhook(self, *arguments, **options):
        hook = Webhook(*arguments, **options)
        self.addCleanup(hook.close)
        return hook

    def test_the_mail_of_a_failed_job_arrives_once_with_its_subject(self):
        server, mail = self.mail_server()
        self.apply(mail=mail)
        job = self.submit("--name=训练 digits", "--notify=mei@example.org", "--", "bash", "-c", "exit 3")
        secure, started = self.mail_to(server, "mei@example.org")
        self.assertTrue(secure)
        self.assertEqual(started["Subject"], f"[volador heron] {job} 训练 digits started")
        _, failed = self.mail_to(server, "mei@example.org")
        self.assertEqual(failed["Subject"], f"[volador heron] {job} 训练 digits failed: on node west: exited with code 3")
        self.assertEqual(failed["To"], "mei@example.org")
        self.assertEqual(failed["From"], "volador@example.org")
        text = failed.get_content()
        for line in ("cluster: heron", "project: default", "state: failed", "nodes: west", "exit code: 3"):
            self.assertIn(line + "\n", text)
        self.assertRegex(text, rf"page: http://\S+/#/jobs/{job}\n")
        # A later report of the same address shows that no other mail was between.
        other = self.submit("--name=other", "--notify=mei@example.org", "--", "true")
        self.assertIn(f"{other} other", self.mail_to(server, "mei@example.org")[1].get_content())
        self.assertNotEqual(started["Message-ID"], failed["Message-ID"])

    def test_a_wrong_password_is_said_in_the_log_and_blocks_nothing(self):
        server, mail = self.mail_server()
        hook = self.webhook()
        self.apply({"sink": {"kind": "json", "url": hook.url("/x")}}, {**mail, "password": "wrong-pa55"})
        self.submit("--name=denied", "--notify=li@example.org", "--notify=sink", "--", "false")
        self.assertEqual(json.loads(hook.told.get(timeout=60)[2])["event"], "job.failed")
        server.refused.get(timeout=60)
        wait_until("the log says why", lambda: "reports of jobs were not delivered" in self.logs() and "Login denied" in self.logs())
        self.assertIn("to=li@example.org", self.logs())
        self.assertNotIn("wrong-pa55", self.logs())
        self.assertTrue(server.got.empty(), "nothing came without a login")

    def test_nothing_is_mailed_without_tls_where_it_is_asked_for(self):
        got = queue.Queue()

        class Plain:
            async def handle_DATA(self, _server, _session, _envelope):
                got.put("mail")
                return "250 taken"

        server = Controller(Plain(), hostname="127.0.0.1", port=free_port())
        server.start()
        self.addCleanup(server.stop)
        mail = {"host": "127.0.0.1", "port": server.port, "from": "volador@example.org"}
        self.apply(mail=mail)
        self.submit("--name=clear", "--notify=clear@example.org", "--", "false")
        wait_until("the log says why", lambda: "to=clear@example.org" in self.logs())
        self.assertTrue(got.empty())
        self.apply(mail={**mail, "security": "none"})
        self.submit("--name=clear", "--notify=open@example.org", "--", "true")
        self.assertEqual(got.get(timeout=60), "mail")

    def test_webhooks_get_the_bodies_of_their_vendors_and_a_code_is_a_refusal(self):
        feishu = self.webhook('{"code":0}', [(200, '{"code":19021,"msg":"sign match fail"}')])
        ding = self.webhook('{"errcode":0}')
        sink = self.webhook(context=self.context)
        self.apply({"feishu": {"kind": "feishu", "url": feishu.url("/hook/K3Y"), "secret": "s3cr3t", "projects": ["vision"]},
                    "ding": {"kind": "dingtalk", "url": ding.url("/send?access_token=K3Y"), "secret": "s3cr3t", "projects": ["vision"]},
                    "sink": {"kind": "json", "url": sink.url("/x").replace("http", "https"), "secret": "s3cr3t", "projects": ["vision"], "events": ["succeeded"]}})
        job = self.submit("--name=ends", "--project=vision", "--", "true")
        path, headers, body = sink.told.get(timeout=60)
        self.assertEqual((path, headers["Content-Type"]), ("/x", "application/json"))
        self.assertEqual(headers["X-Volador-Signature"], "sha256=" + hmac.new(b"s3cr3t", body, hashlib.sha256).hexdigest())
        event = json.loads(body)
        self.assertEqual((event["event"], event["fields"]["job"], event["fields"]["nodes"]), ("job.succeeded", job, ["west"]))
        self.assertTrue(feishu.told.empty(), "its events are failed, expired and alert")
        job = self.submit("--name=bad", "--project=vision", "--", "false")
        first, again = (json.loads(feishu.told.get(timeout=60)[2]) for _ in range(2))
        self.assertEqual(first["content"], again["content"])
        self.assertIn(f"{job} bad failed", first["content"]["text"])
        self.assertIn("code 19021: sign match fail", self.logs())
        path, _, body = ding.told.get(timeout=60)
        self.assertRegex(path, r"^/send\?access_token=K3Y&timestamp=\d{13}&sign=[A-Za-z0-9%]+$")
        self.assertIn(f"{job} bad failed", json.loads(body)["text"]["content"])

    def test_a_webhook_that_was_down_is_told_later_also_by_a_head_that_started_again(self):
        port = free_port()
        self.apply({"down": {"kind": "json", "url": f"http://127.0.0.1:{port}/x"}})
        job = self.submit("--name=later", "--notify=down", "--", "false")
        wait_until("the first attempt failed", lambda: "to=down" in self.logs())
        self.must("stop")
        hook = self.webhook(port=port)
        self.must(*self.start)
        self.assertEqual(json.loads(hook.told.get(timeout=60)[2])["fields"]["job"], job)

    def test_reports_above_the_limit_of_a_target_go_together(self):
        hook = self.webhook('{"errcode":0}')
        self.apply({"wecom": {"kind": "wecom", "url": hook.url("/send?key=K3Y"), "projects": ["many"]}})
        jobs = [self.submit(f"--name=many{i}", "--project=many", "--", "false") for i in range(5)]
        texts = []
        while not all(any(f"{job} many" in text for text in texts) for job in jobs):
            texts.append(json.loads(hook.told.get(timeout=60)[2])["text"]["content"])
        self.assertLess(len(texts), 5)
        self.assertTrue(any("jobs ended: " in text for text in texts), texts)
        self.assertEqual(sum(text.count(" failed: on node west") for text in texts), 5)

    def test_secrets_are_hidden_and_kept_and_unknown_names_are_refused(self):
        hook = self.webhook()
        self.apply({"sink": {"kind": "json", "url": hook.url("/K3Y-of-url"), "secret": "s3cr3t-of-sink"}},
                   {"host": "127.0.0.1", "port": 1, "user": "volador", "password": PASSWORD, "from": "volador@example.org"})
        shown = self.must("job", "queue", "--yaml")
        self.assertIn(hook.url("/***"), shown)
        self.assertEqual(shown.count('"***"'), 2)
        for text in (shown, self.must("job", "queue", "--json"), self.must("job", "queue"), self.logs()):
            for secret in ("K3Y-of-url", "s3cr3t-of-sink", PASSWORD):
                self.assertNotIn(secret, text)
        (self.work / "again.yaml").write_text(shown)
        self.must("job", "queue", f"--apply={self.work / 'again.yaml'}")
        self.submit("--name=kept", "--notify=sink", "--", "false")
        path, headers, body = hook.told.get(timeout=60)
        self.assertEqual(path, "/K3Y-of-url")
        self.assertEqual(headers["X-Volador-Signature"], "sha256=" + hmac.new(b"s3cr3t-of-sink", body, hashlib.sha256).hexdigest())
        unknown = self.run_("job", "submit", "--no-code", "--notify=sinc", "--", "true")
        self.assertNotEqual(unknown.returncode, 0)
        self.assertIn('notify: there is no notification "sinc"; did you mean sink?', unknown.stderr)
        self.apply()
        none = self.run_("job", "submit", "--no-code", "--notify=mei@example.org", "--", "true")
        self.assertIn("notify: mei@example.org is a mail address, and the cluster has no server for mail; an operator adds `mail`", none.stderr)


if __name__ == "__main__":
    unittest.main()
