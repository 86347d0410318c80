// Training in one include: operators, trainers, data sets, schedules, optimizers. Link volador::train.
#pragma once

#include <torch/torch.h>

#include "train/core/schedule.h"
#include "train/data/array_tensor.h"
#include "train/data/dataset.h"
#include "train/data/loader.h"
#include "train/data/readers.h"
#include "train/operator/sync_batch_norm.h"
#include "train/operator/training_operator.h"
#include "train/optim/clip.h"
#include "train/optim/grad_scaler.h"
#include "train/optim/optimizers.h"
#include "train/optim/state_dict.h"
#include "train/trainer/trainer.h"
#include "train/trainer/tuned_trainer.h"
#include "train/trial/torch_trial.h"

// Allows train::TorchTrainer, train::sgd… in programs.
namespace train = volador::train;
