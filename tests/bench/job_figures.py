"""Figures of jobs beside a bare start of the same command: python3 tests/bench/job_figures.py [JOBS]

Environment: VOLADOR_BIN, the folder of the programs; PYTHONPATH with the package volador.
  job_start       submit to first output, p50, in ms: as it is and isolated, beside subprocess and bubblewrap
  job_throughput  jobs of `true` a second through the queue, one node
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin")).resolve()
CLOCK = ["bash", "-c", "echo $EPOCHREALTIME"]
BWRAP = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]


def bare(command, times=30):
    waits = []
    for _ in range(times):
        began = time.time()
        waits.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) - began)
    return statistics.median(waits) * 1000


def start(jobs, times=30, **fields):
    waits = []
    for _ in range(times):
        began = time.time()
        job = jobs.submit(CLOCK, code=None, **fields)
        job.wait(30)
        waits.append(float(job.logs()[0].text) - began)
    return statistics.median(waits) * 1000


def throughput(jobs, count):
    began = time.time()
    made = [jobs.submit(["true"], code=None) for _ in range(count)]
    submitted = time.time()
    while jobs.list_jobs(state="open", limit=1):
        time.sleep(0.02)
    ended = time.time()
    wrong = [job for job in made if job.refresh().state != "succeeded"]
    assert not wrong, wrong[:3]
    return count / (ended - began), count / (submitted - began)


def main():
    from volador import jobs

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(prefix="vb-") as home:
        os.environ.update(VOLADOR_HOME=home, HOME=home)
        os.environ.pop("VOLADOR_BIN", None)  # No setting.
        subprocess.run([BIN / "volador", "start", "--head", "--port=0", "--num-cpus=2", "--no-dashboard"], check=True, stdout=subprocess.DEVNULL)
        try:
            start(jobs, 3)  # The first job starts the template.
            host, floor = start(jobs), bare(CLOCK)
            print(f"job_start            {host:6.1f} ms   bare start {floor:5.1f} ms   ratio {host / floor:5.1f}")
            isolated, floor = start(jobs, isolated=True), bare([*BWRAP, *CLOCK])
            print(f"job_start isolated   {isolated:6.1f} ms   bubblewrap {floor:5.1f} ms   ratio {isolated / floor:5.1f}")
            rate, submits = throughput(jobs, count)
            print(f"job_throughput       {rate:6.0f} /s   {count} jobs of true; submitted at {submits:.0f}/s by one client")
        finally:
            subprocess.run([BIN / "volador", "stop"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
