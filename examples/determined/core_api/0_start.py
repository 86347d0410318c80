"""Step 0: a program without the Core API. It runs as an experiment, which learns only whether it failed."""

import line

if __name__ == "__main__":
    data = line.points()
    state = {"slope": 0.0, "offset": 0.0}
    for batch in range(1, 101):
        line.step(state, line.gradient_of(state, data), learning_rate=0.1)
        if batch % 10 == 0:
            print(f"batch {batch}: loss {line.loss_of(state, data):.6f}", flush=True)
