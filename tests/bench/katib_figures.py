"""Figures of resources in Katib's form: python3 tests/bench/katib_figures.py [TRIALS]

Environment: VOLADOR_BIN, the folder of the programs.
  katib_trials        seconds for TRIALS trials (500) of a script of 0.05 s, 16 at once, beside a loop that runs the same processes, and the CPU time of a
                      trial: of all processes of the cluster (cluster_cpu.py)

"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster_cpu  # noqa: E402
from experiment_server_test import Cluster  # noqa: E402

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
AT_ONCE = 16
SCRIPT = 'sleep 0.05; echo "accuracy=%s"'
RESOURCE = """
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: bench}
spec:
  objective: {type: maximize, objectiveMetricName: accuracy}
  algorithm: {algorithmName: random}
  parallelTrialCount: %d
  maxTrialCount: %d
  parameters:
    - {name: lr, parameterType: double, feasibleSpace: {min: "0.01", max: "0.9"}}
  trialTemplate:
    primaryContainerName: main
    trialParameters: [{name: rate, reference: lr}]
    trialSpec:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            containers: [{name: main, image: example, command: [bash, -c, %s], resources: {limits: {cpu: "0.1"}}}]
            restartPolicy: Never
"""


def floor():
    run = lambda number: subprocess.run(["bash", "-c", SCRIPT % number], stdout=subprocess.PIPE, check=True)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, range(TRIALS)))
    return time.monotonic() - began


def trials(cluster):
    text = RESOURCE % (AT_ONCE, TRIALS, json.dumps(SCRIPT % "${trialParameters.rate}"))
    began = time.monotonic()
    cluster.post("/resources", {"yaml": text}, version="/api/v1/katib")
    version, status = 1, {}
    while not {one["type"] for one in status.get("conditions", []) if one["status"] == "True"} & {"Succeeded", "Failed"}:
        reply = cluster.post("/resources:watch", {"after": version, "wait_ms": 60_000, "selection": {"kind": "Experiment", "name": "bench"}}, version="/api/v1/katib")
        version = int(reply["version"])
        for row in reply.get("resources", []):
            status = row["object"]["status"]
        time.sleep(0.2)
    took = time.monotonic() - began
    assert status.get("trialsSucceeded") == TRIALS, {key: value for key, value in status.items() if isinstance(value, int)}
    return took


if __name__ == "__main__":
    cluster_cpu.adopt()
    cluster = Cluster()
    try:
        plain = floor()
        home = cluster.home.path / "volador"
        used = cluster_cpu.seconds(home)
        took = trials(cluster)
        used = cluster_cpu.seconds(home) - used
        began = time.monotonic()
        rows = cluster.get("/resources?kind=Trial", version="/api/v1/katib")["total"]
        print(json.dumps({"katib_trials": round(took, 2), "floor": round(plain, 2), "ratio": round(took / plain, 2), "cpu_ms": round(1000 * used / TRIALS, 1), "rows": rows,
                          "list_ms": round(1000 * (time.monotonic() - began))}))
    finally:
        cluster.close()
