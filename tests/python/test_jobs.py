"""volador.jobs against a cluster that the command line starts."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from volador import exceptions, jobs

VOLADOR = pathlib.Path(os.environ["VOLADOR_BIN"]) / "volador"


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory):  # Replaces the private cluster of the other tests.
    home = tmp_path_factory.mktemp("home")
    saved = {name: os.environ.get(name) for name in ("VOLADOR_HOME", "HOME")}
    os.environ.update(VOLADOR_HOME=str(home / "volador"), HOME=str(home))

    def run(*arguments):
        return subprocess.run([VOLADOR, *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)

    run("start", "--head", "--port=0", "--num-cpus=2", "--no-dashboard")
    yield
    run("stop")
    for name, value in saved.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def test_a_job_runs_the_code_of_its_folder_and_keeps_its_exit_code(tmp_path):
    (tmp_path / "main.py").write_text("import os, sys; print('hello', os.environ['A']); sys.exit(3)")
    job = jobs.submit(["python3", "main.py"], code=tmp_path, env={"A": "b"}, name="hello")
    assert job.wait(30) is job
    assert (job.state, job.exit_code, job.reason) == ("failed", 3, job.reason)
    assert "exited with code 3" in job.reason
    assert [(line.rank, line.is_stderr, line.text) for line in job.logs()] == [(0, False, "hello b")]
    assert jobs.get("hello").id == job.id
    assert job.ranks[0].exit_code == 3
    assert repr(job) == f"<volador.jobs.Job {job.id} 'hello': failed, {job.reason}>"


def test_a_job_runs_in_an_environment_of_its_own(tmp_path):
    (tmp_path / "requirements.txt").write_text("# no packages\n")
    job = jobs.submit(["python3", "-c", "import sys; print(sys.prefix)"], code=tmp_path, environment="requirements.txt").wait(60)
    assert job.state == "succeeded", job.logs()
    assert job.spec["environment"] == "requirements.txt"
    assert str(pathlib.Path(os.environ["VOLADOR_HOME"]) / "cache/environments") in [line.text for line in job.logs() if not line.is_stderr][0]
    with pytest.raises(ValueError, match="has no file missing.txt"):
        jobs.submit("true", code=tmp_path, environment="missing.txt")


def test_output_is_followed_until_the_end():
    job = jobs.submit("for i in 1 2 3; do echo line $i; sleep 0.1; done; echo error >&2", code=None)
    lines = list(job.follow())
    assert [line.text for line in lines if not line.is_stderr] == ["line 1", "line 2", "line 3"]
    assert [line.text for line in lines if line.is_stderr] == ["error"]
    assert job.state == "succeeded"


def test_stop_wait_and_delete():
    job = jobs.submit(["sleep", "100"], code=None, duration=1000)
    with pytest.raises(TimeoutError, match="has not ended"):
        job.wait(0.2)
    job.extend(2000.5)
    assert int(job.spec["duration_s"]) == 2001
    assert job.stop(now=True).wait(20).state == "stopped"
    job.delete()
    with pytest.raises(exceptions.NotFoundError, match="there is no job"):
        job.refresh()


def test_the_queue_predicts_starts():
    blocker = jobs.submit(["sleep", "100"], code=None, cpus=2, duration=3600)
    while blocker.refresh().state == "queued":
        time.sleep(0.02)
    assert blocker.state == "running"
    waits = jobs.submit("true", code=None, priority="urgent")
    assert waits.refresh().state == "queued"
    assert "needs cpus 1" in waits.reason
    assert waits.start is not None and waits.start.latest is not None
    assert 3000 < waits.start.latest - time.time() < 3700
    assert not jobs.predict(cpus=1).now
    assert [job.id for job in jobs.list_jobs(state="queued")] == [waits.id]
    blocker.stop(now=True)
    assert waits.wait(30).state == "succeeded"
    assert jobs.predict(cpus=2).now


def test_errors_name_the_field():
    with pytest.raises(ValueError, match="bash -c 'a && b'"):
        jobs.submit(["a", "&&", "b"], code=None)
    with pytest.raises(ValueError, match="max_restarts: expected 0 to 1000, got -1"):
        jobs.submit("true", code=None, max_restarts=-1)
    with pytest.raises(exceptions.InfeasibleError, match="largest node has 2 CPUs"):
        jobs.submit("true", code=None, cpus=64)
    with pytest.raises(TypeError, match="gpu"):
        jobs.predict(gpu=1)
    with pytest.raises(ValueError, match="is no folder"):
        jobs.submit("true", code="/not/there")


def test_a_batch_and_alternatives(tmp_path):
    batch = jobs.submit_batch("echo $VOLADOR_TASK_INDEX > $VOLADOR_OUTPUT_DIR/made", tasks=3, name="sweep", output=str(tmp_path), code=None)
    assert [job.name for job in batch] == ["sweep-0", "sweep-1", "sweep-2"]
    assert [job.wait(30).state for job in batch] == ["succeeded"] * 3
    assert [(tmp_path / f"sweep-{i}/made").read_text() for i in range(3)] == ["0\n", "1\n", "2\n"]
    assert {job.id for job in jobs.list_jobs(batch="sweep")} == {job.id for job in batch}
    tasks = jobs.submit_batch("exit 1", tasks=[{"command": "exit 0"}, {"env": {"A": 1}, "duration": 100.5}], name="two", code=None)
    assert [job.wait(30).state for job in tasks] == ["succeeded", "failed"]
    assert (tasks[1].spec["env"], int(tasks[1].spec["duration_s"])) == ({"A": "1"}, 101)
    first, second = jobs.submit_one_of("true", alternatives=[{"cpus": 1}, {"cpus": 2}], code=None)
    assert first.wait(30).state == "succeeded"
    assert second.wait(30).state == "stopped"
    assert "started first" in second.reason
    with pytest.raises(ValueError, match='there is no field "gpu"'):
        jobs.submit_batch("true", tasks=[{"gpu": 1}], code=None)
    with pytest.raises(TypeError, match="submit_batch.. got an unexpected field 'gpu'"):
        jobs.submit_batch("true", tasks=2, gpu=1)


def test_submit_takes_each_field_of_a_job(tmp_path):
    policy = {"pattern": "loss is (nan)", "action": "label", "label": "diverged"}
    job = jobs.submit(
        "echo loss is nan",
        code=None,
        nodes=3,
        min_nodes=1,
        grow=True,
        cpus=0.5,
        max_resumes=2,
        teardown=f"touch {tmp_path}/down",
        debug=0.5,
        log_policies=[policy],
        access="none",
        share_nodes=True,
        graceful=5,
        note="of a test",
    )
    spec = job.spec
    assert (spec["min_nodes"], spec["grow"], spec["max_resumes"], int(spec["debug_s"]), spec["access"]) == (1, True, 2, 1, "none")
    assert spec["share_nodes"]
    assert spec["log_policies"] == [{**policy, "ratio_above": 0}]
    assert job.wait(30).state == "succeeded", job.logs()
    assert (tmp_path / "down").exists()
    with pytest.raises(ValueError, match="parameter_servers: only mode tensorflow has them"):
        jobs.submit("true", code=None, parameter_servers=1)
    with pytest.raises(ValueError, match="access: expected none, read or write"):
        jobs.submit("true", code=None, access="all")
    with pytest.raises(ValueError, match="max_resumes: a job either resumes or restarts"):
        jobs.predict(max_resumes=1, max_restarts=1)
    # Fields of JobSpec that have another way: the functions of sets, the hash of the code folder, and the trial, which the head sets.
    given = set(jobs._spec({**jobs.submit.__kwdefaults__, "command": "true"}))
    assert set(spec) - given == {"files_sha256", "one_of", "batch", "batch_index", "batch_size", "trial"}


def test_usage_counts_what_ran():
    before = sum(row["cpu_hours"] for row in jobs.usage() if row["project"] == "counted")
    jobs.submit(["sleep", "0.5"], code=None, cpus=2, project="counted").wait(30)
    rows = [row for row in jobs.usage() if row["project"] == "counted"]
    assert 2 * 0.5 <= (sum(row["cpu_hours"] for row in rows) - before) * 3600 < 2 * 10
    assert sum(int(row["attempts"]) for row in rows) >= 1
    with pytest.raises(ValueError, match="from_day: expected a day"):
        jobs.usage(from_day="today")


def test_the_settings_of_the_queue():
    settings = jobs.set_queue("projects: {vision: {weight: 2, limits: {cpus: 1}}}")
    try:
        assert settings["projects"][0]["weight"] == 2
        assert jobs.queue()["settings"] == settings
        with pytest.raises(exceptions.InfeasibleError, match="project vision may hold 1 CPU"):
            jobs.submit("true", code=None, cpus=2, project="vision")
        with pytest.raises(exceptions.NotFoundError, match='there is no pool "x"'):
            jobs.submit("true", code=None, pool="x")
        with pytest.raises(ValueError, match="preemption: expected never"):
            jobs.set_queue("preemption: always")
    finally:
        jobs.set_queue("preemption: never")


def test_a_program_ends_while_its_threads_call():
    # Threads in calls came back into an interpreter that had ended, and the process was aborted.
    program = """
import threading, time
from volador import _core, jobs
key = jobs._connect() and next(iter(jobs._connections))
ready = threading.Barrier(7)

def call():
    api = _core.JobsApi(*key[1:])
    ready.wait()
    while True:
        api.call("Jobs/GetQueue", "{}")

for _ in range(6):
    threading.Thread(target=call, daemon=True).start()
ready.wait()
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
