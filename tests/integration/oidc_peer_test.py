"""Sign-in by a provider that others wrote (oidc-provider-mock): a browser, and the command line through the dashboard.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where oidc-provider-mock (scripts/setup_oidc.sh) is missing.
"""

import json
import pathlib
import re
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402
from oidc_test import Browser  # noqa: E402
from single_machine import BIN, Home, wait_until  # noqa: E402

VOLADOR = BIN / "volador"
pypi_folder.require("oidc", "oidc-provider-mock", VOLADOR)
import oidc_provider_mock  # noqa: E402


class Peer(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        claims = {"preferred_username": "mei", "name": "Mei Lin", "email": "mei@example.org", "teams": ["vision"]}
        server = oidc_provider_mock.run_server_in_thread(require_nonce=True, user_claims=[oidc_provider_mock.User(sub="1001", claims=claims)])
        self.issuer = f"http://localhost:{server.__enter__().server_port}"
        self.addCleanup(server.__exit__, None, None, None)
        secret = self.home.path / "client_secret"
        secret.write_text("s3cret\n")
        (self.home.path / "volador.yaml").write_text(
            f"oidc: {{issuer: '{self.issuer}', client_id: volador, client_secret_file: {secret}, groups_claim: teams}}\n")
        self.must("start", "--head", "--cluster=heron", "--port=0", "--dashboard-port=0", "--name=west", "--num-cpus=1", "--num-gpus=0")
        self.addCleanup(self.volador, "stop")
        self.url = re.match(r"https?://[^/]+", json.loads(self.must("dashboard", "--json"))["url"])[0]
        self.must("group", "create", "vision")

    def volador(self, *arguments, **environment):
        return self.home.run(VOLADOR, *arguments, cwd=self.home.path, no_proxy="127.0.0.1,localhost", **environment)

    def must(self, *arguments, **environment):
        done = self.volador(*arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def sign_in(self, browser, place):
        """What the dashboard answers to the browser that comes back."""
        _, headers, text = browser.ask("GET", self.url + place)
        self.assertIn("Location", headers, text)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        status, headers, text = browser.ask("POST", headers["Location"], urllib.parse.urlencode({"sub": "1001"}), **form)
        self.assertEqual(status, 302, text)
        return browser.ask("GET", headers["Location"])

    def test_a_browser_and_a_command_line_sign_in(self):
        browser = Browser()
        status, _, text = self.sign_in(browser, "/login/provider")
        self.assertEqual(status, 303, text)
        self.assertEqual(json.loads(browser.ask("GET", self.url + "/api/v1/session")[2])["user"], "mei")
        user = json.loads(self.must("user", "list", "--json"))["users"][0]
        self.assertEqual((user["mail"], user["full_name"], user["groups"]), ("mei@example.org", "Mei Lin", ["vision"]))
        access = json.loads((self.home.path / "volador/clusters/heron/access.json").read_text())
        output = self.home.path / "login.txt"
        home = {"VOLADOR_HOME": str(self.home.path / "home-mei")}
        process = self.home.start(VOLADOR, "login", "--provider", f"--address={access['address']}", f"--fingerprint={access['fingerprint']}",
                                  output=output, **home)
        place = wait_until("the address is shown", lambda: re.search(r"(/login/provider\?code=\S+)", output.read_text()))[1]
        status, _, text = self.sign_in(Browser(), place)
        self.assertEqual(status, 200, text)
        form = urllib.parse.urlencode({"approval": re.search(r'name="approval" value="([^"]*)"', text)[1]})
        self.assertEqual(Browser().ask("POST", self.url + "/login/provider/approve", form, Origin=self.url)[0], 200)
        self.assertEqual(process.wait(60), 0, output.read_text())
        self.assertEqual(json.loads(self.must("whoami", "--json", **home))["user"], "mei")


if __name__ == "__main__":
    unittest.main()
