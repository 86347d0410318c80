"""Users by the command line and over HTTP: a real head and worker, sign-ins, jobs of users, and what others see of them.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import concurrent.futures
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "dashboard"))
from set_up import WebSocket  # noqa: E402
from single_machine import BIN, Home, wait_until  # noqa: E402

VOLADOR = BIN / "volador"
PASSWORDS = {"mei": "correct horse battery", "kim": "staple of kim 42", "ops": "operator's own 99", "eve": "eve looks at it"}


class Users(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Home()
        cls.start_head()
        for user, role in (("mei", "user"), ("kim", "user"), ("ops", "operator"), ("eve", "viewer")):
            cls.must("user", "add", user, f"--role={role}", "--password-file", cls.file(PASSWORDS[user]))
            cls.sign_in(user)

    @classmethod
    def tearDownClass(cls):
        cls.volador("stop")
        cls.home.close()

    @classmethod
    def start_head(cls):
        cls.must("start", "--head", "--cluster=heron", "--port=0", "--dashboard-port=0", "--name=west", "--num-cpus=2", "--num-gpus=0")
        cls.address = json.loads(cls.must("status", "--json"))["address"]
        cls.url = re.match(r"https?://[^/]+", json.loads(cls.must("dashboard", "--json"))["url"])[0]

    @classmethod
    def file(cls, text):
        file = cls.home.path / "password"
        file.write_text(text + "\n")
        return file

    @classmethod
    def volador(cls, *arguments, user="", **more):
        """As the operator of this machine, or as a user whose sign-in is in a home of its own."""
        environment = {"VOLADOR_HOME": str(cls.home.path / f"home-{user}")} if user else {}
        return cls.home.run(VOLADOR, *arguments, cwd=cls.home.path, **environment, **more)

    @classmethod
    def must(cls, *arguments, user=""):
        done = cls.volador(*arguments, user=user)
        if done.returncode != 0:
            raise AssertionError(f"volador {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def sign_in(cls, user, home="", password=None):
        access = json.loads((cls.home.path / "volador/clusters/heron/access.json").read_text())
        return cls.volador("login", f"--user={user}", f"--address={cls.address}", f"--fingerprint={access['fingerprint']}",
                           "--password-file", cls.file(password or PASSWORDS[user]), "--json", user=home or user)

    def submit(self, user, *arguments):
        done = self.volador("job", "submit", "--json", "--no-code", *arguments, user=user)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["id"]

    def refused(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_a_sign_in_acts_as_its_user_until_it_is_signed_out(self):
        who = json.loads(self.must("whoami", "--json", user="mei"))
        self.assertEqual((who["user"], who["role"]), ("mei", "driver"))
        self.assertEqual(json.loads(self.must("whoami", "--json"))["user"], "", "the operator of this machine has no user")
        logins = self.home.path / "home-mei/logins.json"
        self.assertEqual(os.stat(logins).st_mode & 0o777, 0o600)
        wrong = self.sign_in("mei", home="other", password="correct horse batterz")
        unknown = self.sign_in("nora", home="other", password="correct horse battery")
        self.refused(wrong, 5, "the user or the password is wrong")
        self.assertEqual(wrong.stderr, unknown.stderr)
        self.assertEqual(self.sign_in("mei", home="other").returncode, 0)
        token = json.loads((self.home.path / "home-other/logins.json").read_text())[0]["token"]
        self.assertIn("is signed out", self.must("logout", user="other"))
        self.refused(self.volador("status", f"--address={self.address}", VOLADOR_TOKEN=token), 5, "was revoked")
        self.refused(self.volador("logout", f"--address={self.address}", user="other"), 6, "is not signed in")

    def test_a_program_uses_the_sign_in_and_names_it_when_it_is_refused(self):
        self.must("user", "add", "ada", "--role=user", "--password-file", self.file(PASSWORDS["mei"]))
        self.assertEqual(self.sign_in("ada", password=PASSWORDS["mei"]).returncode, 0)

        def program(user, **more):
            return self.home.run(BIN / "hello_actor", cwd=self.home.path, VOLADOR_HOME=str(self.home.path / f"home-{user}"), **more)

        for ran in (program("ada"), program("ada", VOLADOR_ADDRESS=self.address)):
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertNotIn("private", ran.stderr)
        self.must("user", "set", "ada", "--disable")
        for ran in (program("ada"), program("ada", VOLADOR_ADDRESS=self.address)):
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn(f"the token is from the sign-in of ada at {self.address}: sign in again with `volador login --user=ada`", ran.stderr)
        self.assertIn(f"no token for the cluster at {self.address}: sign in with `volador login`", program("new", VOLADOR_ADDRESS=self.address).stderr)
        self.must("user", "delete", "ada", "--yes")

    def test_the_password_comes_from_the_terminal_and_is_not_shown(self):
        access = json.loads((self.home.path / "volador/clusters/heron/access.json").read_text())
        main, terminal = pty.openpty()
        environment = self.home.environment(VOLADOR_HOME=str(self.home.path / "home-typed"))
        process = subprocess.Popen([str(VOLADOR), "login", "--user=mei", f"--address={self.address}", f"--fingerprint={access['fingerprint']}"],
                                   env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
        os.close(terminal)
        shown = b""
        while b"Password of mei:" not in shown:
            shown += os.read(main, 1024)
        os.write(main, PASSWORDS["mei"].encode() + b"\n")
        while True:
            try:
                more = os.read(main, 1024)
            except OSError:
                break
            if not more:
                break
            shown += more
        self.assertEqual(process.wait(), 0, shown)
        self.assertIn(b"signed in at", shown)
        self.assertNotIn(PASSWORDS["mei"].encode(), shown)

    def test_roles_and_operations_on_users(self):
        self.refused(self.volador("user", "list", user="mei"), 5, "is for role operator")
        self.refused(self.volador("job", "submit", "--no-code", "--", "true", user="eve"), 5, "driver or operator")
        names = [user["name"] for user in json.loads(self.must("user", "list", "--json", user="ops"))["users"]]
        self.assertEqual(names[:2], ["eve", "kim"])
        self.refused(self.volador("user", "add", "mei", "--no-password"), 2, "user mei exists")
        self.refused(self.volador("user", "add", "Mei", "--no-password"), 2, "is no name of a user")
        self.refused(self.volador("user", "add", "short", "--password-file", self.file("1234567")), 2, "expected 8 to 1024")
        self.refused(self.volador("user", "set", "nora", "--disable"), 6, "there is no user")
        audit = self.must("list", "audit", "--json", user="ops")
        self.assertIn("put_user", audit)

    def test_users_create_their_own_tokens(self):
        token = self.must("token", "create", "--user=mei", "--role=viewer", "--valid-for=1h", user="mei").strip()
        who = json.loads(self.volador("whoami", "--json", f"--address={self.address}", VOLADOR_TOKEN=token).stdout)
        self.assertEqual((who["user"], who["role"]), ("mei", "viewer"))
        self.refused(self.volador("token", "create", "--user=mei", "--role=operator", user="mei"), 2, "viewer or driver")
        self.refused(self.volador("token", "create", "--user=kim", user="mei"), 5, "created by kim and by operators")
        limited = self.volador("token", "create", "--user=mei", "--role=driver", f"--address={self.address}", VOLADOR_TOKEN=token)
        self.refused(limited, 2, "may have tokens of role viewer")
        self.assertIn("mei", self.must("token", "list"))

    def test_access_of_others_to_jobs(self):
        job = {access: self.submit("mei", f"--name=secret-{access}", f"--access={access}", "--", "sleep", "600") for access in ("none", "read", "write")}
        self.addCleanup(lambda: [self.must("job", "stop", "--now", each) for each in job.values()])
        self.assertEqual(json.loads(self.must("job", "show", job["read"], "--json", user="kim"))["user"], "mei")
        self.refused(self.volador("job", "show", job["none"], user="kim"), 6, "there is no job")
        self.refused(self.volador("job", "show", "secret-none", user="kim"), 6, "there is no job")
        listed = json.loads(self.must("job", "list", "--json", user="kim"))
        ids = [each["id"] for each in listed["jobs"]]
        self.assertIn(job["read"], ids)
        self.assertNotIn(job["none"], ids)
        self.assertNotIn("secret-none", self.must("list", "events", "--json", user="kim"))
        self.refused(self.volador("job", "stop", job["read"], user="kim"), 5, "submitted by user mei")
        self.refused(self.volador("job", "stop", job["none"], user="kim"), 6)
        self.must("job", "extend", job["write"], "2h", user="kim")
        self.must("job", "stop", "--now", job["write"], user="kim")
        self.assertIn("stopped by user kim", self.must("job", "show", job["write"], user="mei"))
        self.must("job", "show", job["none"], user="ops")
        self.assertEqual(self.sign_in("mei", home="mei-2").returncode, 0)
        self.must("job", "extend", job["none"], "2h", user="mei-2")

    def test_a_project_with_members(self):
        file = self.home.path / "queue.yaml"
        file.write_text("projects: {vision: {members: [mei]}}\nmaxima: {restarts: 3}\n")
        self.must("job", "queue", f"--apply={file}")
        try:
            job = self.submit("mei", "--project=vision", "--", "true")
            self.refused(self.volador("job", "submit", "--no-code", "--project=vision", "--", "true", user="kim"), 5,
                         "vision takes jobs of its members only", "kim is none of them")
            self.refused(self.volador("job", "show", job, user="kim"), 6)
            self.refused(self.volador("job", "submit", "--no-code", "--restarts=4", "--", "true", user="ops"), 5, "max_restarts: at most 3")
            self.assertEqual(json.loads(self.must("whoami", "--json", user="mei"))["projects"], ["vision"])
        finally:
            file.write_text("projects: {}\n")
            self.must("job", "queue", f"--apply={file}")

    def test_a_disabled_user_is_refused_at_once_and_a_deleted_one_for_good(self):
        self.must("user", "add", "temp", "--password-file", self.file("temporary user"))
        self.assertEqual(self.sign_in("temp", password="temporary user").returncode, 0)
        self.must("whoami", user="temp")
        self.must("user", "set", "temp", "--disable", user="ops")
        self.refused(self.volador("whoami", user="temp"), 5, "who is disabled")
        self.refused(self.sign_in("temp", password="temporary user"), 5, "the user or the password is wrong")
        self.must("user", "set", "temp", "--enable", user="ops")
        self.must("whoami", user="temp")
        done = self.volador("user", "password", "temp", "--password-file", self.file("another password"), user="ops")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(self.volador("whoami", user="temp"), 5, "was revoked")
        self.assertEqual(self.sign_in("temp", password="another password").returncode, 0)
        old, new = self.home.path / "old", self.home.path / "new"
        old.write_text("another password\n")
        new.write_text("a third password\n")
        self.must("user", "password", "--old-password-file", old, "--password-file", new, user="temp")
        self.must("whoami", user="temp")
        self.must("user", "delete", "temp", "-y", user="ops")
        self.refused(self.volador("whoami", user="temp"), 5, "was revoked")
        self.must("user", "add", "temp", "--no-password")
        self.refused(self.volador("whoami", user="temp"), 5, "was revoked")
        self.must("user", "delete", "temp", "-y")

    def http(self, method, path, body=None, cookie=""):
        headers = {"X-Volador-Request": "1", "Content-Type": "application/json", "Origin": self.url, **({"Cookie": cookie} if cookie else {})}
        request = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body is not None else None, headers=headers)
        try:
            with urllib.request.urlopen(request) as reply:
                return reply.status, json.loads(reply.read() or b"{}"), (reply.headers.get("Set-Cookie") or "").split(";")[0]
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read()), ""

    def test_the_page_signs_in_with_a_password(self):
        status, body, _ = self.http("POST", "/api/v1/session", {"user": "mei", "password": "wrong password"})
        self.assertEqual(status, 401, body)
        status, body, cookie = self.http("POST", "/api/v1/session", {"user": "mei", "password": PASSWORDS["mei"]})
        self.assertEqual((status, body["user"], body["role"]), (200, "mei", "user"))
        status, body, _ = self.http("POST", "/api/v1/jobs", {"spec": {"command": ["true"], "name": "from-the-page", "access": "none"}}, cookie)
        self.assertEqual((status, body["job"]["user"]), (200, "mei"), body)
        job = body["job"]["id"]
        self.assertEqual(self.http("GET", "/api/v1/users", cookie=cookie)[0], 403)
        _, _, others = self.http("POST", "/api/v1/session", {"user": "kim", "password": PASSWORDS["kim"]})
        self.assertEqual(self.http("GET", f"/api/v1/jobs/{job}", cookie=others)[0], 404)
        self.assertEqual(self.http("GET", f"/api/v1/jobs/{job}", cookie=cookie)[0], 200)
        _, _, viewer = self.http("POST", "/api/v1/session", {"user": "eve", "password": PASSWORDS["eve"]})
        self.assertEqual(self.http("POST", "/api/v1/jobs", {"spec": {"command": ["true"]}}, viewer)[0], 403)
        _, _, operator = self.http("POST", "/api/v1/session", {"user": "ops", "password": PASSWORDS["ops"]})
        rows = self.http("GET", "/api/v1/users", cookie=operator)[1]["rows"]
        self.assertNotIn("argon2", json.dumps(rows))
        # The settings of the queue come back as they were read, members and maxima included.
        queue = self.http("GET", "/api/v1/job_queue", cookie=operator)[1]["settings"]
        queue["projects"] = [{"name": "vision", "members": ["mei"]}]
        status, body, _ = self.http("POST", "/api/v1/job_queue", {"settings": queue}, operator)
        self.assertEqual(status, 200, body)
        queue = self.http("GET", "/api/v1/job_queue", cookie=operator)[1]["settings"]
        self.assertEqual(queue["projects"][0]["members"], ["mei"])
        self.assertEqual(self.http("POST", "/api/v1/job_queue", {"settings": {**queue, "projects": []}}, operator)[0], 200)
        self.assertEqual(self.http("DELETE", "/api/v1/session", cookie=cookie)[0], 200)
        self.assertEqual(self.http("GET", "/api/v1/session", cookie=cookie)[0], 401)

    def rank(self, job, user="ops"):
        """The actor of the job's rank, once it has printed something."""
        def find():
            ranks = json.loads(self.must("job", "show", job, "--json", user=user))["ranks"]
            return ranks and ranks[0].get("actor") and self.volador("logs", ranks[0]["actor"], user=user).stdout.strip() and ranks[0]["actor"]
        return wait_until(f"{job} prints", find)

    def cookie_of(self, user):
        status, body, cookie = self.http("POST", "/api/v1/session", {"user": user, "password": PASSWORDS[user]})
        self.assertEqual(status, 200, body)
        return cookie

    def follow_node(self, cookie):
        port = int(self.url.rsplit(":", 1)[1])
        line = WebSocket(port, Origin=self.url, Cookie=cookie)
        self.addCleanup(line.close)
        line.send({"op": "sub", "id": 1, "topic": "logs", "filter": {"node": "west"}})
        return line, line.next(lambda message: message["type"] == "snap")

    def test_the_output_of_a_hidden_job_is_hidden_from_all_who_may_not_see_it(self):
        go = self.home.path / "go"
        self.addCleanup(lambda: go.unlink(missing_ok=True))
        mei = self.cookie_of("mei")
        command = ["sh", "-c", f"echo hush-begins; while ! test -e {go}; do sleep 0.1; done; echo hush-goes-on; sleep 600"]
        spec = {"command": command, "name": "hush-name", "access": "none", "log_policies": [{"pattern": "hush", "action": "notify"}]}
        status, body, _ = self.http("POST", "/api/v1/jobs", {"spec": spec}, mei)
        self.assertEqual(status, 200, body)
        job = body["job"]["id"]
        self.addCleanup(lambda: self.must("job", "stop", "--now", job))
        actor = self.rank(job)
        alerted = lambda: job in json.dumps([each for each in json.loads(self.must("list", "events", "--json"))["events"] if "alert" in each["text"]])  # noqa: E731
        wait_until("the log policy has reported the line", alerted)

        unknown = "no actor, trial, placement group or node has this name or id"
        for other in ("kim", "eve"):
            for name in (actor, actor[:8], job):
                self.refused(self.volador("logs", name, user=other), 6, unknown)
                self.refused(self.volador("logs", "--follow", name, user=other), 6, unknown)
                self.refused(self.volador("stack", name, user=other), 6, unknown)
                self.refused(self.volador("explain", name, user=other), 6, unknown)
                self.refused(self.volador("timeline", f"--id={name}", "--output=-", user=other), 6, unknown)
            self.refused(self.volador("kill", actor, user=other), 5)
            self.refused(self.volador("job", "logs", job, user=other), 6, "there is no job")
            for lists in (("logs", "--node=west"), ("logs", "west"), ("logs", "head"), ("list", "events", "--json"), ("list", "actors", "--json"),
                          ("list", "processes", "--json"), ("list", "queue", "--json"), ("timeline", "--output=-")):
                self.assertNotIn("hush", self.must(*lists, user=other), lists)
            self.assertNotIn(actor, self.must("timeline", "--output=-", user=other))
            cookie = self.cookie_of(other)
            for path in (f"logs?id={actor}", f"logs?id={job}", f"logs/lines?id={actor}", f"logs/lines?id={actor}&find=hush", f"actors/{actor}/stack",
                         f"explain?id={actor}", f"timeline?id={actor}"):
                self.assertEqual(self.http("GET", f"/api/v1/{path}", cookie=cookie)[0], 404, path)
            for path in ("logs?node=west", "logs/lines?node=west", "timeline", "events", "actors", "jobs", "nodes/west/processes"):
                status, body, _ = self.http("GET", f"/api/v1/{path}", cookie=cookie)
                self.assertEqual(status, 200, (path, body))
                self.assertNotIn("hush", json.dumps(body), path)

        for known in ("mei", "ops"):
            for name in (actor, job):
                self.assertIn("hush-begins", self.must("logs", name, user=known))
                self.must("stack", name, user=known)
                self.must("explain", name, user=known)
            self.assertIn("hush-begins", self.must("logs", "--node=west", user=known))
            cookie = self.cookie_of(known)
            for path in (f"logs?id={actor}", "logs?node=west", f"logs/lines?id={actor}&find=hush"):
                self.assertIn("hush-begins", json.dumps(self.http("GET", f"/api/v1/{path}", cookie=cookie)[1]), path)
        self.assertIn("hush-begins", self.must("job", "logs", job, user="mei"))

        # Lines that come while users follow the node.
        kim, first = self.follow_node(self.cookie_of("kim"))
        self.assertNotIn("hush", json.dumps(first))
        owner, first = self.follow_node(mei)
        self.assertIn("hush-begins", json.dumps(first))
        go.touch()
        owner.next(lambda message: "hush-goes-on" in json.dumps(message))
        seen = self.submit("mei", "--name=open", "--", "echo", "open-line")
        messages = []
        kim.next(lambda message: messages.append(json.dumps(message)) or "open-line" in messages[-1])
        self.assertNotIn("hush", "".join(messages))

        # What a setting hides is hidden from then on.
        opened = self.rank(seen, "kim")
        self.assertIn("open-line", self.must("logs", opened, user="kim"))
        file = self.home.path / "queue.yaml"
        file.write_text("private_jobs: true\n")
        self.must("job", "queue", f"--apply={file}")
        try:
            self.refused(self.volador("logs", opened, user="kim"), 6, unknown)
            self.assertIn("open-line", self.must("logs", opened, user="mei"))
        finally:
            file.write_text("private_jobs: false\n")
            self.must("job", "queue", f"--apply={file}")

    def test_z_many_wrong_passwords_delay_no_others(self):
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            guesses = [pool.submit(self.http, "POST", "/api/v1/session", {"user": "mei", "password": f"guess number {i}"}) for i in range(40)]
            while not all(guess.done() for guess in guesses):
                self.must("status")
        answers = [guess.result()[0] for guess in guesses]
        self.assertEqual(set(answers) - {401, 429, 503}, set(), answers)
        self.assertIn(401, answers)
        self.assertGreater(len(answers) - answers.count(401), 0, "not all of them were checked")
        alive = json.loads(self.must("list", "nodes", "--json"))["nodes"]
        self.assertEqual([node["state"] for node in alive], ["alive"])
        self.refused(self.sign_in("mei", home="other"), 4, "too many wrong passwords")

    def test_zz_a_restarted_head_keeps_users_and_no_file_has_a_password(self):
        pid = int((self.home.path / "volador/clusters/heron/head/head.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until("the head has ended", lambda: pid not in self.home.pids())
        self.must("start", "--head", "--cluster=heron", "--name=west", "--num-cpus=2", "--num-gpus=0")
        self.assertEqual(json.loads(self.must("whoami", "--json", user="mei"))["user"], "mei")
        self.assertEqual(self.sign_in("kim", home="other").returncode, 0)
        (self.home.path / "password").unlink()
        secrets = [password.encode() for password in PASSWORDS.values()]
        for file in self.home.path.rglob("*"):
            if file.is_file():
                text = file.read_bytes()
                for secret in secrets:
                    self.assertNotIn(secret, text, file)


if __name__ == "__main__":
    unittest.main()
