import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import volador


def run(script, **options):
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=60, **options)


def test_init_twice_is_refused_and_can_be_ignored(cluster):
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        volador.init()
    assert volador.init(ignore_reinit_error=True) is cluster
    assert volador.is_initialized()
    assert cluster.is_private
    assert "Private cluster" in cluster._repr_html_()


def test_resources_of_the_cluster():
    assert volador.cluster_resources()["cpus"] == 4
    assert volador.cluster_resources()["gpus"] == 2
    assert volador.available_resources()["cpus"] <= 4


def test_a_program_without_init_gets_a_private_cluster_that_ends_with_it():
    done = run(
        """
        import os, volador
        @volador.task
        def pid(): return os.getpid()
        print(pid.remote().result())
        """
    )
    assert done.returncode == 0, done.stderr
    assert "private one" in done.stderr
    assert not os.path.exists(f"/proc/{done.stdout.strip()}")


def test_no_head_at_the_address_says_what_was_tried():
    done = run("import volador; volador.init('127.0.0.1:1', token='vt1.none')")
    assert done.returncode == 1
    assert "volador.exceptions." in done.stderr


def test_output_of_tasks_arrives_at_the_driver():
    done = run(
        """
        import volador, sys
        volador.init("local")
        @volador.task
        def speak():
            print("from a task"); print("without a line end", end="")
        speak.remote().result()
        import time; time.sleep(0.5)
        """
    )
    assert "from a task" in done.stderr, done.stderr


def test_ctrl_c_ends_a_wait_at_once():
    script = textwrap.dedent(
        """
        import volador, time, sys
        volador.init("local")
        @volador.task
        def sleep(): time.sleep(60)
        future = sleep.remote()
        print("waits", flush=True)
        try:
            future.result()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.2)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert time.monotonic() - begin < 2
    assert process.wait(20) == 0


def test_a_killed_driver_leaves_no_process():
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import os, time, volador
                volador.init("local")
                class A(volador.Actor):
                    def pid(self): return os.getpid()
                a = A.remote()
                print(a.pid.remote().result(), flush=True)
                time.sleep(60)
                """
            ),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_code_of_a_script_and_of_modules_beside_it(tmp_path):
    (tmp_path / "helpers.py").write_text("class Box:\n    def __init__(self, value): self.value = value\n")
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import volador
            from helpers import Box
            LIMIT = 3
            class Point:
                def __init__(self, x): self.x = x
            @volador.task
            def work(box, point): return box.value + point.x + LIMIT
            if __name__ == "__main__":
                with volador.init("local"):
                    print(work.remote(Box(1), Point(2)).result())
            """
        )
    )
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=60)
    assert done.stdout == "6\n", done.stderr


def test_a_forked_child_does_not_touch_the_connection():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if not volador._runtime.shutdown() else 1)
    assert os.waitpid(pid, 0)[1] == 0

    @volador.task
    def one():
        return 1

    assert one.remote().result() == 1
