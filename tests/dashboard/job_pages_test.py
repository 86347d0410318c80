"""Pages of servers in jobs by the dashboard: job_pages_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import hashlib
import http.client
import json
import socket
import ssl
import subprocess
import time
import unittest

import contract_test
import own_certificate_test
from set_up import BIN, Client, main

# A web application: it shows what it was sent, redirects to its own address, sets cookies, takes bodies, sends events
# and upgrades connections to an echo.
SERVER = r"""
import hashlib, http.server, json
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, body, **headers):
        self.send_response(int(headers.pop("status", 200)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            while piece := self.connection.recv(65536):
                self.wfile.write(piece)
            self.close_connection = True
            return
        if self.path == "/big":
            return self.reply(bytes(range(256)) * 40000)
        if self.path == "/redirect":
            return self.reply(b"", status=302, Location=f"http://127.0.0.1:{self.server.server_port}/there", Set_Cookie="volador_session_1=stolen")
        if self.path == "/cookie":
            return self.reply(b"", Set_Cookie="theme=dark")
        if self.path == "/events":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"data\n")
                    self.wfile.flush()
            except OSError:
                print("events ended", flush=True)
            self.close_connection = True
            return
        self.reply(json.dumps({"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}}).encode())
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(hashlib.sha256(body).hexdigest().encode())
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), App)
server.daemon_threads = True
print("port", server.server_port, flush=True)
server.serve_forever()
"""


class Page:
    """A browser that has opened a page: GET and POST with its cookie, one request a connection."""

    def __init__(self, opened, connect=http.client.HTTPConnection, **options):
        self.port, self.key = opened["port"], opened["path"]
        self.connect, self.options, self.cookie = connect, options, ""

    def ask(self, method="GET", path="/", body=None, **headers):
        connection = self.connect("127.0.0.1", self.port, timeout=60, **self.options)
        try:
            sent = {"Cookie": self.cookie} if self.cookie else {}
            sent.update({name.replace("_", "-"): value for name, value in headers.items()})
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            answer.text = answer.read()
            return answer
        finally:
            connection.close()

    def open(self):
        answer = self.ask(path=self.key)
        if answer.status == 303:
            self.cookie = answer.getheader("Set-Cookie").split(";")[0]
        return answer

    def shown(self, path="/", **headers):
        return json.loads(self.ask(path=path, **headers).text)


class JobPages(contract_test.Cluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.job = cls.volador("job", "submit", "--no-code", "--cpus=0.5", "--", "python3", "-c", SERVER).split(":")[0]
        cls.server_port = cls.port_of(cls.job)

    @classmethod
    def port_of(cls, job):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            words = cls.volador("job", "logs", job).split()
            if "port" in words:
                return int(words[words.index("port") + 1])
            time.sleep(0.05)
        raise AssertionError("its server does not listen")

    def opened(self, who=None, **body):
        answer = (who or self.operator).ask("POST", f"/api/v1/jobs/{self.job}/page", {"port": self.server_port, **body})
        self.assertEqual(answer.status, 200, answer.text)
        return json.loads(answer.text)

    def page(self, who=None, **body):
        page = Page(self.opened(who, **body))
        self.assertEqual(page.open().status, 303)
        return page

    def test_a_browser_uses_the_server_as_if_it_were_here(self):
        page = self.page()
        shown = page.shown("/lab?a=1", Cookie=f"{page.cookie}; volador_session_9=mine; theme=dark", Origin=f"http://127.0.0.1:{page.port}")
        self.assertEqual(shown["path"], "/lab?a=1")
        headers = shown["headers"]
        self.assertEqual((headers["cookie"], headers["host"], headers["origin"]), ("theme=dark", f"127.0.0.1:{self.server_port}", f"http://127.0.0.1:{self.server_port}"))
        self.assertEqual((headers["x-forwarded-host"], headers["x-forwarded-proto"]), (f"127.0.0.1:{page.port}", "http"))
        self.assertEqual(hashlib.sha256(page.ask(path="/big").text).hexdigest(), hashlib.sha256(bytes(range(256)) * 40000).hexdigest())
        body = bytes(range(256)) * 8000
        self.assertEqual(page.ask("POST", "/", body).text.decode(), hashlib.sha256(body).hexdigest())
        moved = page.ask(path="/redirect")
        self.assertEqual((moved.status, moved.getheader("Location"), moved.getheader("Set-Cookie")), (302, f"http://127.0.0.1:{page.port}/there", None))
        self.assertEqual(page.ask(path="/cookie").getheader("Set-Cookie"), "theme=dark")

    def test_an_upgraded_connection_passes_bytes_both_ways(self):
        page = self.page()
        with socket.create_connection(("127.0.0.1", page.port), timeout=60) as line:
            line.sendall(f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nOrigin: http://127.0.0.1:{page.port}\r\nCookie: {page.cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
            received = b""
            while b"\r\n\r\n" not in received:
                received += line.recv(65536)
            self.assertIn(b"101 Switching Protocols", received)
            sent = bytes(range(256)) * 400
            for _ in range(3):
                line.sendall(sent)
                received = b""
                while len(received) < len(sent):
                    received += line.recv(65536)
                self.assertEqual(received, sent)

    def test_a_browser_that_leaves_ends_the_connection_in_the_job(self):
        page = self.page()
        with socket.create_connection(("127.0.0.1", page.port), timeout=60) as line:
            line.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nCookie: {page.cookie}\r\n\r\n".encode())
            self.assertIn(b"data", line.recv(65536) + line.recv(65536))
        self.wait_for(lambda: "events ended" in self.volador("job", "logs", self.job))

    def test_a_link_opens_the_page_once_and_for_one_browser(self):
        page = Page(self.opened())
        opened = page.open()
        self.assertEqual((opened.status, opened.getheader("Location")), (303, "/"))
        for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(part, opened.getheader("Set-Cookie"))
        other = Page({"port": page.port, "path": page.key})
        self.assertEqual(other.open().status, 403)
        answer = other.ask()
        self.assertEqual(answer.status, 403)
        self.assertIn(b"open port", answer.text)
        self.assertEqual(other.ask(Cookie=page.cookie[:-1] + "x").status, 403)
        again = self.opened()
        self.assertEqual(again["port"], page.port, "the same page")
        self.assertNotEqual(again["path"], page.key)
        self.assertEqual(page.ask().status, 200)

    def test_other_sites_and_names_are_refused(self):
        page = self.page()
        self.assertEqual(page.ask(Origin="http://evil.example").status, 403)
        self.assertEqual(page.ask(Origin=f"http://127.0.0.1:{self.port}").status, 403)  # Pages of the dashboard are another origin.
        self.assertEqual(page.ask(Host="evil.example").status, 421)
        with socket.create_connection(("127.0.0.1", page.port), timeout=60) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            self.assertIn(b"400 Bad Request", line.recv(65536))
        with socket.create_connection(("127.0.0.1", page.port), timeout=60) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 70_000)
            self.assertIn(b"431", line.recv(65536))

    def test_who_may_not_start_commands_opens_no_page(self):
        answer = self.visitors["viewer"].ask("POST", f"/api/v1/jobs/{self.job}/page", {"port": 1})
        self.assertEqual(answer.status, 403)
        self.assertEqual(self.visitors["nobody"].ask("POST", f"/api/v1/jobs/{self.job}/page", {"port": 1}).status, 401)
        self.assertEqual(self.operator.ask("POST", "/api/v1/users", {"user": {"name": "mei", "role": "user"}, "password": "flying fish"}).status, 200)
        signed_in = Client(self.port).ask("POST", "/api/v1/session", {"user": "mei", "password": "flying fish"}, X_Volador_Request="1")
        mei = Client(self.port, {"Cookie": signed_in.getheader("Set-Cookie").split(";")[0]})
        opened = mei.ask("POST", f"/api/v1/jobs/{self.job}/page", {"port": self.server_port}, **self.same_origin())
        page = Page(json.loads(opened.text))
        page.open()
        refused = page.ask()  # The job belongs to another token, and others may only read it.
        self.assertEqual(refused.status, 403, refused.text)
        self.assertEqual(self.operator.ask("GET", f"/api/v1/jobs/{self.job}/page").status, 405)
        for body in ({}, {"port": 0}, {"port": 70000}, {"port": "x"}, {"port": 80, "rank": -1}, {"port": True}, [1]):
            answer = self.operator.ask("POST", f"/api/v1/jobs/{self.job}/page", body)
            self.assertEqual(answer.status, 400, (body, answer.text))

    def test_why_there_is_no_server_is_shown_and_asked_again(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            page = self.page(port=free.getsockname()[1])
            answer = page.ask()
            self.assertEqual((answer.status, answer.getheader("Refresh")), (502, "3"), answer.text)
        self.job, before = "job-999", self.job
        self.addCleanup(setattr, self, "job", before)
        self.assertEqual(self.page().ask().status, 404)

    def test_pages_end_with_their_session(self):
        browser, _ = self.login()
        path = f"/api/v1/jobs/{self.job}/page"
        self.assertEqual(browser.ask("POST", path, {"port": self.server_port}).status, 403)  # Without the header: no page of ours.
        answer = browser.ask("POST", path, {"port": self.server_port}, **self.same_origin())
        self.assertEqual(answer.status, 200, answer.text)
        page = Page(json.loads(answer.text))
        page.open()
        self.assertEqual(page.ask().status, 200)
        self.assertEqual(browser.ask("DELETE", "/api/v1/session", **self.same_origin()).status, 200)

        def is_closed():
            try:
                return page.ask() is None
            except (ConnectionError, http.client.HTTPException, socket.timeout):
                return True

        self.wait_for(is_closed)

    def test_pages_end_with_their_token(self):
        made = json.loads(self.operator.ask("POST", "/api/v1/tokens", {"role": "operator", "valid_for_s": 600, "note": "page"}).text)
        page = self.page(Client(self.port, {"Authorization": f"Bearer {made['token']}"}))
        self.assertEqual(page.ask().status, 200)
        self.assertEqual(self.operator.ask("POST", f"/api/v1/tokens/{made['id']}:revoke").status, 200)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            page.ask()


class SecuredPages(unittest.TestCase):
    """With TLS, whose certificate is the dashboard's."""

    setUp, make, start = own_certificate_test.OwnCertificate.setUp, own_certificate_test.OwnCertificate.make, own_certificate_test.OwnCertificate.start

    def test_a_page_is_served_with_it(self):
        self.make("volador.example")
        started = self.start("--tls-cert=" + self.certificate, "--tls-key=" + self.key)
        self.assertEqual(started.returncode, 0, started.stderr)
        self.addCleanup(subprocess.run, [BIN / "volador", "stop"], env=self.environment, stdout=subprocess.DEVNULL, check=False)

        def volador(*arguments):
            return subprocess.run([BIN / "volador", *arguments], env=self.environment, capture_output=True, text=True, timeout=60, check=True).stdout

        JobPages.volador = staticmethod(volador)
        job = volador("job", "submit", "--no-code", "--", "python3", "-c", SERVER).split(":")[0]
        port = JobPages.port_of(job)
        token = volador("token", "create", "--role=operator").strip()
        context = ssl.create_default_context(cafile=self.certificate)
        dashboard = int(json.loads(started.stdout)["dashboard"].split(":")[2].split("/")[0])
        connection = http.client.HTTPSConnection("127.0.0.1", dashboard, timeout=60, context=context)
        connection.request("POST", f"/api/v1/jobs/{job}/page", json.dumps({"port": port}), {"Authorization": f"Bearer {token}"})
        page = Page(json.loads(connection.getresponse().read()), http.client.HTTPSConnection, context=context)
        connection.close()
        self.assertIn("; Secure", page.open().getheader("Set-Cookie"))
        self.assertEqual(page.shown("/x")["headers"]["x-forwarded-proto"], "https")
        self.assertEqual(len(page.ask(path="/big").text), 256 * 40000)


if __name__ == "__main__":
    main()
