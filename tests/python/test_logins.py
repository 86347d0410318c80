"""Programs use the sign-in of `volador login` as the command line does."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

VOLADOR = pathlib.Path(os.environ["VOLADOR_BIN"]) / "volador"
NAMES = ("VOLADOR_ADDRESS", "VOLADOR_TOKEN", "VOLADOR_CLUSTER")


class Machine:
    """The head's user, and people whose homes know the cluster only by their sign-ins."""

    def __init__(self, home):
        self.home = home
        self.run("start", "--head", "--cluster=heron", "--port=0", "--num-cpus=2", "--no-dashboard")
        access = json.loads((home / "head/clusters/heron/access.json").read_text())
        self.address, self.fingerprint, self.token = access["address"], access["fingerprint"], access["token"]

    def environment(self, user, more):
        own = {name: value for name, value in os.environ.items() if name not in NAMES}
        return {**own, "HOME": str(self.home), "VOLADOR_HOME": str(self.home / user), **more}

    def run(self, *arguments, user="head", **more):
        return subprocess.run(
            [VOLADOR, *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.environment(user, more)
        ).stdout

    def sign_in(self, user, role):
        password = self.home / "password"
        password.write_text("correct horse battery\n")
        self.run("user", "add", user, f"--role={role}", "--password-file", password)
        self.run("login", f"--user={user}", f"--address={self.address}", f"--fingerprint={self.fingerprint}", "--password-file", password, user=user)

    def program(self, text, user, **more):
        """Runs a program of the user, and returns its exit code and its output."""
        file = self.home / "program.py"
        file.write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, file], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.environment(user, more)
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory):  # Replaces the private cluster of the other tests.
    machine = Machine(tmp_path_factory.mktemp("machine"))
    yield machine
    machine.run("stop")


DRIVER = """
    import volador
    from volador import jobs

    @volador.task(num_cpus=1)
    def double(x: int) -> int:
        return 2 * x

    with volador.init() as context:
        print(context.cluster, context.address, context.is_private, double.remote(21).result())
        job = jobs.submit("true", code=None).wait(60)
        print(job.state, job._row["user"])
"""


def test_a_program_uses_the_sign_in_without_a_token(cluster):
    cluster.sign_in("mei", "user")
    code, output = cluster.program(DRIVER, "mei")
    assert code == 0, output
    assert output.splitlines() == [f"heron {cluster.address} False 42", "succeeded mei"]
    code, output = cluster.program(DRIVER, "mei", VOLADOR_ADDRESS=cluster.address)
    assert (code, output.splitlines()[-1]) == (0, "succeeded mei"), output
    code, output = cluster.program(DRIVER, "mei", VOLADOR_TOKEN=cluster.token)
    assert (code, output.splitlines()[-1]) == (0, "succeeded "), "a token comes first: " + output


def test_a_refusal_names_the_sign_in(cluster):
    cluster.sign_in("kim", "user")
    cluster.run("user", "set", "kim", "--disable")
    named = f"the token is from the sign-in of kim at {cluster.address}: sign in again with `volador login --user=kim`"
    code, output = cluster.program("import volador; volador.init()", "kim")
    assert code == 1 and "UnauthenticatedError" in output and named in output, output
    code, output = cluster.program("from volador import jobs; jobs.list_jobs()", "kim")
    assert code == 1 and "UnauthenticatedError" in output and named in output, output
    code, output = cluster.program("import volador; volador.init()", "kim", VOLADOR_TOKEN=cluster.token)
    assert code == 0, output
    code, output = cluster.program("import volador; volador.init()", "new", VOLADOR_ADDRESS=cluster.address)
    assert code == 1 and f"no token for the cluster at {cluster.address}: sign in with `volador login`" in output, output
