"""A program in the shape of Determined's core_api tutorials: metrics, checkpoints, the searcher's length, preemption."""

import logging
import pathlib
import sys

import determined as det


def save_state(value, steps_completed, trial_id, directory):
    with directory.joinpath("state").open("w") as file:
        file.write(f"{value},{steps_completed},{trial_id}")


def load_state(trial_id, directory):
    value, steps_completed, saved_by = map(int, pathlib.Path(directory).joinpath("state").read_text().split(","))
    return (value, steps_completed) if saved_by == trial_id else (value, 0)


def main(core_context, latest_checkpoint, trial_id, increment_by):
    value, steps_completed = 0, 0
    if latest_checkpoint is not None:
        with core_context.checkpoint.restore_path(latest_checkpoint) as path:
            value, steps_completed = load_state(trial_id, path)
    batch = steps_completed
    for op in core_context.searcher.operations():
        while batch < op.length:
            value += increment_by
            steps_completed = batch = batch + 1
            if steps_completed % 10 == 0:
                core_context.train.report_training_metrics(steps_completed=steps_completed, metrics={"x": value})
                op.report_progress(batch)
                with core_context.checkpoint.store_path({"steps_completed": steps_completed}) as (path, storage_id):
                    save_state(value, steps_completed, trial_id, path)
                if core_context.preempt.should_preempt():
                    return
        core_context.train.report_validation_metrics(steps_completed=steps_completed, metrics={"x": value})
        op.report_completed(value)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format=det.LOG_FORMAT)
    info = det.get_cluster_info()
    with det.core.init() as core_context:
        main(core_context, info.latest_checkpoint, info.trial.trial_id, info.trial.hparams["increment_by"] + len(sys.argv) - 2)
