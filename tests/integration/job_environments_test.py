"""Environments of jobs: packages from a file of the code folder, folders and images of the nodes, on one machine with two workers.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from jobs_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402


def has_uv():
    done = subprocess.run([shutil.which("uv") or "uv-is-missing", "--version"] if shutil.which("uv") else [sys.executable, "-m", "uv", "--version"],
                          capture_output=True, check=False)
    return done.returncode == 0


def make_wheel(folder, name, version, text):
    """A wheel with one module `name`, whose WORD is `text`."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"WORD = {text!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(content)}")
    rows.append(f"{info}/RECORD,,")
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        wheel.writestr(f"{info}/RECORD", "\n".join(rows) + "\n")


def make_root(root):
    """A root file system with bash and coreutils' cat, echo and ls, copied with their libraries."""
    for program in ("bash", "cat", "ls", "touch", "hostname"):
        path = pathlib.Path(shutil.which(program)).resolve()
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        libraries = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
        (root / "usr/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / "usr/bin" / program)
        for library in libraries:
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    for folder in ("etc", "home", "tmp", "proc", "dev", "var"):
        (root / folder).mkdir(exist_ok=True)
    if not (root / "bin").exists():
        (root / "bin").symlink_to("usr/bin")
    (root / "etc/release").write_text("the root of the test\n")


class JobEnvironments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.store = cls.cluster.home.path / "volador/cache/environments"

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        shutil.rmtree(self.cluster.work)
        self.cluster.work.mkdir()
        self.work = self.cluster.work

    def follow(self, *arguments):
        return self.cluster.run("job", "submit", "--follow", *arguments)

    def requirements(self, name, version="1.0", text="from a wheel", more=""):
        """requirements.txt with a package from a folder of wheels beside it."""
        make_wheel(self.work / "wheels", name, version, text)
        (self.work / "requirements.txt").write_text(f"--no-index\n--find-links wheels\n{name}=={version}  # the newest\n{more}")

    def complete(self):
        return sorted(self.store.glob("*/complete"))

    def test_packages_of_a_list_are_there_and_are_installed_once(self):
        self.requirements("vd_once")
        script = "import os, sys, vd_once; print(vd_once.WORD, sys.prefix == os.environ['VIRTUAL_ENV'], 'PYTHONHOME' in os.environ)"
        before = self.complete()
        first = self.follow("--environment=requirements.txt", "--setup=python3 -c 'import vd_once'", "--", "python3", "-c", script)
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertIn("volador: building environment requirements.txt with", first.stdout)
        self.assertRegex(first.stdout, r"volador: the environment is built \([^)]+\)")
        self.assertIn("from a wheel True False\n", first.stdout)
        # Another folder with equal content, another name of the file: the same environment.
        (self.work / "requirements.txt").rename(self.work / "packages.txt")
        second = self.follow("--env=packages.txt", "--", "python3", "-c", script)
        self.assertEqual((second.returncode, second.stdout), (0, "from a wheel True False\n"), second.stderr)
        self.assertEqual(len(self.complete()) - len(before), 1)
        # Another wheel of the same version: another environment.
        make_wheel(self.work / "wheels", "vd_once", "1.0", "from a newer wheel")
        third = self.follow("--environment=packages.txt", "--", "python3", "-c", script)
        self.assertIn("from a newer wheel True False\n", third.stdout)
        self.assertEqual(len(self.complete()) - len(before), 2)

    def test_jobs_and_ranks_at_once_build_it_once(self):
        self.requirements("vd_shared")
        before = self.complete()
        jobs = [self.cluster.submit("--environment=requirements.txt", "--nodes=2", "--", "python3", "-c", "import vd_shared; print(vd_shared.WORD)")
                for _ in range(2)]
        outputs = []
        for job in jobs:
            ended = self.cluster.wait_state(job, "succeeded", "failed")
            outputs.append(self.cluster.must("job", "logs", job))
            self.assertEqual(ended["state"], "succeeded", outputs[-1])
        self.assertEqual(sum(text.count("from a wheel") for text in outputs), 4, outputs)
        self.assertEqual(sum(text.count("building environment") for text in outputs), 1, outputs)
        self.assertEqual(len(self.complete()) - len(before), 1)

    def test_a_failed_build_says_why_and_what_to_do(self):
        before = self.complete()
        (self.work / "requirements.txt").write_text("--no-index\nvd-does-not-exist==9.9\n")
        failed = self.follow("--environment=requirements.txt", "--", "echo", "never")
        self.assertEqual(failed.returncode, 125, failed.stdout)
        self.assertRegex(failed.stdout, r"vd-does-not-exist")
        self.assertRegex(failed.stdout, r"environment requirements.txt: it cannot be built on node (east|west): (uv|pip) ended with exit code \d+.*correct the file")
        self.assertNotIn("\nnever", failed.stdout)
        self.assertEqual(self.complete(), before)

    def test_a_file_that_does_not_travel_is_refused_at_submission(self):
        def refused(*flags):
            done = self.cluster.run("job", "submit", *flags, "--", "true")
            self.assertNotEqual(done.returncode, 0, done.stdout)
            return done.stderr

        self.assertRegex(refused("--environment=requirements.txt"), "the code folder .* has no file requirements.txt; name one that it has")
        (self.work / "requirements.txt").write_text("")
        (self.work / ".voladorignore").write_text("*.txt\n")
        self.assertRegex(refused("--environment=requirements.txt"), "requirements.txt does not travel with the job, because")
        self.assertIn("none travels", refused("--environment=requirements.txt", "--no-code"))
        (self.work / "uv.lock").write_text("version = 1\n")
        self.assertIn("has no file pyproject.toml", refused("--environment=uv.lock"))
        self.assertIn('a path cannot contain ".."', refused("--environment=../requirements.txt"))
        self.assertIn("expected host, a file of the code folder", refused("--environment=what is this", "--no-code"))
        self.assertIn("leave one out", refused("--environment=uv.lock", "--env=host"))
        self.assertIn("installs a folder in place", self.editable().stdout)

    def editable(self):
        (self.work / ".voladorignore").unlink()
        (self.work / "requirements.txt").write_text("-e .\n")
        done = self.follow("--environment=requirements.txt", "--", "true")
        self.assertEqual(done.returncode, 125)
        return done

    def test_a_name_that_the_settings_lack_and_a_missing_folder_are_named(self):
        done = self.follow("--no-code", "--env=cuda12", "--", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cuda12", done.stdout + done.stderr)
        done = self.follow("--no-code", "--environment=/not/there", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stdout, "environment /not/there: node (east|west) has no such folder; create it there")
        plain = self.cluster.home.path / "plain"
        plain.mkdir(exist_ok=True)
        done = self.follow("--no-code", f"--environment={plain}", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("neither a virtual environment", done.stdout)

    def test_a_killed_build_leaves_nothing_that_is_taken_as_complete(self):
        source = self.work / "slow"
        source.mkdir()
        mark = self.cluster.home.path / "started"
        go_on = self.cluster.home.path / "go-on"
        # Its build waits until a file is there.
        (source / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
                                               '[project]\nname = "vd_slow"\nversion = "1.0"\n')
        (source / "backend.py").write_text(
            "import pathlib, shutil, time\n"
            "def build_wheel(folder, *_):\n"
            f"    pathlib.Path({str(mark)!r}).touch()\n"
            f"    while not pathlib.Path({str(go_on)!r}).exists():\n        time.sleep(0.05)\n"
            "    name = 'vd_slow-1.0-py3-none-any.whl'\n"
            "    shutil.copy(pathlib.Path(__file__).parent / name, pathlib.Path(folder) / name)\n    return name\n")
        make_wheel(source, "vd_slow", "1.0", "slowly")
        (self.work / "requirements.txt").write_text("--no-index\n./slow\n")
        before = self.complete()
        arguments = ("--environment=requirements.txt", "--", "python3", "-c", "import vd_slow; print(vd_slow.WORD)")
        job = self.cluster.submit(*arguments)
        wait_until("the build runs", mark.exists)
        self.cluster.must("job", "stop", job, "--now")
        self.cluster.wait_state(job, "stopped")
        self.assertEqual(self.complete(), before)
        self.assertEqual(len(list(self.store.glob("*/*/env"))) - len(before), 1)  # What the killed build has left.
        # Stopped gracefully: the build ends at once and says nothing of an error.
        mark.unlink()
        job = self.cluster.submit(*arguments)
        wait_until("the build runs", mark.exists)
        self.cluster.must("job", "stop", job)
        self.cluster.wait_state(job, "stopped")
        self.assertNotIn("cannot be built", self.cluster.must("job", "logs", job))
        go_on.touch()
        done = self.follow(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("slowly\n", done.stdout)
        self.assertEqual(len(self.complete()) - len(before), 1)
        self.assertEqual(len(list(self.store.glob("*/*/env"))) - len(before), 1)

    def test_a_pyproject_brings_its_dependencies(self):
        make_wheel(self.work / "wheels", "vd_project", "1.0", "of the project")
        (self.work / "pyproject.toml").write_text('[project]\nname = "app"\nversion = "0"\nrequires-python = ">=3.8"\ndependencies = ["vd_project"]\n')
        where = self.work / "wheels"
        done = self.follow("--environment=pyproject.toml", "--env=PIP_NO_INDEX=1", f"--env=PIP_FIND_LINKS={where}", "--env=UV_NO_INDEX=1",
                           f"--env=UV_FIND_LINKS={where}", "--", "python3", "-c", "import vd_project; print(vd_project.WORD)")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("of the project\n", done.stdout)

    def test_a_lock_of_uv_is_followed(self):
        make_wheel(self.work / "wheels", "vd_locked", "1.0", "of the lock")
        (self.work / "pyproject.toml").write_text(
            '[project]\nname = "app"\nversion = "0"\nrequires-python = ">=3.8"\ndependencies = ["vd_locked"]\n'
            '[tool.uv]\nno-index = true\nfind-links = ["wheels"]\n')
        if not has_uv():
            (self.work / "uv.lock").write_text("version = 1\n")
            done = self.follow("--environment=uv.lock", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn("only uv reads it", done.stdout)
            self.skipTest("needs uv")
        command = [shutil.which("uv")] if shutil.which("uv") else [sys.executable, "-m", "uv"]
        self.cluster.home.run(*command, "lock", "--offline", cwd=self.work)
        self.assertTrue((self.work / "uv.lock").exists())
        done = self.follow("--environment=uv.lock", "--", "python3", "-c", "import vd_locked; print(vd_locked.WORD)")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("of the lock\n", done.stdout)

    def test_without_conda_an_environment_file_is_refused_by_the_node(self):
        if any(shutil.which(name) for name in ("micromamba", "mamba", "conda")):
            self.skipTest("needs a node without conda")
        (self.work / "environment.yml").write_text("dependencies: [zlib]\n")
        done = self.follow("--environment=environment.yml", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stdout, "node (east|west) has no conda, mamba or micromamba in its PATH; install micromamba there")

    def test_a_virtual_environment_of_the_node_is_used(self):
        prefix = self.cluster.home.path / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
        script = "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], os.environ['PATH'].split(':')[0])"
        expected = f"{prefix} {prefix} {prefix}/bin\n"
        for flags in ((), ("--isolated",)) if shutil.which("bwrap") else ((),):
            done = self.follow("--no-code", f"--environment={prefix}", *flags, "--", "python3", "-c", script)
            self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        conda = self.cluster.home.path / "conda"
        (conda / "conda-meta").mkdir(parents=True)
        (conda / "bin").mkdir()
        (conda / "bin/which-one").write_text("#!/bin/sh\necho $CONDA_PREFIX\n")
        (conda / "bin/which-one").chmod(0o755)
        done = self.follow("--no-code", f"--environment={conda}", "--", "which-one")
        self.assertEqual((done.returncode, done.stdout), (0, f"{conda}\n"), done.stderr)

    @unittest.skipUnless(shutil.which("bwrap"), "needs bubblewrap")
    def test_an_isolated_job_reads_its_environment_and_cannot_change_it(self):
        self.requirements("vd_inside")
        script = ("import os, pathlib, vd_inside; print(vd_inside.WORD); home = pathlib.Path(os.environ['VOLADOR_HOME'])\n"
                  "try:\n    (pathlib.Path(os.environ['VIRTUAL_ENV']) / 'x').touch()\nexcept OSError as error:\n    print(error.strerror)\n"
                  "print(len(list(home.glob('clusters/*/access.json'))), len(list(home.glob('cache/environments/*'))))")
        done = self.follow("--isolated", "--environment=requirements.txt", "--", "python3", "-c", script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("volador:")]
        self.assertEqual(lines, ["from a wheel", "Read-only file system", "0 1"])

    @unittest.skipUnless(shutil.which("bwrap"), "needs bubblewrap")
    def test_a_root_file_system_of_the_node_is_all_that_the_job_sees(self):
        root = self.cluster.home.path / "root"
        make_root(root)
        (self.work / "given").write_text("code\n")
        data = self.cluster.home.path / "data"
        data.mkdir()
        script = ("cat /etc/release given; echo $HOME/ $PWD; touch here $HOME/here /tmp/here /data/here && echo written; touch /etc/x || echo read-only; "
                  "ls -d /usr/share /root /srv 2>/dev/null || echo nothing else; cat /etc/hosts >/dev/null && echo names; echo [$PYTHONPATH]; exit 4")
        done = self.follow(f"--environment={root}", f"--mount={data}:/data", "--env=PYTHONPATH=own", "--setup=cat given", "--", "bash", "-c", script)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("touch:")]
        self.assertEqual(lines[:3], ["code", "the root of the test", "code"])
        self.assertRegex(lines[3], r"^/.*/clusters/heron/.*/home/ /.*/code$")
        self.assertEqual(lines[4:], ["written", "read-only", "nothing else", "names", "[own]"])
        self.assertEqual([path.name for path in data.iterdir()], ["here"])
        self.assertFalse((root / "data").exists())
        missing = self.follow(f"--environment={root}", "--", "python3", "-c", "1")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("python3", missing.stdout)

    @unittest.skipUnless(all(map(shutil.which, ("bwrap", "skopeo", "umoci"))), "needs bubblewrap, skopeo and umoci")
    def test_an_image_is_unpacked_once_and_brings_its_variables(self):
        folder = self.cluster.home.path / "image"
        make_root(folder / "root")
        for command in (["tar", "-C", "root", "-cf", "root.tar", "."], ["umoci", "init", "--layout", "layout"], ["umoci", "new", "--image", "layout:one"],
                        ["umoci", "raw", "add-layer", "--image", "layout:one", "root.tar"],
                        ["umoci", "config", "--image", "layout:one", "--config.env", "FROM_IMAGE=yes"],
                        ["skopeo", "copy", "oci:layout:one", "docker-archive:docker.tar:one"], ["skopeo", "copy", "oci:layout:one", "oci-archive:oci.tar"]):
            done = self.cluster.home.run(*command, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        script = "cat /etc/release; echo $FROM_IMAGE; touch /x || echo read-only"
        for name, unpacks in ((folder / "docker.tar", True), (folder / "docker.tar", False), (f"oci:{folder / 'layout'}:one", True), (folder / "oci.tar", False)):
            done = self.follow("--no-code", f"--environment={name}", "--", "bash", "-c", script)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("the root of the test\nyes\n", done.stdout)
            self.assertIn("read-only", done.stdout)
            self.assertEqual("building environment" in done.stdout, unpacks, done.stdout)
        self.assertEqual(len(list(self.store.glob("*/*/env/rootfs"))), 2)  # The archive of Docker has a manifest, and so a digest, of its own.
        for name, words in ((folder / "missing.tar", "has no such file"), ("docker://localhost:1/no:tag", "cannot read the image: skopeo ended with exit code")):
            done = self.follow("--no-code", f"--environment={name}", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(words, done.stdout)

    @unittest.skipUnless(all(map(shutil.which, ("bwrap", "skopeo", "umoci", "docker-registry", "htpasswd"))),
                         "needs bubblewrap, skopeo, umoci, docker-registry and htpasswd")
    def test_an_image_of_a_registry_needs_the_credentials_of_the_nodes(self):
        home = self.cluster.home
        folder = home.path / "registry"
        make_root(folder / "root")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        (folder / "config.yml").write_text(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\nhttp: {{addr: '{address}'}}\n"
                                           f"auth: {{htpasswd: {{realm: test, path: {folder / 'users'}}}}}\n")
        users = home.run("htpasswd", "-Bbn", "heron", "pass word")
        (folder / "users").write_text(users.stdout)
        settings = home.path / ".config/containers/registries.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
        login = base64.b64encode(b"heron:pass word").decode()
        access = json.dumps({"auths": {address: {"auth": login}}})
        (folder / "access.json").write_text(access)
        home.start("docker-registry", "serve", folder / "config.yml", output=folder / "log")
        wait_until("the registry answers", lambda: "listening on" in (folder / "log").read_text())
        for command in (["tar", "-C", "root", "-cf", "root.tar", "."], ["umoci", "init", "--layout", "layout"], ["umoci", "new", "--image", "layout:one"],
                        ["umoci", "raw", "add-layer", "--image", "layout:one", "root.tar"],
                        ["skopeo", "copy", "--authfile", "access.json", "oci:layout:one", f"docker://{address}/team/one:1"]):
            done = home.run(*command, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        arguments = ("--no-code", f"--environment=docker://{address}/team/one:1", "--", "cat", "/etc/release")
        refused = self.follow(*arguments)
        self.assertEqual(refused.returncode, 125, refused.stdout)
        self.assertRegex(refused.stdout, "cannot read the image: .*(unauthorized|authentication required).*put the credentials of the registry into")
        (home.path / ".docker").mkdir()
        (home.path / ".docker/config.json").write_text(access)
        done = self.follow(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the root of the test\n", done.stdout)

    def test_an_environment_that_is_used_stays_and_an_unused_one_goes(self):
        self.requirements("vd_used")
        used = self.cluster.submit("--environment=requirements.txt", "--", "bash", "-c", "echo up; sleep 1000")
        wait_until("it runs", lambda: "up" in self.cluster.run("job", "logs", used).stdout)
        entries = {path.parent for path in self.complete() if "vd_used" in "".join(map(str, path.parent.rglob("vd_used.py")))}
        self.requirements("vd_unused")
        self.follow("--environment=requirements.txt", "--", "true")
        entries |= {path.parent for path in self.complete() if list(path.parent.rglob("vd_unused.py"))}
        self.assertEqual(len(entries), 2)
        for entry in entries:
            os.utime(entry / "used", (1, 1))
        # A build removes what is unused.
        self.requirements("vd_third")
        self.assertEqual(self.follow("--environment=requirements.txt", "--", "true").returncode, 0)
        left = [entry for entry in entries if entry.exists()]
        self.assertEqual([bool(list(entry.rglob("vd_used.py"))) for entry in left], [True])
        self.cluster.must("job", "stop", "--now", used)
        self.cluster.wait_state(used, "stopped")


if __name__ == "__main__":
    unittest.main()
