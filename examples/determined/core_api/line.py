"""What the steps train: a line through noisy points, by gradient descent."""

import random


def points(count=200, seed=1):
    rng = random.Random(seed)
    return [(x, 3 * x + 1 + rng.gauss(0, 0.1)) for x in (rng.uniform(-1, 1) for _ in range(count))]


def loss_of(state, data):
    return sum((state["slope"] * x + state["offset"] - y) ** 2 for x, y in data) / len(data)


def gradient_of(state, data):
    errors = [(x, state["slope"] * x + state["offset"] - y) for x, y in data]
    return [2 * sum(error * x for x, error in errors) / len(data), 2 * sum(error for _, error in errors) / len(data)]


def step(state, gradient, learning_rate):
    state["slope"] -= learning_rate * gradient[0]
    state["offset"] -= learning_rate * gradient[1]
