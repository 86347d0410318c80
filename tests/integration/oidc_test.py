"""Sign-in by an OpenID Connect provider, as a browser and as the command line do it, and groups of users: real head, dashboard and provider.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the program openssl is missing.
"""

import html
import http.client
import json
import pathlib
import re
import shutil
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from oidc_provider import Provider  # noqa: E402
from single_machine import BIN, Home, wait_until  # noqa: E402

VOLADOR = BIN / "volador"
SECRET = "s3cret-of-the-client/+"


class Browser:
    """Requests with cookies, one at a time; redirections are followed by hand."""

    def __init__(self):
        self.cookies = {}

    def ask(self, method, url, body=None, **headers):
        """Status, headers and text of the answer."""
        address = urllib.parse.urlparse(url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        kept = "; ".join(f"{name}={value}" for (host, name), value in self.cookies.items() if host == address.netloc)
        path = address.path + ("?" + address.query if address.query else "")
        connection.request(method, path, body, {**({"Cookie": kept} if kept else {}), **headers})
        answer = connection.getresponse()
        for text in answer.headers.get_all("Set-Cookie") or []:
            name, value = text.split(";")[0].split("=", 1)
            if "Max-Age=0" in text:
                self.cookies.pop((address.netloc, name), None)
            else:
                self.cookies[address.netloc, name] = value
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text


class Cluster(unittest.TestCase):
    SETTINGS = ""

    @classmethod
    def setUpClass(cls):
        cls.home = Home()
        cls.provider = Provider(cls.home.path, secret=SECRET)
        cls.addClassCleanup(cls.provider.close)
        cls.addClassCleanup(cls.home.close)
        (cls.home.path / "client_secret").write_text(SECRET + "\n")
        (cls.home.path / "volador.yaml").write_text(
            f"oidc:\n  issuer: {cls.provider.issuer}\n  client_id: volador\n  client_secret_file: {cls.home.path}/client_secret\n"
            "  label: Lab ID\n" + cls.SETTINGS)
        cls.must("start", "--head", "--cluster=heron", "--port=0", "--dashboard-port=0", "--name=west", "--num-cpus=2", "--num-gpus=0")
        cls.addClassCleanup(cls.volador, "stop")
        cls.address = json.loads(cls.must("status", "--json"))["address"]
        cls.url = re.match(r"https?://[^/]+", json.loads(cls.must("dashboard", "--json"))["url"])[0]
        cls.fingerprint = json.loads((cls.home.path / "volador/clusters/heron/access.json").read_text())["fingerprint"]

    def setUp(self):
        self.provider.change = lambda claims: None
        self.provider.make_token = self.provider.signed
        self.provider.in_user_info = {}
        self.provider.person = {"sub": "1001", "preferred_username": "Mei", "name": "Mei Lin", "email": "mei@example.org", "groups": ["/vision"]}

    @classmethod
    def volador(cls, *arguments, user="", **more):
        environment = {"VOLADOR_HOME": str(cls.home.path / f"home-{user}")} if user else {}
        return cls.home.run(VOLADOR, *arguments, cwd=cls.home.path, no_proxy="127.0.0.1", **environment, **more)

    @classmethod
    def must(cls, *arguments, user=""):
        done = cls.volador(*arguments, user=user)
        if done.returncode != 0:
            raise AssertionError(f"volador {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def begin(self, browser, place="/login/provider"):
        """The address with which the provider sends the browser back."""
        status, headers, text = browser.ask("GET", self.url + place)
        self.assertEqual(status, 303, text)
        self.assertTrue(headers["Location"].startswith(self.provider.issuer + "/authorize?"), headers["Location"])
        self.assertNotIn(SECRET, headers["Location"])
        status, headers, text = browser.ask("GET", headers["Location"])
        self.assertEqual(status, 302, text)
        self.assertTrue(headers["Location"].startswith(self.url + "/login/provider/callback?"))
        return headers["Location"]

    def failed(self, browser, callback, *texts, status=None):
        found, headers, text = browser.ask("GET", callback)
        text = html.unescape(text)
        self.assertIn(found, [status] if status else [400, 401, 403, 404, 503], text)
        for each in texts:
            self.assertIn(each, text)
        self.assertNotIn("volador_session", str(headers))

    def session(self, browser):
        status, _, text = browser.ask("GET", self.url + "/api/v1/session")
        return json.loads(text) if status == 200 else None

    def start_login(self, user, *arguments):
        """The process of `volador login --provider`, the address that it shows and the code."""
        output = self.home.path / f"login-{user}.txt"
        process = self.home.start(VOLADOR, "login", "--provider", f"--address={self.address}", f"--fingerprint={self.fingerprint}", *arguments,
                                  output=output, VOLADOR_HOME=str(self.home.path / f"home-{user}"))
        shown = wait_until("the address is shown", lambda: re.search(r"Open (\S+)\n.*the code (\S+)", output.read_text()))
        return process, shown[1], shown[2], output


class Oidc(Cluster):
    SETTINGS = "  groups_claim: groups\n"

    def test_a_browser_signs_in_and_the_provider_decides_its_groups(self):
        self.must("group", "create", "vision")
        self.must("group", "create", "nlp")
        browser = Browser()
        self.assertEqual(json.loads(browser.ask("GET", self.url + "/api/v1/session/provider")[2]), {"label": "Lab ID"})
        callback = self.begin(browser, "/login/provider?next=%2F%23%2Fjobs")
        status, headers, text = browser.ask("GET", callback)
        self.assertEqual((status, headers["Location"]), (303, "/#/jobs"), text)
        cookies = headers.get_all("Set-Cookie")
        self.assertTrue(any("volador_session" in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie for cookie in cookies), cookies)
        session = self.session(browser)
        self.assertEqual((session["user"], session["role"]), ("mei", "user"))
        user = [row for row in json.loads(self.must("user", "list", "--json"))["users"] if row["name"] == "mei"][0]
        self.assertEqual((user["full_name"], user["mail"], user["subject"], user["groups"]), ("Mei Lin", "mei@example.org", "1001", ["vision"]))
        # The next sign-in has other groups, and another address.
        self.provider.person.update(groups=["nlp", "unknown"], email="lin@example.org")
        again = Browser()
        self.assertEqual(again.ask("GET", self.begin(again))[1]["Location"], "/")
        user = [row for row in json.loads(self.must("user", "list", "--json"))["users"] if row["name"] == "mei"][0]
        self.assertEqual((user["mail"], user["groups"]), ("lin@example.org", ["nlp"]))
        # What only the user info has.
        for claim in ("email", "name"):
            del self.provider.person[claim]
        self.provider.in_user_info = {"email": "info@example.org", "name": "Mei of the info"}
        self.assertEqual(again.ask("GET", self.begin(again))[0], 303)
        user = [row for row in json.loads(self.must("user", "list", "--json"))["users"] if row["name"] == "mei"][0]
        self.assertEqual((user["mail"], user["full_name"]), ("info@example.org", "Mei of the info"))
        # A sign-out ends the token too.
        headers = {"X-Volador-Request": "1", "Origin": self.url}
        self.assertEqual(browser.ask("DELETE", self.url + "/api/v1/session", **headers)[0], 200)
        self.assertIsNone(self.session(browser))

    def test_tokens_that_are_wrong_are_refused(self):
        browser = Browser()

        def attempt(*texts, **changes):
            self.provider.change = lambda claims: [claims.update({name: value}) if value is not None else claims.pop(name) for name, value in changes.items()]
            self.failed(browser, self.begin(browser), *texts)

        attempt("aud: it is not for the client", aud="another")
        attempt("azp: it was made for another client", azp="another")
        attempt("iss: it is of the issuer \"https://evil.example.org\"", iss="https://evil.example.org")
        attempt("exp: it expired", exp=1_600_000_000)
        attempt("iat: it is", iat=4_000_000_000)
        attempt("nonce: it is not of this sign-in", nonce="of another sign-in")
        attempt("nonce: it is not of this sign-in", nonce=None)
        self.provider.change = lambda claims: None
        for make, text in ((self.provider.unsigned, "signed by \"none\""), (self.provider.symmetric, "signed by \"HS256\"")):
            self.provider.make_token = make
            self.failed(browser, self.begin(browser), text)
        self.provider.make_token = lambda claims: self.provider.signed(claims)[:-8] + "AAAAAAAA"
        self.failed(browser, self.begin(browser), "its signature is wrong")
        self.assertIsNone(self.session(browser))
        audit = self.must("list", "audit", "--json")
        self.assertIn("its signature is wrong", audit)

    def test_an_answer_counts_once_and_for_the_browser_that_asked(self):
        browser, other = Browser(), Browser()
        callback = self.begin(browser)
        self.failed(other, callback, "began in another browser", status=403)
        forged = re.sub(r"state=[^&]*", "state=forged", callback)
        self.failed(browser, forged, "this sign-in is unknown")
        self.assertEqual(browser.ask("GET", callback)[0], 303)
        self.failed(browser, callback, "was used already")
        # The code of one sign-in with the state of another.
        first, second = Browser(), Browser()
        used = re.search(r"code=([^&]*)", self.begin(first))[1]
        mixed = re.sub(r"code=[^&]*", "code=" + used, self.begin(second))
        self.failed(second, mixed, "the verifier is wrong")
        mixed = re.sub(r"iss=[^&]*", "iss=https%3A%2F%2Fevil.example.org", self.begin(second))
        self.failed(second, mixed, "the answer is of the issuer \"https://evil.example.org\"")
        denied = re.sub(r"code=[^&]*", "error=access_denied", self.begin(second))
        self.failed(second, denied, "Lab ID did not sign you in: access_denied")

    def test_a_sign_in_leads_to_no_other_site(self):
        for place in ("https://evil.example.org", "//evil.example.org", "/\\evil.example.org", "/%0d%0aX: y", "/jobs", "javascript:alert(1)"):
            self.failed(Browser(), self.url + "/login/provider?next=" + urllib.parse.quote(place, safe="%"), status=400)
        # A name of this machine that the provider does not know leads to the one that it knows.
        status, headers, _ = Browser().ask("GET", self.url + "/login/provider?next=%2F%23%2Fjobs", Host="localhost:" + self.url.rsplit(":", 1)[1])
        self.assertEqual((status, headers["Location"]), (303, self.url + "/login/provider?again=1&next=%2F%23%2Fjobs"))
        status, headers, _ = Browser().ask("GET", self.url + "/login/provider", Host="evil.example.org")
        self.assertEqual(status, 421)

    def test_the_keys_of_the_provider_may_change(self):
        browser = Browser()
        self.assertEqual(browser.ask("GET", self.begin(browser))[0], 303)
        for name, kind in (("second", "ES256"), ("third", "RS256")):
            self.provider.rotate(name, kind)
            wait_until("the new key is used", lambda: browser.ask("GET", self.begin(browser))[0] == 303)

    def test_a_user_who_is_disabled_or_of_another_person_may_not_sign_in(self):
        self.must("user", "add", "kim", "--no-password")
        self.provider.person.update(sub="2002", preferred_username="kim")
        browser = Browser()
        self.failed(browser, self.begin(browser), "user kim exists, and is not linked", "volador user set kim --subject=2002", status=403)
        self.must("user", "set", "kim", "--subject=2002")
        self.assertEqual(browser.ask("GET", self.begin(browser))[0], 303)
        self.assertEqual(self.session(browser)["user"], "kim")
        self.must("user", "set", "kim", "--disable")
        self.assertIsNone(self.session(browser))
        self.failed(browser, self.begin(browser), "user kim is disabled; an operator changes that", status=403)
        self.must("user", "delete", "kim", "--yes")

    def test_the_command_line_signs_in_by_a_device_grant(self):
        process, url, code, output = self.start_login("mei", "--valid-for=1h")
        self.assertEqual((url, code), (self.provider.issuer + "/verify", "WDJB-MJHT"))
        (device,) = [key for key, state in self.provider.devices.items() if state == "waits"]
        asked = len([path for path in self.provider.requests if path == "/token"])
        wait_until("it asks while the user thinks", lambda: len([path for path in self.provider.requests if path == "/token"]) > asked)
        self.provider.devices[device] = "approved"
        self.assertEqual(process.wait(60), 0, output.read_text())
        self.assertIn("signed in at", output.read_text())
        who = json.loads(self.must("whoami", "--json", user="mei"))
        self.assertEqual((who["user"], who["role"]), ("mei", "driver"))
        # Refused at the provider.
        process, _, _, output = self.start_login("other")
        (device,) = [key for key, state in self.provider.devices.items() if state == "waits"]
        self.provider.devices[device] = "denied"
        self.assertEqual(process.wait(60), 5, output.read_text())
        self.assertIn("access_denied", output.read_text())

    def test_no_secret_is_in_a_log(self):
        browser = Browser()
        callback = self.begin(browser)
        self.assertEqual(browser.ask("GET", callback)[0], 303)
        code = re.search(r"code=([^&]*)", callback)[1]
        state = re.search(r"state=([^&]*)", callback)[1]
        for file in (self.home.path / "volador").rglob("*"):
            if file.is_file():
                data = file.read_bytes()
                for secret in (SECRET, code, state):
                    self.assertNotIn(secret.encode(), data, file)


class OidcWithoutDeviceGrant(Cluster):
    SETTINGS = "  device_grant: false\n  allowed_domains: example.org\n"

    def setUp(self):
        super().setUp()
        self.provider.person["email_verified"] = True

    def approval(self, browser, url):
        """The form of the page that asks."""
        status, _, text = browser.ask("GET", self.begin(browser, url.removeprefix(self.url)))
        self.assertEqual(status, 200, text)
        return text, re.search(r'name="approval" value="([^"]*)"', text)[1]

    def test_the_command_line_signs_in_through_the_dashboard_once_the_user_approves(self):
        process, url, code, output = self.start_login("mei")
        self.assertEqual(url, f"{self.url}/login/provider?code={code}")
        browser = Browser()
        text, approval = self.approval(browser, url)
        self.assertIn(code, text)
        self.assertIn("for the user mei", text)
        self.assertIsNone(self.session(browser), "the browser itself is not signed in")
        self.assertIsNone(process.poll(), "it waits for the approval")
        form = urllib.parse.urlencode({"approval": approval})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        self.assertEqual(browser.ask("POST", self.url + "/login/provider/approve", form, Origin="https://evil.example.org", **kind)[0], 403)
        self.assertEqual(browser.ask("POST", self.url + "/login/provider/approve", "approval=guessed", Origin=self.url, **kind)[0], 404)
        status, _, text = browser.ask("POST", self.url + "/login/provider/approve", form, Origin=self.url, **kind)
        self.assertEqual(status, 200, text)
        self.assertEqual(process.wait(60), 0, output.read_text())
        self.assertEqual(json.loads(self.must("whoami", "--json", user="mei"))["user"], "mei")
        self.assertEqual(browser.ask("POST", self.url + "/login/provider/approve", form, Origin=self.url, **kind)[0], 404)
        self.failed(Browser(), url, "this sign-in has ended or expired", status=404)

    def test_only_verified_addresses_of_the_domain_sign_in(self):
        browser = Browser()
        self.provider.person["email"] = "mei@evil.example.com"
        self.failed(browser, self.begin(browser), "mei@evil.example.com is not of a domain that may sign in: example.org", status=403)
        self.provider.person.update(email="mei@example.org", email_verified=False)
        self.failed(browser, self.begin(browser), "is verified", status=403)

    def test_groups_of_users_open_projects_at_once(self):
        for user in ("ada", "kim"):
            (self.home.path / "password").write_text(f"password of {user}\n")
            self.must("user", "add", user, f"--password-file={self.home.path}/password")
            self.must("login", f"--user={user}", f"--address={self.address}", f"--fingerprint={self.fingerprint}",
                      f"--password-file={self.home.path}/password", user=user)
        self.refused(self.volador("group", "create", "eyes", "nora"), 6, "there is no user \"nora\"")
        self.refused(self.volador("group", "create", "Eyes"), 2, "is no name of a group")
        file = self.home.path / "queue.yaml"
        file.write_text("projects: {vision: {members: ['@eyes']}}\n")
        self.refused(self.volador("job", "queue", f"--apply={file}"), 6, "projects: vision: members: there is no group \"eyes\"")
        self.must("group", "create", "eyes", "ada", "--note=who looks")
        self.refused(self.volador("group", "create", "eyes"), 2, "group eyes exists")
        self.must("job", "queue", f"--apply={file}")

        def submit(user):
            return self.volador("job", "submit", "--json", "--no-code", "--project=vision", "--", "true", user=user)

        job = json.loads(submit("ada").stdout)["id"]
        self.refused(submit("kim"), 5, "vision takes jobs of its members only")
        self.refused(self.volador("job", "show", job, user="kim"), 6)
        self.must("group", "add", "eyes", "kim")
        self.must("job", "show", job, user="kim")
        self.assertEqual(submit("kim").returncode, 0)
        who = json.loads(self.must("whoami", "--json", user="kim"))
        self.assertEqual((who["groups"], who["projects"]), (["eyes"], ["vision"]))
        self.assertIn("in the groups eyes", self.must("whoami", user="kim"))
        self.assertIn("ada, kim", self.must("group", "list"))
        self.refused(self.volador("group", "list", user="kim"), 5, "is for role operator")
        self.refused(self.volador("group", "add", "eyse", "kim"), 6, "there is no group \"eyse\"", "; did you mean eyes?")
        self.refused(self.volador("group", "add", "eyes", "nora"), 6, "there is no user \"nora\"")
        self.must("group", "remove", "eyes", "kim")
        self.refused(self.volador("job", "show", job, user="kim"), 6)
        self.refused(self.volador("group", "delete", "eyes", "--yes"), 2, "group eyes is a member of project vision")
        # A restart of the head keeps groups; a deleted user leaves them.
        self.must("stop", "--for-restart")
        self.must("start", "--head", "--cluster=heron", "--name=west", "--num-cpus=2", "--num-gpus=0")
        self.assertEqual(json.loads(self.must("group", "list", "--json"))["groups"][0]["members"], ["ada"])
        self.must("user", "delete", "ada", "--yes")
        self.assertEqual(json.loads(self.must("group", "list", "--json"))["groups"][0]["members"], [])
        file.write_text("projects: {}\n")
        self.must("job", "queue", f"--apply={file}")
        self.must("group", "delete", "eyes", "--yes")
        audit = self.must("list", "audit", "--json")
        for action in ("create_group", "change_group", "delete_group"):
            self.assertIn(action, audit)


class WrongSettings(unittest.TestCase):
    def test_the_error_names_the_setting_and_the_rule(self):
        home = Home()
        self.addCleanup(home.close)
        for settings, text in (({"ISSUER": "https://id.example.org"}, "oidc.issuer and oidc.client_id go together"),
                               ({"ISSUER": "http://id.example.org", "CLIENT_ID": "a"}, "begins with https://"),
                               ({"ISSUER": "https://id.example.org", "CLIENT_ID": "a", "SCOPES": "email"}, "expected openid among the scopes"),
                               ({"ISSUER": "https://id.example.org", "CLIENT_ID": "a", "ALLOWED_GROUPS": "a"}, "it needs oidc.groups_claim"),
                               ({"ISSUER": "https://id.example.org", "CLIENT_ID": "a", "ALLOWED_DOMAINS": "a@b"}, "expected domains in lower case"),
                               ({"ISSUER": "https://id.example.org", "CLIENT_ID": "a", "CLIENT_SECRET_FILE": "/none"}, "oidc.client_secret_file: cannot read /none")):
            done = home.run(VOLADOR, "start", "--head", "--port=0", **{"VOLADOR_OIDC_" + name: value for name, value in settings.items()})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("skipped: the program openssl is missing")
        sys.exit(77)
    unittest.main()
