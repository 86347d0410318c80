"""A program in the shape of Determined's tutorial of DeterminedCallback."""

import keras
import keras_def

import determined as det
from determined.keras import DeterminedCallback


def main(epochs=4):
    info = det.get_cluster_info()
    keras.utils.set_random_seed(info.trial.trial_seed)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    with det.core.init() as core_context:
        callback = DeterminedCallback(core_context, checkpoint=info.latest_checkpoint, continue_id=info.trial.trial_id)
        x, y = keras_def.points(1, 64)
        model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, validation_data=keras_def.points(2, 32), callbacks=[callback])


if __name__ == "__main__":
    main()
