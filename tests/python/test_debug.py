"""`volador debug`: terminals at breakpoints of actors and tasks, and after exceptions."""

import bdb
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time

import pytest

import volador
from volador import exceptions

VOLADOR = pathlib.Path(os.environ["VOLADOR_BIN"]) / "volador"
PATIENCE = 60


def run(*arguments):
    return subprocess.run([VOLADOR, *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory):  # Replaces the private cluster of the other tests: `volador debug` must find this one.
    home = tmp_path_factory.mktemp("home")
    saved = {name: os.environ.get(name) for name in ("VOLADOR_HOME", "HOME")}
    os.environ.update(VOLADOR_HOME=str(home / "volador"), HOME=str(home))
    run("start", "--head", "--port=0", "--num-cpus=4", "--no-dashboard")
    with volador.init():
        yield
    run("stop")
    for name, value in saved.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


class Session:
    """`volador debug` in a terminal of its own."""

    def __init__(self, actor, prompt="(Pdb) "):
        self.text = ""
        until = time.monotonic() + PATIENCE
        while True:  # Until the call has come to its breakpoint.
            self.master, slave = pty.openpty()
            self.process = subprocess.Popen([VOLADOR, "debug", actor], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
            os.close(slave)
            if self._read_until("(Pdb) ", prompt):
                if prompt in self.text:
                    return
                assert time.monotonic() < until, self.text
                self.detach()  # There are no two threads yet.
                self.text = ""
                continue
            assert "waits in no debugger" in self.text or "no process" in self.text or "no actor" in self.text, self.text
            assert time.monotonic() < until, self.text
            self.close()
            self.text = ""

    def _read_until(self, *texts):
        """False: the terminal was closed before one of the texts came."""
        until = time.monotonic() + PATIENCE
        while not any(text in self.text for text in texts):
            assert time.monotonic() < until, self.text
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                some = os.read(self.master, 65536)
            except OSError:
                some = b""
            if not some:
                return False
            self.text += some.decode()
        return True

    def ask(self, line, answer):
        """The output from the line on, until the answer."""
        self.text = ""
        os.write(self.master, line.encode() + b"\n")
        assert self._read_until(answer), self.text
        return self.text

    def detach(self):
        self.text = ""
        os.write(self.master, b"\x04")
        assert self._read_until("detached"), self.text
        self.wait()

    def wait(self):
        assert self.process.wait(PATIENCE) == 0, self.text
        self.close()

    def close(self):
        os.close(self.master)
        self.process.wait(PATIENCE)


class Trainer(volador.Actor):
    def epoch(self, value):
        doubled = 2 * value
        breakpoint()  # noqa: T100
        return doubled + 1

    def steps(self):
        breakpoint()  # noqa: T100
        first = 1
        second = 2
        return first + second

    def fail(self):
        secret = "forty-two"  # noqa: F841
        raise LookupError("not here")

    def add(self, a, b):
        return a + b


def test_a_call_waits_at_its_breakpoint_until_it_is_continued(capfd):
    actor = Trainer.options(name="epoch").remote()
    call = actor.epoch.remote(20)
    session = Session("epoch")
    assert "-> return doubled + 1" in session.text
    assert "40" in session.ask("p doubled", "(Pdb) ")
    session.ask("doubled = 1", "(Pdb) ")
    session.ask("c", "the call goes on")
    session.wait()
    assert call.result(PATIENCE) == 2
    assert actor.add.remote(1, 2).result(PATIENCE) == 3
    volador.kill(actor)


def test_the_wait_is_announced_listed_and_explained():
    actor = Trainer.options(name="shown").remote()
    call = actor.epoch.remote(1)
    session = Session("shown")
    session.detach()
    until = time.monotonic() + PATIENCE
    while not (rows := [row for row in json.loads(run("debug", "--json"))["waiting"] if row["name"].startswith("shown")]):
        assert time.monotonic() < until
    assert rows[0]["place"].split("/")[-1].startswith("test_debug.py:")
    assert rows[0]["id"][:8] in run("debug")
    assert "waits in a debugger at" in run("explain", "shown")
    log = run("logs", "shown")
    assert "actor shown (" in log and "test_debug.py:" in log and "attach with `volador debug shown`" in log, log
    session = Session(rows[0]["id"][:8])
    assert "-> return doubled + 1" in session.text  # What was shown before.
    session.ask("c", "the call goes on")
    session.wait()
    assert call.result(PATIENCE) == 3
    volador.kill(actor)


def test_quit_ends_the_call_and_not_the_actor():
    actor = Trainer.options(name="quits").remote()
    call = actor.epoch.remote(1)
    session = Session("quits")
    session.ask("q", "BdbQuit")
    session.wait()
    with pytest.raises(bdb.BdbQuit):
        call.result(PATIENCE)
    assert actor.add.remote(1, 2).result(PATIENCE) == 3
    volador.kill(actor)


def test_steps_and_breakpoints_stay_in_one_session_which_ends_with_the_call():
    actor = Trainer.options(name="steps").remote()
    call = actor.steps.remote()
    session = Session("steps")
    assert "second = 2" in session.ask("n", "(Pdb) ")
    assert "return first + second" in session.ask("n", "(Pdb) ")
    session.ask("n", "(Pdb) ")
    session.ask("n", "the call has ended")
    session.wait()
    assert call.result(PATIENCE) == 3
    volador.kill(actor)


def test_a_second_session_takes_the_place_of_the_first():
    actor = Trainer.options(name="twice").remote()
    call = actor.epoch.remote(1)
    first = Session("twice")
    second = Session("twice")
    assert first._read_until("another `volador debug` has taken its place")
    first.wait()
    second.ask("c", "the call goes on")
    second.wait()
    assert call.result(PATIENCE) == 3
    volador.kill(actor)


def test_a_closed_terminal_leaves_the_call_waiting():
    actor = Trainer.options(name="closed").remote()
    call = actor.epoch.remote(1)
    session = Session("closed")
    session.process.kill()
    session.close()
    session = Session("closed")
    session.ask("c", "the call goes on")
    session.wait()
    assert call.result(PATIENCE) == 3
    volador.kill(actor)


def test_of_several_threads_one_is_chosen():
    actor = Trainer.options(name="both", max_concurrency=2).remote()
    calls = {"epoch": actor.epoch.remote(4), "steps": actor.steps.remote()}
    session = Session("both", prompt="attach to (1 to 2, or a thread): ")
    assert "2 threads wait:" in session.text
    threads = re.findall(r"^  ([12])  thread (\d+)  (.*test_debug\.py:\d+)\r$", session.text, re.MULTILINE)
    assert [number for number, _, _ in threads] == ["1", "2"] and threads[0][1] != threads[1][1] and threads[0][2] != threads[1][2]
    session.ask("7", "expected a number of 1 to 2, or a thread of the list, got '7'")
    os.write(session.master, b"\x04")
    assert session._read_until("none is chosen")
    session.wait()

    session = Session("both", prompt="attach to (1 to 2, or a thread): ")
    chosen = "epoch" if "in epoch" in session.ask("2", "(Pdb) ") or "epoch()" in session.text else "steps"
    session.ask("c", "the call goes on")
    session.wait()
    assert calls.pop(chosen).result(PATIENCE) == {"epoch": 9, "steps": 3}[chosen]

    session = Session("both")  # One is left.
    session.ask("c", "the call goes on")
    session.wait()
    ((rest, call),) = calls.items()
    assert call.result(PATIENCE) == {"epoch": 9, "steps": 3}[rest]
    volador.kill(actor)


def test_a_killed_actor_and_a_cancelled_call_do_not_wait_on():
    actor = Trainer.options(name="killed").remote()
    call = actor.epoch.remote(1)
    session = Session("killed")
    volador.kill(actor)
    with pytest.raises(exceptions.ActorDiedError):
        call.result(PATIENCE)
    session.close()
    actor = Trainer.options(name="cancelled").remote()
    call = actor.epoch.remote(1)
    Session("cancelled").detach()
    volador.cancel(call)
    assert actor.add.remote(1, 2).result(PATIENCE) == 3
    volador.kill(actor)


def test_a_coroutine_waits_too():
    class Crawler(volador.Actor):
        async def fetch(self, page):
            breakpoint()  # noqa: T100
            return page + 1

    actor = Crawler.options(name="coroutine").remote()
    call = actor.fetch.remote(1)
    session = Session("coroutine")
    session.ask("page = 5", "(Pdb) ")
    session.ask("c", "the call goes on")
    session.wait()
    assert call.result(PATIENCE) == 6
    volador.kill(actor)


def test_an_exception_waits_if_the_program_asks_for_it():
    actor = Trainer.options(name="fails", env={"VOLADOR_POST_MORTEM": "1"}).remote()
    call = actor.fail.remote()
    session = Session("fails")
    assert "LookupError: not here" in session.text
    assert "forty-two" in session.ask("p secret", "(Pdb) ")
    session.ask("q", "BdbQuit")
    session.wait()
    with pytest.raises(LookupError, match="not here"):
        call.result(PATIENCE)
    volador.kill(actor)
    plain = Trainer.remote()
    with pytest.raises(LookupError):
        plain.fail.remote().result(PATIENCE)


def test_a_task_waits_at_its_breakpoint():
    @volador.task(max_retries=0)
    def square(x):
        breakpoint()  # noqa: T100
        return x * x

    call = square.remote(3)
    until = time.monotonic() + PATIENCE
    while not (rows := [row for row in json.loads(run("debug", "--json"))["waiting"] if "test_debug.py" in row["place"]]):
        assert time.monotonic() < until
    session = Session(rows[0]["id"][:8])
    session.ask("x = 5", "(Pdb) ")
    session.ask("c", "the call goes on")
    session.wait()
    assert call.result(PATIENCE) == 25


def test_only_the_owner_and_operators_attach(tmp_path):
    actor = Trainer.options(name="owned").remote()
    call = actor.epoch.remote(1)
    Session("owned").detach()
    token = run("token", "create", "--role=driver").strip().splitlines()[-1]
    file = tmp_path / "token"
    file.write_text(token)
    master, slave = pty.openpty()
    done = subprocess.run([VOLADOR, "debug", "owned", "--token-file", file], stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True)
    os.close(master)
    os.close(slave)
    assert done.returncode != 0 and "belongs to token" in done.stderr, done.stderr
    session = Session("owned")  # This machine's token is an operator's.
    session.ask("c", "the call goes on")
    session.wait()
    assert call.result(PATIENCE) == 3
    assert "actor:owned" in run("list", "audit")
    volador.kill(actor)


def test_what_does_not_wait_is_refused_with_the_next_step():
    actor = Trainer.options(name="busy").remote()
    assert actor.add.remote(1, 2).result(PATIENCE) == 3
    master, slave = pty.openpty()
    done = subprocess.run([VOLADOR, "debug", "busy"], stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True)
    os.close(master)
    os.close(slave)
    assert done.returncode != 0 and "waits in no debugger now" in done.stderr, done.stderr
    done = subprocess.run([VOLADOR, "debug", "busy"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "needs a terminal" in done.stderr
    volador.kill(actor)
