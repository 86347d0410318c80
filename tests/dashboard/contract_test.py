"""The HTTP API and the WebSocket of a real cluster, from another language: contract_test.py [Class.test …].

The table of routes and roles is the head's own openapi.json, so that a new route cannot be forgotten here.
Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import gzip
import http.client
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from set_up import BIN, Client, Cluster, WebSocket, main


def raw(port, data, read_for=10.0):
    """What the server answers to these bytes until it closes, and whether it closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=read_for) as line:
        line.sendall(data)
        got = b""
        try:
            while True:
                piece = line.recv(65536)
                if not piece:
                    return got, True
                got += piece
        except (TimeoutError, ConnectionError) as error:
            return got, isinstance(error, ConnectionError)


class Access(Cluster):
    def routes(self):
        for path, methods in self.viewer.get("/api/v1/openapi.json")["paths"].items():
            for method, operation in methods.items():
                if operation["x-access"] == "nobody":  # Signing in, which precedes any role.
                    continue
                yield method.upper(), re.sub(r"\{\w+\}", "nothing-of-that-name", path), operation["x-access"]

    def test_every_route_follows_the_table(self):
        routes = list(self.routes())
        self.assertGreater(len(routes), 15)
        for method, path, access in routes:
            for who, visitor in self.visitors.items():
                with self.subTest(method=method, path=path, who=who):
                    answer = visitor.ask(method, path)
                    if who == "nobody":
                        self.assertEqual(answer.status, 401)
                    elif who in ("driver", "join") or (who == "viewer" and access in ("user", "operator")):
                        self.assertEqual(answer.status, 403)
                    else:  # Whatever it says to such a request, it lets it through and is no fault of ours.
                        self.assertNotIn(answer.status, (401, 403))
                        self.assertLess(answer.status, 500)
                    if answer.status >= 400:
                        problem = json.loads(answer.text)
                        self.assertEqual(problem["status"], answer.status)
                        self.assertEqual(answer.getheader("Content-Type"), "application/problem+json")

    def test_signing_in_needs_a_token(self):
        for body in (None, {}, [], {"token": 7}):
            with self.subTest(body=body):
                self.assertEqual(Client(self.port).ask("POST", "/api/v1/session", body).status, 400)
        session = self.viewer.get("/api/v1/session")
        self.assertEqual(set(session), {"role", "cluster", "version", "expires_ms"})

    def test_other_methods_reach_nothing(self):
        for method, path, _ in list(self.routes()) + [("GET", "/", ""), ("GET", "/healthz", ""), ("GET", "/ws", ""), ("GET", "/login", "")]:
            for other in {"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"} - {method}:
                with self.subTest(method=other, path=path):
                    self.assertIn(self.visitors["nobody"].ask(other, path).status, (400, 401, 405))

    def test_every_answer_carries_the_guarding_headers(self):
        for path in ("/", "/healthz", "/nothing", "/api/v1/nodes", "/api/v1/nothing", "/login?key=x", "/%2e%2e/x"):
            answer = self.visitors["nobody"].ask("GET", path)
            with self.subTest(path=path):
                self.assertIn("default-src 'none'", answer.getheader("Content-Security-Policy"))
                self.assertNotIn("unsafe", answer.getheader("Content-Security-Policy"))
                self.assertEqual(answer.getheader("X-Content-Type-Options"), "nosniff")
                self.assertEqual(answer.getheader("Referrer-Policy"), "no-referrer")
                self.assertIsNone(answer.getheader("Server"))
                self.assertIsNone(answer.getheader("Access-Control-Allow-Origin"))

    def test_wrong_tokens_open_nothing(self):
        token = self.tokens["operator"]
        for text in ("", "x", token[:-1], token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]):
            for header in (f"Bearer {text}", f"Basic {text}", text):
                answer = Client(self.port).ask("GET", "/api/v1/nodes", Authorization=header or "Bearer")
                self.assertIn(answer.status, (401, 429))
        self.assertEqual(Client(self.port).ask("GET", f"/api/v1/nodes?token={token}").status, 401)

    def test_the_page_and_its_files(self):
        nobody = self.visitors["nobody"]
        page = nobody.ask("GET", "/")
        self.assertEqual((page.status, page.getheader("Content-Type")), (200, "text/html; charset=utf-8"))
        for path in ["/", *re.findall(r'(?:src|href)="(/[^"]+)"', page.text.decode())]:
            with self.subTest(path=path):
                plain, packed = nobody.ask("GET", path), nobody.ask("GET", path, Accept_Encoding="gzip")
                self.assertEqual((plain.status, plain.getheader("Content-Encoding")), (200, None))
                body = gzip.decompress(packed.text) if packed.getheader("Content-Encoding") == "gzip" else packed.text
                self.assertEqual(body, plain.text)
                self.assertEqual(nobody.ask("GET", path, If_None_Match=plain.getheader("ETag") or "").status, 304 if plain.getheader("ETag") else 200)
                self.assertEqual(nobody.ask("HEAD", path).getheader("Content-Length"), str(len(plain.text)))

    def test_a_login_link_opens_one_session(self):
        link = self.volador("dashboard").strip()
        path = link[link.index("/login"):]
        first, second = (Client(self.port).ask("GET", path) for _ in range(2))
        self.assertEqual((first.status, first.getheader("Location")), (303, "/"))
        self.assertEqual((second.status, second.getheader("Location"), second.getheader("Set-Cookie")), (303, "/?login=expired", None))
        cookie = first.getheader("Set-Cookie")
        for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(part, cookie)
        browser = Client(self.port, {"Cookie": cookie.split(";")[0]})
        self.assertEqual(browser.get("/api/v1/session")["role"], "operator")

    def test_signing_out_ends_the_session_and_its_sockets(self):
        browser, cookie = self.login()
        live = WebSocket(self.port, Origin=f"http://127.0.0.1:{self.port}", Cookie=cookie.split(";")[0])
        self.assertEqual(live.read()["type"], "hello")
        self.assertEqual(browser.ask("DELETE", "/api/v1/session").status, 403)  # Without the header: no page of ours.
        self.assertEqual(browser.ask("DELETE", "/api/v1/session", **self.same_origin()).status, 200)
        self.assertEqual(browser.ask("GET", "/api/v1/session").status, 401)
        self.assertEqual(live.read(), {"type": "bye", "reason": "signed out"})
        self.assertIsNone(live.read())

    def test_a_token_signs_in_and_its_end_ends_the_session(self):
        made = json.loads(self.operator.ask("POST", "/api/v1/tokens", {"role": "viewer", "valid_for_s": 600, "note": "wall"}).text)
        answer = Client(self.port).ask("POST", "/api/v1/session", {"token": made["token"]}, X_Volador_Request="1")
        self.assertEqual((answer.status, json.loads(answer.text)["role"]), (200, "viewer"))
        browser = Client(self.port, {"Cookie": answer.getheader("Set-Cookie").split(";")[0]})
        live = WebSocket(self.port, Authorization=f"Bearer {made['token']}")
        self.assertEqual(live.read()["type"], "hello")
        self.assertIn((made["id"], "active", "wall"), [(row["id"], row["state"], row["note"]) for row in self.operator.get("/api/v1/tokens")["rows"]])
        self.assertEqual(self.operator.ask("POST", f"/api/v1/tokens/{made['id']}:revoke").status, 200)
        self.assertEqual(browser.ask("GET", "/api/v1/session").status, 401)
        self.assertEqual(live.read()["type"], "bye")
        self.assertEqual(Client(self.port).ask("POST", "/api/v1/session", {"token": self.tokens["join"]}).status, 403)

    def test_a_repeated_request_makes_one_token(self):
        body = {"role": "viewer", "request_id": "one", "note": "once"}
        first, second = (self.operator.ask("POST", "/api/v1/tokens", body) for _ in range(2))
        self.assertEqual((first.status, first.text), (201, second.text))
        self.assertEqual(len([row for row in self.operator.get("/api/v1/tokens")["rows"] if row["note"] == "once"]), 1)
        self.assertEqual(self.operator.ask("POST", "/api/v1/tokens", {**body, "note": "twice"}).status, 400)

    def test_changes_by_cookie_come_from_our_page_only(self):
        browser, _ = self.login()
        node = browser.get("/api/v1/nodes")["rows"][0]["name"]
        path = f"/api/v1/nodes/{node}:drain"
        good = self.same_origin()
        for headers in ({}, {"X_Volador_Request": "1"}, {"Origin": good["Origin"]}, {**good, "Origin": "http://evil.example"}, {**good, "Origin": "null"}):
            self.assertEqual(browser.ask("POST", path, {"undo": False}, **headers).status, 403)
        self.assertEqual(browser.get("/api/v1/nodes")["rows"][0]["state"], "alive")
        self.assertEqual(browser.ask("POST", path, {"undo": False}, **good).status, 200)
        self.wait_for(lambda: browser.get("/api/v1/nodes")["rows"][0]["state"] == "draining")
        self.assertEqual(self.operator.ask("POST", path, {"undo": True}).status, 200)
        self.wait_for(lambda: browser.get("/api/v1/nodes")["rows"][0]["state"] == "alive")
        self.assertEqual(self.operator.ask("POST", path, {"undo": 3}).status, 400)
        self.assertEqual(self.operator.ask("POST", "/api/v1/nodes/moon:drain", {}).status, 404)

    def test_sockets_need_who_and_whence(self):
        _, cookie = self.login()
        cookie = cookie.split(";")[0]
        own = f"http://127.0.0.1:{self.port}"
        for status, headers in ((401, {}), (401, {"Origin": own}), (403, {"Cookie": cookie}), (403, {"Cookie": cookie, "Origin": "null"}),
                                (403, {"Cookie": cookie, "Origin": "http://evil.example"}), (403, {"Authorization": f"Bearer {self.tokens['join']}"}),
                                (101, {"Cookie": cookie, "Origin": own}), (101, {"Authorization": f"Bearer {self.tokens['viewer']}"})):
            with self.subTest(status=status, headers=sorted(headers)):
                live = WebSocket(self.port, **headers)
                self.assertEqual(live.status, status)
                live.close()
        live = WebSocket(self.port, "/api/v1/nodes", Authorization=f"Bearer {self.tokens['viewer']}")
        self.assertEqual(live.status, 404)
        live.close()


