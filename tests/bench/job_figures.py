"""Figures of jobs beside a bare start of the same command: python3 tests/bench/job_figures.py [JOBS]

Environment: VOLADOR_BIN, the folder of the programs; PYTHONPATH with the package volador.
  job_start       submit to first output, p50, in ms: as it is and isolated, beside subprocess and bubblewrap
  job_throughput  jobs of `true` a second through the queue, one node
  job_output      MB/s that one rank writes to its standard output, beside the same program with cat and a file
  job_forward     a request to a server in a job through `volador job forward`, p50 in ms, and a large reply in MiB/s, beside the same directly
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

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


FLOOD = """
import sys, time
lines = b"epoch 12 step 3456 loss 0.123456 accuracy 0.98765 rate 0.001 throughput 1234.5 samples/s\\n" * 1000
began, written = time.time(), 0
while written < 300e6:
    written += sys.stdout.buffer.write(lines)
sys.stdout.buffer.flush()
print(written / 1e6 / (time.time() - began), file=sys.stderr)
"""


def output(jobs, home):
    job = jobs.submit([sys.executable, "-c", FLOOD], code=None)
    job.wait(120)
    rate = float(next(line.text for line in job.logs(tail=20) if line.is_stderr))
    raw = subprocess.run(["bash", "-c", f"exec 3>&2; {sys.executable} -c \"$0\" 2>&3 | cat > {home}/flood", FLOOD], check=True, capture_output=True, text=True)
    return rate, float(raw.stderr)


SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * (200 << 20 if self.path == "/large" else 1)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def get(port, path, times):
    waits = []
    for _ in range(times):
        began = time.time()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
            size = len(reply.read())
        waits.append(time.time() - began)
    return statistics.median(waits), size


def forward(jobs):
    job = jobs.submit([sys.executable, "-c", SERVER], code=None)
    while not (lines := job.logs()):
        time.sleep(0.05)
    there = int(lines[0].text)
    process = subprocess.Popen([BIN / "volador", "job", "forward", job.id, f"0:{there}", "--json"], stdout=subprocess.PIPE, text=True)
    here = int(json.loads(process.stdout.readline())["address"].rpartition(":")[2])
    for path, times in (("/", 200), ("/large", 3)):
        get(here, path, 1)
        (through, size), (direct, _) = get(here, path, times), get(there, path, times)
        if path == "/":
            print(f"job_forward request  {through * 1000:6.1f} ms   direct     {direct * 1000:5.1f} ms   ratio {through / direct:5.1f}")
        else:
            print(f"job_forward reply    {size / 2**20 / through:6.0f} MiB/s   direct {size / 2**20 / direct:5.0f} MiB/s   ratio {direct / through:5.2f}")
    process.terminate()
    process.wait()
    job.stop(now=True)


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
            rate, raw = output(jobs, home)
            print(f"job_output           {rate:6.0f} MB/s   to a file   {raw:5.0f} MB/s   ratio {rate / raw:5.2f}")
            forward(jobs)
            rate, submits = throughput(jobs, count)
            print(f"job_throughput       {rate:6.0f} /s   {count} jobs of true; submitted at {submits:.0f}/s by one client")
        finally:
            subprocess.run([BIN / "volador", "stop"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
