"""Step 3: trains with the hyperparameters and to the lengths of a search."""

import importlib

import line

import determined as det

checkpoints = importlib.import_module("2_checkpoints")


def main(core_context, latest_checkpoint, hparams):
    data = line.points()
    state, batch = {"slope": 0.0, "offset": hparams["start"]}, 0
    if latest_checkpoint is not None:
        state, batch = checkpoints.load(core_context, latest_checkpoint)
    for operation in core_context.searcher.operations():
        while batch < operation.length:
            batch += 1
            line.step(state, line.gradient_of(state, data), hparams["learning_rate"])
            if batch % 10 == 0:
                core_context.train.report_training_metrics(steps_completed=batch, metrics={"loss": line.loss_of(state, data)})
                operation.report_progress(batch)
                checkpoints.save(core_context, state, batch)
                if core_context.preempt.should_preempt():
                    return
        loss = line.loss_of(state, line.points(seed=2))
        core_context.train.report_validation_metrics(steps_completed=batch, metrics={"validation_loss": loss})
        operation.report_completed(loss)


if __name__ == "__main__":
    info = det.get_cluster_info()
    with det.core.init() as core_context:
        main(core_context, info.latest_checkpoint, info.trial.hparams)