class Hostile(Cluster):
    def status(self, data, **kwargs):
        got, closed = raw(self.port, data, **kwargs)
        return int(got.split()[1]) if got else 0, closed

    def test_foreign_hosts_and_origins(self):
        for host in ("evil.example", f"127.0.0.1.evil.example:{self.port}", "localhost.evil", ""):
            self.assertIn(self.viewer.ask("GET", "/api/v1/nodes", Host=host).status, (400, 421), host)
            self.assertIn(self.viewer.ask("GET", "/healthz", Host=host).status, (400, 421), host)
        for host in ("localhost:1", "127.0.0.1", f"[::1]:{self.port}"):
            self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes", Host=host).status, 200, host)
        for origin in ("http://evil.example", "null", "", f"https://127.0.0.1:{self.port}"):
            self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes", Origin=origin).status, 403, origin)
        self.assertEqual(self.status(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")[0], 400)
        self.assertEqual(self.status(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n")[0], 400)

    def test_path_tricks(self):
        for path in ("/assets/../index.html", "/assets/..%2findex.html", "/%2e%2e/%2e%2e/etc/passwd", "/assets/%252e%252e/x", "/assets\\..\\x", "//etc/passwd", "/./",
                     "/assets/%c0%ae%c0%ae/x", "/index.html%00.js", "/etc/passwd", "/assets/" + "a" * 3000, "/api/v1/logs?id=../../../etc/passwd",
                     "/api/v1/experiments/..%2f..%2fetc/trials", "/api/v1/logs?node=../../x", "/api/v1/explain?id=%3Cscript%3E"):
            answer = self.viewer.ask("GET", path)
            with self.subTest(path=path[:60]):
                self.assertIn(answer.status, (400, 404))
                self.assertNotIn(b"root:", answer.text)

    def test_oversized_requests_of_the_api_get_its_errors(self):
        head = b"Host: localhost\r\nConnection: close\r\n"
        for status, request in ((414, b"GET /api/v1/logs?id=" + b"a" * 5000 + b" HTTP/1.1\r\n" + head + b"\r\n"),
                                (413, b"POST /api/v1/session HTTP/1.1\r\n" + head + b"Content-Length: 1000000\r\n\r\n" + b"a" * 70_000)):
            with self.subTest(status=status):
                got, _ = raw(self.port, request)
                self.assertEqual(int(got.split()[1]), status)
                self.assertIn(b"application/problem+json", got)
                self.assertIn(b'"code":"kInvalidArgument"', got)

    def test_oversized_requests(self):
        head = b"Host: localhost\r\nConnection: close\r\n"
        self.assertEqual(self.status(b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n" + head + b"\r\n")[0], 414)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\n" + head + b"X: " + b"a" * 20_000 + b"\r\n\r\n")[0], 431)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\n" + head + b"".join(b"X%d: y\r\n" % n for n in range(5000)) + b"\r\n")[0], 431)
        self.assertEqual(self.status(b"POST /api/v1/session HTTP/1.1\r\n" + head + b"Content-Length: 1000000\r\n\r\n" + b"a" * 70_000)[0], 413)
        chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
        self.assertEqual(self.status(b"POST /api/v1/session HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk)[0], 413)

    def test_broken_requests(self):
        head = b"Host: localhost\r\n"
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n" + head + b"\r\n", b"G@T / HTTP/1.1\r\n" + head + b"\r\n",
                     b"POST / HTTP/1.1\r\n" + head + b"Content-Length: -1\r\n\r\n", b"POST / HTTP/1.1\r\n" + head + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     b"POST / HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"GET / HTTP/1.1\r\n" + head + b"X Y: z\r\n\r\n"):
            status, closed = self.status(data)
            with self.subTest(data=data[:40]):
                self.assertEqual((status, closed), (400, True))
        self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes").status, 200)

    def test_wrong_queries_are_refused_by_name(self):
        for query in ("page_size=0", "page_size=x", "page_size=", "page_token=", "page_size=99999999", "page_token=-1", "page_token=x", "filter=pid%3Cx", "filter=" + "+".join("abcdefghijklmnopq")):
            answer = self.viewer.ask("GET", "/api/v1/actors?" + query)
            self.assertEqual(answer.status, 400, query)
            self.assertIn(query.split("=")[0].split("_")[0], json.loads(answer.text)["detail"])
        answer = self.viewer.ask("GET", "/api/v1/drivers?fields=id,programm")
        self.assertEqual(answer.status, 400)
        self.assertEqual(json.loads(answer.text)["detail"], 'fields: rows of this list have no member "programm"; did you mean program?; known: id, program, pid, state, host, owner, connected_ms')
        for body in ("", "[]", "{", "null", '{"role":7}', '{"role":"king"}', '{"role":"viewer","valid_for_s":-1}', '{"role":"viewer","valid_for_s":1e30}', "[" * 50_000):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            connection.request("POST", "/api/v1/tokens", body=body, headers=self.operator.headers)
            self.assertEqual(connection.getresponse().status, 400, body[:40])
            connection.close()

    def test_a_client_that_sends_slowly_is_cut_and_others_are_served_meanwhile(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as slow:
            slow.sendall(b"GET /healthz HT")
            begun = time.monotonic()
            self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes").status, 200)
            self.assertEqual(slow.recv(100), b"")  # The end, after the limit of the head of a request.
            self.assertTrue(1 < time.monotonic() - begun < 10)

    def test_a_body_that_comes_slowly_is_cut(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as slow:
            slow.sendall(b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            begun = time.monotonic()
            self.assertEqual(slow.recv(100), b"")
            self.assertTrue(3 < time.monotonic() - begun < 15)

    def test_hostile_sockets(self):
        bearer = {"Authorization": f"Bearer {self.tokens['viewer']}"}
        for payload, masked, opcode in ((b"x" * 20_000, True, 1), (b"{}", False, 1), (b"x" * 200, True, 9), (b"{}", True, 5), (b"nonsense", True, 1), (b"\xff\xfe", True, 1)):
            live = WebSocket(self.port, **bearer)
            self.assertEqual(live.read()["type"], "hello")
            live.frame(opcode, payload, masked)
            message = live.read()
            self.assertTrue(message is None or message["type"] == "bye", message)
            live.close()
        live = WebSocket(self.port, **bearer)
        live.read()
        live.line.sendall(b"\x81\xff" + struct.pack(">Q", 1 << 62) + b"abcd")
        self.assertIsNone(live.read())
        live.close()
        self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes").status, 200)

    def test_many_idle_connections_leave_room_for_others(self):
        lines = [socket.create_connection(("127.0.0.1", self.port), timeout=20) for _ in range(100)]
        try:
            self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes").status, 200)
        finally:
            for line in lines:
                line.close()


class Flooded(Cluster):
    def test_a_token_that_counts_is_served_while_others_there_guess_and_flood(self):
        for _ in range(30):
            self.assertIn(Client(self.port).ask("GET", "/api/v1/nodes", Authorization="Bearer vt1.wrong").status, (401, 429))
        statuses = set()
        begun = time.monotonic()
        while b"429" not in statuses and time.monotonic() - begun < 20:  # Until its address may ask no more.
            with socket.create_connection(("127.0.0.1", self.port), timeout=20) as flood:
                flood.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)
                got = b""
                while got.count(b"HTTP/1.1 ") < 400 and (part := flood.recv(1 << 16)):
                    got += part
                statuses.update(re.findall(rb"HTTP/1.1 (\d+)", got))
        self.assertIn(b"429", statuses)
        self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes").status, 200)


class Live(Cluster):
    def subscribe(self, **filters):
        live = WebSocket(self.port, Authorization=f"Bearer {self.tokens['viewer']}")
        self.assertEqual(live.read()["type"], "hello")
        for number, (topic, chosen) in enumerate(filters.items(), start=1):
            live.send({"op": "sub", "id": number, "topic": topic, "filter": chosen})
        return live

    def run_experiment(self):
        done = subprocess.run([BIN / "tune_sleep", "--num-samples=3", "--seconds=0.4", "--reports=20"], env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_lists_and_live_state_of_an_experiment_agree(self):
        live = self.subscribe(experiments={}, trials={}, actors={}, drivers={}, events={}, cluster={}, nodes={}, queue={}, series={})
        snaps = set()
        while len(snaps) < 9:
            message = live.next(lambda one: one["type"] == "snap" and not one.get("more"))
            snaps.add(message["id"])
        self.run_experiment()
        trials, seq = {}, 0
        while len(trials) < 3 or any(row["status"] != "finished" for row in trials.values()):
            message = live.next(lambda one: one["type"] == "delta")
            self.assertGreaterEqual(message["seq"], seq)
            seq = message["seq"]
            if message["id"] == 2:
                trials.update({row["id"]: row for row in message["upserts"]})
        listed = self.viewer.get("/api/v1/trials")
        self.assertEqual({row["id"]: row for row in listed["rows"]}, trials)
        experiment = self.viewer.get("/api/v1/experiments")["rows"][0]
        name = experiment["name"]
        self.assertEqual(experiment["trials_by_status"], {"finished": 3})
        self.assertIn(experiment["best"]["trial"], trials)
        self.assertEqual(self.viewer.get(f"/api/v1/experiments/{name}/trials?filter=status=finished&page_size=2")["next_page_token"], "2")
        ordered = self.viewer.get(f"/api/v1/experiments/{name}/trials?order=-id")["rows"]
        self.assertEqual([row["id"] for row in ordered], sorted(trials, reverse=True))
        for path in ("nodes", "drivers", "experiments", "trials", "events"):
            for members in {",".join(row) for row in self.viewer.get("/api/v1/" + path)["rows"]}:
                self.viewer.get(f"/api/v1/{path}?fields={members}")
        curves = self.viewer.get(f"/api/v1/experiments/{name}/curves?points=10000")["curves"]
        self.assertEqual({curve["trial"]: curve["x"] for curve in curves}, {trial: list(range(1, 21)) for trial in trials})
        self.assertEqual(self.viewer.ask("GET", "/api/v1/experiments/moon/trials").status, 404)
        texts = [row["text"] for row in self.viewer.get("/api/v1/events")["rows"]]
        self.assertIn("driver connected", texts)
        self.assertIn("trial", self.viewer.get("/api/v1/explain?id=" + ordered[0]["id"])["text"])
        metrics = self.viewer.ask("GET", "/metrics").text.decode()
        self.assertRegex(metrics, r'(?m)^volador_node_file_system_free_bytes\{node="[^"]+",path="/"\} \d+$')
        self.assertIn("volador_trials{status=\"finished\"} 3", metrics)
        count = re.search(r"^volador_head_decision_seconds_count (\d+)$", metrics, re.MULTILINE)
        self.assertGreater(int(count[1]), 5)
        self.assertIn(f'volador_head_decision_seconds_bucket{{le="+Inf"}} {count[1]}\n', metrics)
        series = self.viewer.get("/api/v1/series?name=cpu_cores_used")["series"]
        self.assertGreater(len(series[0]["x"]), 0)
        live.close()

    # Checks a process that runs a trial.
    def check_stack_and_timeline(self, actor):
        stack = self.viewer.get(f"/api/v1/actors/{actor}/stack")
        self.assertTrue(stack["actor"].startswith(actor))
        self.assertGreater(stack["pid"], 0)
        busy = [thread for thread in stack["threads"] if thread["actor"] == stack["actor"]]
        self.assertTrue(busy and busy[0]["runs"] and busy[0]["frames"], stack)
        processes = self.viewer.get(f"/api/v1/nodes/{stack['node']}/processes")["processes"]
        own = [one for one in processes if stack["actor"] in one["actors"]]
        self.assertEqual([(one["pid"], one["kind"]) for one in own], [(stack["pid"], "actors")])
        self.assertGreater(own[0]["memory_bytes"], 0)
        self.assertEqual([one["kind"] for one in processes].count("worker"), 1)
        self.assertEqual(self.viewer.ask("GET", "/api/v1/nodes/nobody/processes").status, 404)
        trace = self.viewer.get(f"/api/v1/timeline?id={actor}&limit=5")
        self.assertEqual(trace["displayTimeUnit"], "ms")
        calls = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertTrue(calls)
        self.assertTrue(all(event["args"]["actor"] == stack["actor"] for event in calls), calls)
        everybody = {event["args"]["actor"] for event in self.viewer.get("/api/v1/timeline")["traceEvents"] if event["ph"] == "X"}
        self.assertGreater(len(everybody), 1)
        self.assertEqual(self.viewer.ask("GET", "/api/v1/actors/nobody/stack").status, 404)
        self.assertEqual(self.viewer.ask("GET", "/api/v1/timeline?id=nobody").status, 404)
        self.assertEqual(self.viewer.ask("GET", "/api/v1/timeline?limit=0").status, 400)
        misspelt = self.viewer.ask("GET", "/api/v1/nodes?fliter=state=alive")
        self.assertEqual(misspelt.status, 400)
        self.assertIn('no member "fliter"; did you mean filter?', json.loads(misspelt.text)["detail"])

    def test_requests_pause_resume_and_stop_an_experiment_and_a_trial_of_it(self):
        program = subprocess.Popen([BIN / "tune_sleep", "--num-samples=2", "--seconds=600", "--reports=6000"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def states():
                return sorted(row["status"] for row in self.viewer.get("/api/v1/trials")["rows"] if row["status"] in ("running", "paused"))
            def open_one():
                return [row for row in self.viewer.get("/api/v1/experiments")["rows"] if row["state"] in ("running", "paused")][0]
            self.wait_for(lambda: states() == ["running", "running"])
            first, second = [row for row in self.viewer.get("/api/v1/trials")["rows"] if row["status"] == "running"]
            self.check_stack_and_timeline(first["actor"])
            path = f"/api/v1/experiments/{open_one()['name']}"
            for verb in ("stop", "pause", "resume"):
                self.assertEqual(self.viewer.ask("POST", f"{path}:{verb}", {}).status, 403)
                self.assertEqual(self.operator.ask("POST", f"{path}:{verb}", {"trial": 3}).status, 400)
                self.assertEqual(self.operator.ask("POST", f"{path}:{verb}", {"trial": "zz"}).status, 404)
                self.assertEqual(self.operator.ask("POST", f"/api/v1/experiments/moon:{verb}", {}).status, 404)
            self.assertEqual(self.operator.ask("POST", path + ":pause", {"trial": first["id"]}).status, 200)
            self.wait_for(lambda: states() == ["paused", "running"])
            self.assertEqual(self.operator.ask("POST", path + ":pause", {}).status, 200)
            self.wait_for(lambda: states() == ["paused", "paused"] and open_one()["state"] == "paused")
            self.assertEqual(self.operator.ask("POST", path + ":resume", {}).status, 200)
            self.wait_for(lambda: states() == ["running", "running"] and open_one()["state"] == "running")
            wrong = self.operator.ask("POST", path + ":add", {"config": {"quality": 9}})
            self.assertEqual(wrong.status, 400)
            self.assertIn(b"config: quality is 9: expected a value of", wrong.text)
            self.assertEqual(self.viewer.ask("POST", path + ":add", {"config": {"quality": 0.5}}).status, 403)
            for _ in range(2):
                self.assertEqual(self.operator.ask("POST", path + ":add", {"config": {"quality": 0.5}, "request_id": "once"}).status, 200)
            def added():
                return [row for row in self.viewer.get("/api/v1/trials")["rows"] if row["config"].get("quality") == 0.5]
            self.wait_for(lambda: len(added()) == 1)
            self.assertEqual(self.operator.ask("POST", path + ":add", {}).status, 400)
            self.assertEqual(self.operator.ask("POST", path + ":add", {"trial": "zz"}).status, 404)
            self.assertEqual(self.operator.ask("POST", path + ":add", {"trial": first["id"], "config": {"quality": 0.25}}).status, 200)
            def cloned():
                return [row for row in self.viewer.get("/api/v1/trials")["rows"] if row.get("cloned_from") == first["id"]]
            self.wait_for(lambda: len(cloned()) == 1)
            self.assertEqual(cloned()[0]["config"], {**first["config"], "quality": 0.25})
            self.assertEqual(self.operator.ask("POST", path + ":stop", {"trial": cloned()[0]["id"]}).status, 200)
            self.assertEqual(self.operator.ask("POST", path + ":stop", {"trial": added()[0]["id"]}).status, 200)
            self.assertEqual(self.operator.ask("POST", path + ":stop", {"trial": first["id"]}).status, 200)
            self.wait_for(lambda: states() == ["running"])
            self.assertEqual(self.operator.ask("POST", path + ":stop", {}).status, 200)
            program.wait(timeout=60)
            name = path.rsplit("/", 1)[1]
            rows = {row["id"]: row["status"] for row in self.viewer.get(f"/api/v1/experiments/{name}/trials")["rows"]}
            self.assertEqual(rows, {first["id"]: "stopped", second["id"]: "interrupted", added()[0]["id"]: "stopped", cloned()[0]["id"]: "stopped"})
            self.assertEqual(self.operator.ask("POST", path + ":stop", {}).status, 404)
        finally:
            program.kill()
            program.wait()

    def test_groups_and_objects_of_a_program(self):
        live = self.subscribe(groups={}, object_stores={}, object_groups={}, objects={})
        found = {1: {}, 2: {}, 3: {}, 4: {}}
        def follow():
            message = live.next(lambda one: one["type"] in ("snap", "delta"))
            rows = found[message["id"]]
            if message["type"] == "snap":
                rows.clear()
            rows.update({row["id"]: row for row in message.get("rows", []) + message.get("upserts", [])})
            for gone in message.get("deletes", []):
                rows.pop(gone)
        program = subprocess.Popen([BIN / "dashboard_holder"], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            while not (found[3] and len(found[4]) == 3 and any(row["bundles"][0]["actors"] == 1 for row in found[1].values())):
                follow()
            (group,) = found[1].values()
            self.assertEqual((group["name"], group["state"], group["bundles_placed"], group["bundles_total"], group["total"]), ("pair", "ready", 2, 2, {"cpus": 0.75}))
            actors = self.viewer.get("/api/v1/actors?filter=state=alive")["rows"]
            self.assertEqual([(row["group"], row["bundle"]) for row in actors], [(group["id"], 0)])
            self.assertEqual(self.viewer.get("/api/v1/groups")["rows"], [group])
            self.assertIn("bundle 0", self.viewer.get("/api/v1/explain?id=pair")["text"])
            (by_line,) = self.viewer.get("/api/v1/object_groups")["rows"]
            self.assertEqual((by_line["objects"], by_line["place"]), (3, "holder.cc:30"))
            objects = self.viewer.get("/api/v1/objects?order=-bytes&page_size=2")
            self.assertEqual((objects["total"], len(objects["rows"]), objects["rows"][0]["state"]), (3, 2, "memory"))
            self.assertEqual({row["id"] for row in self.viewer.get("/api/v1/objects")["rows"]}, set(found[4]))
            self.assertGreaterEqual(self.viewer.get("/api/v1/object_stores")["rows"][0]["bytes"], 3 * 1_600_000)
        finally:
            program.stdin.close()
            program.wait(30)
        while found[1] or found[4]:
            follow()
        live.close()

    def test_an_actor_is_killed_by_its_name_once_and_by_operators_only(self):
        program = subprocess.Popen([BIN / "dashboard_holder"], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            self.wait_for(lambda: self.viewer.get("/api/v1/actors?filter=state=alive")["rows"])
            (actor,) = self.viewer.get("/api/v1/actors?filter=state=alive")["rows"]
            (driver,) = [row for row in self.viewer.get("/api/v1/drivers")["rows"] if row["pid"] == program.pid]
            self.assertEqual((driver["host"], driver["program"]), (actor["node"], actor["driver"]))
            self.assertEqual(actor["driver_id"], driver["id"])
            self.assertLess(abs(driver["connected_ms"] - time.time() * 1000), 60_000)
            path = "/api/v1/actors/pinger:kill"
            self.assertEqual(self.viewer.ask("POST", path, {}).status, 403)
            self.assertEqual(self.operator.ask("POST", path, {"restart": 1}).status, 400)
            self.assertEqual(self.operator.ask("POST", f"/api/v1/actors/{actor['node']}:kill", {}).status, 400)
            body = {"restart": True, "request_id": "kill it"}  # Without a restart left it ends permanently.
            first, second = (self.operator.ask("POST", path, body) for _ in range(2))
            self.assertEqual((first.status, first.text), (200, second.text))
            self.assertEqual(json.loads(first.text), {"actor": actor["id"], "display": actor["display"], "restarts": False})
            self.wait_for(lambda: not self.viewer.get("/api/v1/actors?filter=state=alive")["rows"])
            (dead,) = [row for row in self.viewer.get("/api/v1/actors")["rows"] if row["id"] == actor["id"]]
            self.assertIn("killed on request: by ", dead["reason"])
            self.assertEqual(self.operator.ask("POST", path, {}).status, 404)
        finally:
            program.stdin.close()
            program.wait(30)

    def test_an_actors_own_measures_come_to_prometheus_and_go_with_it(self):
        def shown():
            return [line for line in self.viewer.ask("GET", "/metrics").text.decode().splitlines() if re.match(r"(# (HELP|TYPE) )?volador_app_", line)]

        program = subprocess.Popen([BIN / "dashboard_holder"], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            self.wait_for(shown)
            (actor,) = self.viewer.get("/api/v1/actors?filter=state=alive")["rows"]
            self.assertEqual((actor["name"], actor["namespace"]), ("pinger", "default"))
            labels = f'actor="{actor["id"]}",name="pinger",namespace="default",class="Worker",node="{actor["node"]}"'
            self.assertEqual(shown(), [
                "# HELP volador_app_depth Of actors.", "# TYPE volador_app_depth gauge", f"volador_app_depth{{{labels}}} -1.5",
                "# HELP volador_app_ping_seconds Of actors.", "# TYPE volador_app_ping_seconds histogram",
                f'volador_app_ping_seconds_bucket{{{labels},le="0.1"}} 0', f'volador_app_ping_seconds_bucket{{{labels},le="1"}} 1',
                f'volador_app_ping_seconds_bucket{{{labels},le="+Inf"}} 1', f"volador_app_ping_seconds_sum{{{labels}}} 0.2", f"volador_app_ping_seconds_count{{{labels}}} 1",
                "# HELP volador_app_pings_total Pings answered", "# TYPE volador_app_pings_total counter", f'volador_app_pings_total{{{labels},how="plain"}} 1'])
            measures = self.viewer.get(f"/api/v1/actors/{actor['id']}/metrics")
            self.assertEqual([(one["name"], one["kind"]) for one in measures["series"]], [("depth", "gauge"), ("ping_seconds", "histogram"), ("pings_total", "counter")])
            self.assertEqual(self.viewer.ask("GET", "/api/v1/actors/nobody/metrics").status, 404)
        finally:
            program.stdin.close()
            program.wait(30)
        self.wait_for(lambda: not shown())

    def test_sessions_survive_the_death_of_the_head(self):
        browser, _ = self.login()
        before = WebSocket(self.port, Authorization=f"Bearer {self.tokens['viewer']}")
        instance = before.read()["instance"]
        os.kill(self.pids[0], 9)
        while before.read() is not None:
            pass
        port = self.port
        type(self).start()
        self.assertEqual(self.port, port)
        self.assertEqual(browser.get("/api/v1/session")["role"], "operator")
        after = WebSocket(self.port, Authorization=f"Bearer {self.tokens['viewer']}")
        self.assertNotEqual(after.read()["instance"], instance)

    def test_logs_of_an_actor(self):
        answer = self.viewer.ask("GET", "/api/v1/logs?id=nothing")
        self.assertEqual(answer.status, 404)
        node = self.viewer.get("/api/v1/nodes")["rows"][0]["name"]
        self.assertIn("lines", self.viewer.get(f"/api/v1/logs?node={node}&tail=5"))
        self.assertEqual(self.viewer.ask("GET", "/api/v1/logs").status, 400)


class Demo(unittest.TestCase):
    def test_it_runs_an_experiment_and_leaves_nothing(self):
        folder = tempfile.mkdtemp(prefix="vd-", dir="/tmp")
        try:
            done = subprocess.run([BIN / "volador", "demo", "--once", "--samples=3"], env={**os.environ, "TMPDIR": folder}, capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"dashboard   http://127\.0\.0\.1:\d+/login\?key=")
            self.assertIn("validation accuracy", done.stdout)
            self.assertEqual(os.listdir(folder), [])
            port = int(re.search(r":(\d+)/login", done.stdout)[1])
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
