"""A trial of experiment_server_test.py: trains in steps of one batch, and talks to the head over HTTP only.

It takes what it needs from the environment: DET_MASTER, VOLADOR_TOKEN, VOLADOR_TRIAL and VOLADOR_TRIAL_RUN; and NOTES, a folder in which it notes what
it does. With GATE it waits at this number of batches until the file "open" is there. With CRASH it ends with exit code 7 at this number of batches,
as often as CRASHES says. STEP_S is the time of a batch in seconds.
"""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request
import uuid

TRIAL, RUN = int(os.environ["VOLADOR_TRIAL"]), int(os.environ["VOLADOR_TRIAL_RUN"])
NOTES = pathlib.Path(os.environ["NOTES"])


def ask(method, path, body=None):
    """The reply; goes on while the head is away."""
    while True:
        request = urllib.request.Request(os.environ["DET_MASTER"] + "/api/v1/determined" + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + os.environ["VOLADOR_TOKEN"]})
        try:
            with urllib.request.urlopen(request, timeout=90) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            if error.code != 503:
                note("refused", path=path, text=text)
                sys.exit(f"{method} {path}: {error.code} {text}")
        except OSError:
            pass
        time.sleep(0.05)


def post(call, **body):
    return ask("POST", f"/trials/{TRIAL}{call}", {"run": RUN, **body})


def note(what, **fields):
    with open(NOTES / "notes", "a", encoding="utf-8") as file:
        file.write(json.dumps({"what": what, "trial": TRIAL, "run": RUN, **fields}) + "\n")


def save(storage, batches):
    name = str(uuid.uuid4())
    folder = pathlib.Path(storage) / name
    folder.mkdir(parents=True)
    text = json.dumps({"batches": batches})
    (folder / "state.json").write_text(text)
    post("/checkpoints", checkpoint={"id": name, "batches": batches, "resources": {"state.json": len(text)}, "metadata": {"steps_completed": batches}})


def should_end(storage, batches):
    if not post("/preemption:wait", wait_ms=1)["preempt"]:
        return False
    save(storage, batches)
    post("/preemption:acknowledge")
    note("preempted", batches=batches)
    return True


def main():
    trial = ask("GET", f"/trials/{TRIAL}")
    storage = ask("GET", f"/experiments/{trial['experiment']}")["storage"]
    batches = 0
    if trial["latest_checkpoint"]:
        batches = json.loads((pathlib.Path(storage) / trial["latest_checkpoint"] / "state.json").read_text())["batches"]
    note("began", batches=batches, pid=os.getpid())
    lr = trial["hparams"].get("lr", 1.0)
    while True:
        operation = post("/operation:wait", wait_ms=60_000)
        if operation["no_more"]:
            return
        while batches < operation["length"]:
            if batches == int(os.environ.get("GATE", -1)):
                note("waits", batches=batches)
                while not (NOTES / "open").exists():
                    if should_end(storage, batches):
                        return
                    time.sleep(0.02)
            crashes = NOTES / f"crashes-{TRIAL}"
            if batches == int(os.environ.get("CRASH", -1)) and len(crashes.read_text() if crashes.exists() else "") < int(os.environ["CRASHES"]):
                with open(crashes, "a", encoding="utf-8") as file:
                    file.write("x")
                sys.exit(7)
            batches += 1
            time.sleep(float(os.environ.get("STEP_S", 0)))
            post("/metrics", group="training", batches=batches, metrics={"loss": lr / batches})
            if should_end(storage, batches):
                return
            if batches % 2 == 0:
                save(storage, batches)
        post("/metrics", group="validation", batches=batches, metrics={"loss": lr / batches, "note": "no number"})
        post("/progress", progress=batches)
        save(storage, batches)
        note("completes", length=operation["length"])
        post("/operation:complete", length=operation["length"], metric=lr / batches)


main()
