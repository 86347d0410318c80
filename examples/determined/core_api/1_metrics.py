"""Step 1: reports metrics."""

import line

import determined as det


def main(core_context):
    data = line.points()
    state = {"slope": 0.0, "offset": 0.0}
    for batch in range(1, 101):
        line.step(state, line.gradient_of(state, data), learning_rate=0.1)
        if batch % 10 == 0:
            core_context.train.report_training_metrics(steps_completed=batch, metrics={"loss": line.loss_of(state, data)})
    core_context.train.report_validation_metrics(steps_completed=batch, metrics={"validation_loss": line.loss_of(state, line.points(seed=2))})


if __name__ == "__main__":
    with det.core.init() as core_context:
        main(core_context)
