"""Checks what oracle_trials left behind: results, each right, contiguous and counted once."""

import collections
import json
import pathlib

MASK = (1 << 64) - 1


def next_value(value, seed, step):
    z = (value + 0x9E3779B97F4A7C15 * (seed + 1) + step) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return (z ^ (z >> 31)) >> 11


def check(test, storage, ledger, trials, steps, every):
    """Asserts, with a unittest.TestCase. Returns how many steps were executed again."""
    directories = list(pathlib.Path(storage).glob("oracle_*"))
    test.assertEqual(len(directories), 1, f"one experiment directory in {storage}")
    seen = {}
    for params in directories[0].glob("*/params.json"):
        config = json.loads(params.read_text())
        seed = config["seed"]
        test.assertNotIn(seed, seen, "two trials of one configuration")
        rows = [json.loads(line) for line in (params.parent / "result.json").read_text().splitlines()]
        seen[seed] = rows
        # The last record of a step counts; what was recorded before a crash and replayed after it must be equal.
        values = collections.defaultdict(set)
        for row in rows:
            values[row["training_iteration"]].add(row["value"])
        test.assertEqual(sorted(values), list(range(1, steps + 1)), f"trial of seed {seed}: steps not contiguous")
        value = 0
        for step in range(1, steps + 1):
            value = next_value(value, seed, step)
            test.assertEqual(values[step], {value}, f"trial of seed {seed}, step {step}: wrong or two values")
    test.assertEqual(sorted(seen), list(range(trials)), "trials lost")

    executed = collections.Counter()
    attempts = collections.defaultdict(set)
    for line in pathlib.Path(ledger).read_text().splitlines():
        seed, attempt, _, step, _ = map(int, line.split())
        executed[(seed, step)] += 1
        attempts[seed].add(attempt)
    again = sum(count - 1 for count in executed.values())
    restarts = sum(len(numbers) - 1 for numbers in attempts.values())
    test.assertLessEqual(again, restarts * (every + 1), "more steps were repeated than lie between two checkpoints")
    return again
