"""Python frames in `volador stack`."""

import asyncio
import ctypes
import inspect
import json
import os
import pathlib
import subprocess
import threading
import time

import pytest

import volador
from volador import _core

VOLADOR = pathlib.Path(os.environ["VOLADOR_BIN"]) / "volador"


def run(*arguments):
    return subprocess.run([VOLADOR, *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory):  # Replaces the private cluster of the other tests: `volador stack` must find this one.
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


def threads_until(actor, condition):
    """The threads of the actor, once the condition holds for them."""
    until = time.monotonic() + 60
    while True:
        asked = subprocess.run([VOLADOR, "stack", actor, "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        threads = json.loads(asked.stdout)["threads"] if asked.returncode == 0 else []
        if threads and condition(threads):
            return threads
        assert time.monotonic() < until, asked


def python_frames(thread):
    return [frame for frame in thread["frames"] if frame.startswith("py ")]


def place(function, text):
    """file:line of the line of a function that contains the text."""
    lines, first = inspect.getsourcelines(function)
    return f"{inspect.getsourcefile(function)}:{first + next(i for i, line in enumerate(lines) if text in line)}"


class Patient(volador.Actor):
    def compute(self):
        while True:
            pass

    def wait(self):
        event = threading.Event()

        def other():
            event.wait()

        threading.Thread(target=other, daemon=True).start()
        event.wait()

    def holds_the_lock(self, fifo):
        file = os.open(fifo, os.O_RDWR)
        ctypes.PyDLL(None).read(file, ctypes.create_string_buffer(1), 1)  # Keeps the interpreter lock.
        return "went on"

    def add(self, a, b):
        return a + b


def test_a_thread_that_computes_shows_its_python_frames_above_the_native_ones():
    actor = Patient.options(name="computes").remote()
    call = actor.compute.remote()
    threads = threads_until("computes", lambda threads: threads[0].get("runs") == "Patient.compute" and python_frames(threads[0]))
    frames = threads[0]["frames"]
    assert frames[0].startswith(f"py Patient.compute at {__file__}:") or frames[0].startswith(f"py compute at {__file__}:"), frames
    assert len(python_frames(threads[0])) == 1  # Nothing of the package.
    assert any("python" in frame and not frame.startswith("py ") for frame in frames), frames
    assert not any(python_frames(thread) for thread in threads[1:])
    assert f"  {frames[0].rsplit(':', 1)[0]}:" in run("stack", "computes")
    volador.kill(actor)
    with pytest.raises(volador.exceptions.ActorDiedError):
        call.result()


def test_threads_that_wait_are_all_shown():
    actor = Patient.options(name="waits").remote()
    actor.wait.remote()
    where = place(Patient.wait, "            event.wait()"), place(Patient.wait, "        event.wait()  ".rstrip())
    threads = threads_until("waits", lambda threads: sum("other at " in "".join(python_frames(thread)) for thread in threads) == 1)
    assert any(frame.endswith(where[0]) for thread in threads[1:] for frame in python_frames(thread))
    first = python_frames(threads[0])
    assert first[-1].startswith("py ") and "wait at " in first[-1] and __file__ in first[-1], first
    volador.kill(actor)


def test_frames_are_read_while_a_native_call_holds_the_interpreter_lock(tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    actor = Patient.options(name="holds").remote()
    call = actor.holds_the_lock.remote(fifo)
    threads = threads_until("holds", lambda threads: threads[0].get("runs") == "Patient.holds_the_lock" and "held Python's interpreter lock" in threads[0].get("note", ""))
    assert python_frames(threads[0]) == [f"py holds_the_lock at {place(Patient.holds_the_lock, 'PyDLL')}"]
    # Asked again while the first question still waits for the lock.
    assert "py holds_the_lock at" in run("stack", "holds")
    with open(fifo, "w") as file:
        file.write("x")
    assert call.result() == "went on"
    assert actor.add.remote(1, 2).result() == 3
    assert "note" not in threads_until("holds", lambda threads: True)[0] or "interpreter lock" not in run("stack", "holds")
    volador.kill(actor)


def test_coroutines_that_wait_are_shown_with_their_event_loop():
    class Crawler(volador.Actor):
        async def fetch(self, page):
            await self.inner()

        async def inner(self):
            await asyncio.Event().wait()

    actor = Crawler.options(name="crawls").remote()
    for page in range(3):
        actor.fetch.remote(page)

    def waiting(threads):
        return [frame for thread in threads for frame in python_frames(thread) if "Crawler.fetch waits: " in frame]

    frames = waiting(threads_until("crawls", lambda threads: len(waiting(threads)) == 9))
    assert [frame.split(" at ")[0].rsplit(".", 1)[-1].rsplit(" ", 1)[-1] for frame in frames[:3]] == ["wait", "inner", "fetch"]
    volador.kill(actor)


def test_the_text_of_faulthandler_is_read_and_other_lines_are_left_out():
    text = """Thread 0x00007f10 (most recent call first):
  File "/a/train.py", line 7 in epoch
  File "/a/with ", line 3 in it.py", line 12 in <module>

Current thread 0x00007f11 [name] (most recent call first):
  Garbage-collecting
  <no Python frame>
Thread 0x (most recent call first):
  File "/a/lost.py", line 1 in lost
  File "cut
Thread 0x00007f12 (most recent call first):
  File "/b.py", line ??? in later
..."""
    assert _core.frames_of_dump(text) == {
        0x7F10: ["py epoch at /a/train.py:7", 'py <module> at /a/with ", line 3 in it.py:12'],
        0x7F11: [],
        0x7F12: ["py later at /b.py:???"],
    }
    assert _core.frames_of_dump("") == {}
