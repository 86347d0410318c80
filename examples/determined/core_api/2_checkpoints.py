"""Step 2: saves checkpoints, goes on from the latest one, and ends when it should."""

import json
import pathlib

import line

import determined as det


def save(core_context, state, batch):
    with core_context.checkpoint.store_path({"steps_completed": batch}) as (path, _):
        (pathlib.Path(path) / "state.json").write_text(json.dumps({"state": state, "batch": batch}))


def load(core_context, checkpoint):
    with core_context.checkpoint.restore_path(checkpoint) as path:
        found = json.loads((pathlib.Path(path) / "state.json").read_text())
    return found["state"], found["batch"]


def main(core_context, latest_checkpoint):
    data = line.points()
    state, start = {"slope": 0.0, "offset": 0.0}, 0
    if latest_checkpoint is not None:
        state, start = load(core_context, latest_checkpoint)
    for batch in range(start + 1, 101):
        line.step(state, line.gradient_of(state, data), learning_rate=0.1)
        if batch % 10 == 0:
            core_context.train.report_training_metrics(steps_completed=batch, metrics={"loss": line.loss_of(state, data)})
            save(core_context, state, batch)
            if core_context.preempt.should_preempt():
                return  # A later run goes on from this checkpoint.
    core_context.train.report_validation_metrics(steps_completed=100, metrics={"validation_loss": line.loss_of(state, line.points(seed=2))})


if __name__ == "__main__":
    info = det.get_cluster_info()
    with det.core.init() as core_context:
        main(core_context, info.latest_checkpoint)
