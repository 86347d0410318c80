"""Step 4: several processes, each with a part of the data, average their gradients. The chief reports."""

import line
import torch
import torch.distributed

import determined as det


def main(core_context, hparams):
    rank, size = core_context.distributed.rank, core_context.distributed.size
    data = line.points()[rank::size]
    state = {"slope": 0.0, "offset": hparams["start"]}
    batch = 0
    for operation in core_context.searcher.operations():
        while batch < operation.length:
            batch += 1
            gradient = torch.tensor(line.gradient_of(state, data), dtype=torch.float64)
            torch.distributed.all_reduce(gradient)
            line.step(state, (gradient / size).tolist(), hparams["learning_rate"])
            if batch % 10 == 0:
                losses = core_context.distributed.gather(line.loss_of(state, data))
                if rank == 0:
                    core_context.train.report_training_metrics(steps_completed=batch, metrics={"loss": sum(losses) / size})
                    operation.report_progress(batch)
                if core_context.preempt.should_preempt():
                    return
        if rank == 0:
            loss = line.loss_of(state, line.points(seed=2))
            core_context.train.report_validation_metrics(steps_completed=batch, metrics={"validation_loss": loss, "processes": size})
            operation.report_completed(loss)


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    with det.core.init(distributed=det.core.DistributedContext.from_torch_distributed()) as core_context:
        main(core_context, det.get_cluster_info().trial.hparams)
    torch.distributed.destroy_process_group()
