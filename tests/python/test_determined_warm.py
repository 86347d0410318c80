"""The warm process of volador.compat.determined._warm, with this test in the place of `volador experiment run-trial`: the same as a new Python."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap

import pytest
import volador

PROGRAM = "from volador.compat.determined._warm import main; main()"
SHIMS = pathlib.Path(volador.__file__).parent / "compat" / "shims"
VARIABLES = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{SHIMS}"}


@pytest.fixture(scope="session", autouse=True)
def cluster():
    """None is needed."""


class Warm:
    def __init__(self, folder: pathlib.Path) -> None:
        self.name = folder / "key"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.name) + ".sock")
        self.listener.listen()
        actions = [(os.POSIX_SPAWN_DUP2, self.listener.fileno(), 3), *((os.POSIX_SPAWN_CLOSE, number) for number in range(4, 256))]
        self.pid = os.posix_spawn(
            sys.executable, ["python3", "-c", PROGRAM, str(os.getpid()), str(self.name)], VARIABLES, file_actions=actions, setpgroup=0
        )
        self.ended = False

    def kill(self) -> None:
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.ended = True


class Trial:
    """A run of words after "python3" in a folder."""

    def __init__(self, warm: Warm, folder: pathlib.Path, words: list[str], variables: dict[str, str]) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(warm.name) + ".sock")
        (self.out, out), (self.err, err) = os.pipe(), os.pipe()
        none = os.open(os.devnull, os.O_RDONLY)
        fields = [str(len(words)), *words, str(folder), "18", *(f"{name}={value}" for name, value in variables.items())]
        text = b"".join(os.fsencode(field) + b"\0" for field in fields)
        text = len(text).to_bytes(8, "little") + text
        sent = socket.send_fds(self.connection, [text], [none, out, err])
        if text[sent:]:
            self.connection.sendall(text[sent:])
        for descriptor in (none, out, err):
            os.close(descriptor)

    def begin(self) -> bool:
        """Whether it starts; False: it needs a new process."""
        answer = self.connection.recv(1)
        if answer == b"R":
            self.connection.sendall(b"\0")
        return answer == b"R"

    def end(self) -> int | None:
        """The exit code; None: nothing of it is left, and there is no code."""
        answer = b""
        while len(answer) < 2 and (piece := self.connection.recv(2)):
            answer += piece
        return answer[1] if answer else None

    def text(self, descriptor: int) -> str:
        with open(descriptor) as file:
            return file.read()


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    made = Warm(tmp_path_factory.mktemp("warm"))
    yield made
    made.kill()


@pytest.fixture
def code(tmp_path):
    def write(**files: str) -> pathlib.Path:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        return tmp_path

    return write


def run(warm: Warm, folder: pathlib.Path, words: list[str], **more: str) -> tuple[int | None, str, str]:
    trial = Trial(warm, folder, words, {**VARIABLES, **more})
    assert trial.begin()
    out, err = trial.text(trial.out), trial.text(trial.err)
    return trial.end(), out, err


def new(folder: pathlib.Path, words: list[str], **more: str) -> tuple[int | None, str, str]:
    done = subprocess.run([sys.executable, *words], cwd=folder, env={**VARIABLES, **more}, capture_output=True, text=True, check=False, start_new_session=True, stdin=subprocess.DEVNULL)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout, done.stderr


ENDS = {
    "return": "print('done')",
    "code": "import sys; sys.exit(3)",
    "none": "import sys; sys.exit()",
    "text": "import sys; sys.exit('no data')",
    "error": "def f():\n    raise ValueError('no data')\nf()",
    "cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise OSError('worse') from error",
    "syntax": "print(",
    "signal": "import os, signal; print('last', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    "interrupt": "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(60)",
    "group": "import os, signal; os.killpg(os.getpgrp(), signal.SIGKILL)",
    "at once": "import os; os._exit(9)",
    "atexit": "import atexit, threading\natexit.register(print, 'exit')\nthreading.Thread(target=lambda: print('thread')).start()",
    "exit of everything": """
        import atexit, threading, sys
        class Ends:
            def __del__(self): print('destroyed', file=sys.__stdout__)
        kept = Ends()
        file = open('left-open', 'w'); file.write('all of it')
        atexit.register(print, 'exit')
    """,
    "a daemon thread": """
        import threading, time
        def work():
            while True: time.sleep(0.001)
        threading.Thread(target=work, daemon=True).start()
    """,
    "a failed exit": "import sys\nclass Bad:\n    def __str__(self): return 'bad'\nsys.exit(Bad())",
    "a large code": "import sys; sys.exit(257)",
    "surroundings": """
        import __main__, inspect, os, pickle, sys
        class Local: pass
        print(sys.argv, __name__, __file__, __spec__, __doc__, __package__, os.getcwd(), sys.path, sys.flags, os.getpid() == os.getpgrp())
        print(sorted(vars(__main__)), __loader__.path, sys.orig_argv[1:], os.umask(0), type(pickle.loads(pickle.dumps(Local()))))
        print({name: value for name, value in os.environ.items() if name != "_"})
        print(sys.stdout.line_buffering, sys.stdout.write_through, sys.stderr.errors, sys.stdin.read(), sys.executable, sys.gettrace())
        print([os.readlink(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd') if int(name) > 3])
    """,
    "numbers": """
        import random, numpy
        random.seed(7); numpy.random.seed(7)
        print(random.random(), numpy.random.rand(3), numpy.random.default_rng(3).normal(size=3), numpy.dot(numpy.arange(90000.).reshape(300, 300), numpy.ones(300)).sum())
    """,
    "processes": """
        import multiprocessing
        def double(x): return 2 * x
        if __name__ == '__main__':
            for method in ('fork', 'spawn'):
                with multiprocessing.get_context(method).Pool(2) as pool: print(pool.map(double, [1, 2, 3]))
    """,
}


@pytest.mark.parametrize("name", ENDS)
def test_a_script_does_what_it_does_in_a_new_process(warm, code, name):
    folder = code(train=ENDS[name])
    words = ["train.py", "--fast", "é x"]
    warm_run, new_run = run(warm, folder, words, OWN="1"), new(folder, words, OWN="1")
    if (left := folder / "left-open").exists():
        assert left.read_text() == "all of it"
    for mine, theirs in zip(warm_run, new_run, strict=True):
        for line, wanted in zip(str(mine).split("\n"), str(theirs).split("\n"), strict=True):
            assert line == wanted


def test_a_script_that_is_missing_or_in_another_folder(warm, code):
    folder = code()
    assert run(warm, folder, ["none.py"]) == new(folder, ["none.py"])
    (folder / "deep").mkdir()
    (folder / "deep" / "other.py").write_text("VALUE = 3")
    (folder / "deep" / "train.py").write_text("import other, sys; print(other.VALUE, sys.path[0], __file__)")
    (folder / "link.py").symlink_to("deep/train.py")
    for word in ("deep/train.py", "link.py", str(folder / "deep" / "train.py")):
        assert run(warm, folder, [word]) == new(folder, [word])


def test_a_module_runs_as_a_main_module(warm, code):
    """That there is no trial is seen by it, not by the warm process."""
    folder = code()
    words = ["-m", "volador.determined", "--trial"]
    assert run(warm, folder, words) == new(folder, words)


def test_trials_have_nothing_in_common(warm, code):
    folder = code(
        other="TIMES = []",
        train="""
            import os, random, sys, numpy, other, volador
            other.TIMES.append(1)
            print(len(other.TIMES), os.environ.get('LEFT'), hasattr(sys, 'left'), hasattr(volador, 'left'))
            os.environ['LEFT'] = '1'; sys.left = volador.left = 1
            print(random.random(), numpy.random.rand())
        """,
    )
    first, second = (run(warm, folder, ["train.py"]) for _ in range(2))
    assert first[:1] == second[:1] == (0,)
    assert first[1].splitlines()[0] == second[1].splitlines()[0] == "1 None False False"
    assert len({*first[1].splitlines()[1].split(), *second[1].splitlines()[1].split()}) == 4


def test_what_trials_import_is_imported_for_the_next_ones(tmp_path, code):
    """A name that no import statement has."""
    warm = Warm(tmp_path)
    folder = code(train="import importlib, sys\nprint('calendar' in vars(sys)['modules'])\nimportlib.import_module('calendar')")
    found = [run(warm, folder, ["train.py"])[1] for _ in range(2)]
    warm.kill()
    assert found == ["False\n", "True\n"]


@pytest.mark.parametrize(
    "files",
    [
        {"train": "", "json": ""},
        {"train": "", "determined": ""},
        {"train": "import os; os.environ['OMP_NUM_THREADS'] = '1'; import numpy"},
        {"train": "import sys; sys.modules.clear()"},
    ],
)
def test_code_that_would_notice_needs_a_new_process(warm, code, files):
    assert not Trial(warm, code(**files), ["train.py"], VARIABLES).begin()


LONG = """
    import os, subprocess, sys, time
    sleeper = subprocess.Popen(['sleep', '600'], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        print(pid, flush=True)
        os._exit(0)
    os.wait()
    print(sleeper.pid, os.getpid(), 'begun', flush=True)
    if sys.argv[1:] == ['wait']: time.sleep(600)
"""


def begun(trial: Trial) -> list[int]:
    """Handles of the processes that it has started."""
    assert trial.begin()
    text = ""
    while "begun\n" not in text:
        piece = os.read(trial.out, 1000).decode()
        assert piece, trial.text(trial.err)
        text += piece
    return [int(word) for word in text.split() if word.isdigit()]


def is_gone(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(handle), open(os.dup(handle)):
        import select

        return bool(select.select([handle], [], [], 20)[0])


def test_a_trial_leaves_nothing(warm, code):
    trial = Trial(warm, code(train=LONG), ["train.py"], VARIABLES)
    pids = begun(trial)
    assert trial.end() == 0
    assert [is_gone(pid) for pid in pids] == [True, True, True]


def test_a_trial_ends_with_its_job(warm, code):
    trial = Trial(warm, code(train=LONG), ["train.py", "wait"], VARIABLES)
    pids = begun(trial)
    trial.connection.close()
    assert [is_gone(pid) for pid in pids] == [True, True, True]


def test_a_trial_ends_with_the_warm_process(tmp_path, code):
    warm = Warm(tmp_path)
    trial = Trial(warm, code(train=LONG), ["train.py", "wait"], VARIABLES)
    pids = begun(trial)
    warm.kill()
    assert trial.end() is None
    assert is_gone(pids[-1])
    for pid in pids[:-1]:  # The worker ends them.
        os.kill(pid, signal.SIGKILL)


def test_signals_reach_the_trial(warm, code):
    folder = code(
        train="""
            import signal, sys
            def on(number, frame):
                print('saved', number); sys.exit(5)
            signal.signal(signal.SIGTERM, on)
            print('begun', flush=True)
            signal.pause()
        """
    )
    trial = Trial(warm, folder, ["train.py"], VARIABLES)
    begun(trial)
    trial.connection.send(bytes([signal.SIGTERM]))
    assert (trial.end(), trial.text(trial.out)) == (5, f"saved {signal.SIGTERM:d}\n")
    second = Trial(warm, folder, ["train.py"], VARIABLES)
    begun(second)
    second.connection.send(bytes([signal.SIGUSR1]))
    assert second.end() == 128 + signal.SIGUSR1


def test_a_request_that_is_cut_off_changes_nothing(warm, code):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(warm.name) + ".sock")
    connection.sendall(b"\xff" * 20)
    connection.close()
    assert run(warm, code(train="print(1)"), ["train.py"])[:2] == (0, "1\n")
