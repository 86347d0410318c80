"""The dashboard with a certificate of its owner's: own_certificate_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from set_up import environment_of

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))


class OwnCertificate(unittest.TestCase):
    """--tls-cert and --tls-key, with certificates of the openssl program."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="vd-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.environment = environment_of(self.home)
        self.certificate, self.key = os.path.join(self.home, "site.pem"), os.path.join(self.home, "site.key")

    def make(self, name, days=2, **files):
        certificate, key = files.get("certificate", self.certificate), files.get("key", self.key)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key + ".new", "-out", certificate + ".new", "-days", "2",
                        "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"], check=True, capture_output=True)
        if days != 2:
            subprocess.run(["openssl", "x509", "-in", certificate + ".new", "-signkey", key + ".new", "-days", str(days), "-out", certificate + ".new"], check=True, capture_output=True)
        os.rename(key + ".new", key)
        os.rename(certificate + ".new", certificate)
        return ssl.PEM_cert_to_DER_cert(pathlib.Path(certificate).read_text(encoding="ascii"))

    def start(self, *flags):
        return subprocess.run([BIN / "volador", "start", "--head", "--port=0", "--num-cpus=1", "--json", *flags], env=self.environment, capture_output=True, text=True, timeout=60, check=False)

    def shown(self, port):
        """The certificate that a new connection is shown."""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            context = ssl.create_default_context(cafile=self.certificate)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(line) as secured:
                return secured.getpeercert(binary_form=True)

    def test_it_is_served_and_read_again_when_it_changes(self):
        first = self.make("volador.example")
        started = self.start("--tls-cert=" + self.certificate, "--tls-key=" + self.key)
        self.assertEqual(started.returncode, 0, started.stderr)
        self.addCleanup(subprocess.run, [BIN / "volador", "stop"], env=self.environment, stdout=subprocess.DEVNULL, check=False)
        link = json.loads(started.stdout)["dashboard"]
        self.assertRegex(link, r"^https://127\.0\.0\.1:\d+/login")
        port = int(re.search(r":(\d+)/login", link)[1])
        self.assertEqual(self.shown(port), first)
        trusted = ssl.create_default_context(cafile=self.certificate)
        for host in ("127.0.0.1", "volador.example"):  # By every name that it is for.
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=trusted)
            connection.request("GET", "/healthz", headers={"Host": f"{host}:{port}"})
            self.assertEqual(connection.getresponse().status, 200, host)
            connection.close()

        kept = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=trusted)
        access = next(pathlib.Path(self.home).glob("clusters/*/access.json"))
        bearer = {"Authorization": "Bearer " + json.loads(access.read_text())["token"]}  # A stranger's connection would not be kept so long.
        kept.request("GET", "/api/v1/nodes", headers=bearer)
        self.assertEqual(kept.getresponse().read()[:1], b"{")
        second = self.make("volador.example")
        until = time.monotonic() + 40
        while self.shown(port) != second:
            self.assertLess(time.monotonic(), until, "the new certificate was not taken up")
            time.sleep(0.2)
        kept.request("GET", "/api/v1/nodes", headers=bearer)  # Connections that are open go on.
        self.assertEqual(kept.getresponse().status, 200)
        kept.close()

    def test_what_cannot_be_used_is_said_before_anything_starts(self):
        other = os.path.join(self.home, "other.key")
        self.make("a.example")
        for said, flags in (("tls_cert and tls_key go together", ["--tls-cert=" + self.certificate]),
                            ("No such file", ["--tls-cert=/nowhere.pem", "--tls-key=" + self.key]),
                            ("give the certificate here", ["--tls-cert=" + self.key, "--tls-key=" + self.key])):
            with self.subTest(said=said):
                refused = self.start(*flags)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn(said, refused.stderr)
        self.make("b.example", certificate=os.path.join(self.home, "other.pem"), key=other)
        refused = self.start("--tls-cert=" + self.certificate, "--tls-key=" + other)
        self.assertIn("is not the key", refused.stderr)
        self.make("a.example", days=-1)
        refused = self.start("--tls-cert=" + self.certificate, "--tls-key=" + self.key)
        self.assertIn("expired on", refused.stderr)
        self.assertIn("renew it", refused.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.home, "clusters")), "nothing was made")


if __name__ == "__main__":
    if not (BIN / "volador").exists():
        sys.exit(77)
    unittest.main(warnings="ignore")
