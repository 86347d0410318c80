"""Trials in the shape of Determined's tutorials for Keras: points of two classes in a plane."""

import numpy as np

import keras
from determined.keras import TFKerasTrial, TFKerasTrialContext, callbacks

RECORDS = 96


def points(seed, records):
    random = np.random.RandomState(seed)
    x = random.randn(records, 4)
    return x, (x[:, 0] * x[:, 1] > 0).astype("int64")


class Sequence(keras.utils.Sequence if hasattr(keras.utils, "Sequence") else keras.utils.PyDataset):
    """Changes its records at the end of each epoch."""

    def __init__(self, seed, records, size):
        super().__init__()
        self.x, self.y = points(seed, records)
        self.size = size
        self.ended = 0

    def __len__(self):
        return len(self.x) // self.size

    def __getitem__(self, index):
        part = slice(index * self.size, (index + 1) * self.size)
        return self.x[part].astype("float32") + np.float32(self.ended), self.y[part]

    def on_epoch_end(self):
        self.ended += 1


class Note(callbacks.Callback):
    """Keeps what is called."""

    notes = []

    def __init__(self):
        super().__init__()
        self.workloads = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.notes.append(("epoch begin", epoch))

    def on_epoch_end(self, epoch, logs=None):
        assert logs == {}
        self.notes.append(("epoch end", epoch))

    def on_train_workload_end(self, total_batches_trained, logs):
        self.workloads += 1
        self.notes.append(("workload end", total_batches_trained, sorted(logs)))

    def on_test_end(self, logs=None):
        self.notes.append(("test end", sorted(logs)))

    def on_checkpoint_end(self, checkpoint_dir):
        with open(f"{checkpoint_dir}/note", "w") as file:
            file.write(str(self.workloads))

    def get_state(self):
        return self.workloads

    def load_state(self, state):
        self.workloads = state


class PointsTrial(TFKerasTrial):
    def __init__(self, context: TFKerasTrialContext) -> None:
        self.context = context
        self.context.configure_fit(verbose=False)

    def build_model(self):
        layers = keras.layers
        model = keras.Sequential(
            [
                keras.Input((4,)),
                layers.Dense(self.context.get_hparam("dense1"), activation="relu"),
                layers.BatchNormalization(),
                layers.Dropout(self.context.get_hparam("dropout")),
                layers.Dense(2),
            ]
        )
        model = self.context.wrap_model(model)
        optimizer = self.context.wrap_optimizer(keras.optimizers.Adam(self.context.get_hparam("learning_rate")))
        model.compile(
            optimizer=optimizer,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        )
        return model

    def build_training_data_loader(self):
        return points(1, RECORDS)

    def build_validation_data_loader(self):
        return points(2, 40)

    def keras_callbacks(self):
        return [Note(), callbacks.ReduceLROnPlateau(patience=1, min_delta=10.0, factor=0.5), callbacks.EarlyStopping(patience=100)]


class SequenceTrial(PointsTrial):
    """Reads with threads."""

    def build_training_data_loader(self):
        self.context.configure_fit(workers=2, max_queue_size=3)
        return Sequence(1, RECORDS, self.context.get_per_slot_batch_size())


class ImpatientTrial(PointsTrial):
    def keras_callbacks(self):
        return [callbacks.EarlyStopping(monitor="val_loss", patience=1, min_delta=10.0)]


class UnwrappedTrial(PointsTrial):
    def build_model(self):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        return model
