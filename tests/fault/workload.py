#!/usr/bin/env python3
"""workload.cc in Python: the same arguments, files and exit codes, with actors, tasks and objects of the Python package."""

import collections
import functools
import os
import pathlib
import sys
import threading
import time

import numpy

import volador
from volador import exceptions

CODES = {exceptions.ObjectLostError: "kObjectLost", exceptions.UnavailableError: "kUnavailable"}


def append_line(file, line):
    """With one write, so that lines of several processes do not mix."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class Counter(volador.Actor):
    def __init__(self, ledger, number, work_ms):
        self.ledger, self.number, self.work_ms = ledger, number, work_ms
        self.incarnation = f"{os.getpid()}.{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}"
        self.calls = 0

    def add(self, call):
        time.sleep(self.work_ms / 1000)
        append_line(self.ledger, f"{self.number} {self.incarnation} {call}")
        self.calls += 1
        return f"{self.incarnation} {self.calls}"


@volador.task(num_cpus=0.5, max_retries=-1)
def twice(value, work_ms, ledger):
    time.sleep(work_ms / 1000)
    append_line(ledger, f"task {os.getpid()} {value}")
    return 2 * value


def numbers_of(seed):
    return ((seed * 31 + numpy.arange(50_000)) % 1000).astype(numpy.float64)  # 400 kB: sent through the object stores.


@volador.task(num_cpus=0.5, max_retries=-1)
def make_numbers(seed):
    return numbers_of(seed)


@volador.task(num_cpus=0.5, max_retries=-1)
def sum_of(numbers):
    return int(numbers.sum())


class Results:
    def __init__(self, file):
        self.file = file
        self.lock = threading.Lock()
        self.open = {}
        self.ended = 0

    def end(self, what, how):
        append_line(self.file, f"{what} {how}")
        with self.lock:
            self.open.pop(what, None)
            self.ended += 1

    def follow(self, what, future):
        with self.lock:
            self.open[what] = time.monotonic()
        future.add_done_callback(functools.partial(self.on_done, what))

    def on_done(self, what, future):
        try:
            how = f"ok {future.result(timeout=0)}"
        except Exception as error:
            how = f"error {CODES.get(type(error), type(error).__name__)} {error}".replace("\n", " ")
        self.end(what, how)

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while self.open and time.monotonic() < end:
            time.sleep(0.02)


def main():
    given = {"actors": "6", "window": "20", "work_ms": "2", "bound_s": "30", **dict(argument.split("=", 1) for argument in sys.argv[1:])}
    ledger, window, work_ms, kind = given["ledger"], int(given["window"]), int(given["work_ms"]), given["kind"]
    stop = pathlib.Path(given["stop"])
    results = Results(given["results"])
    volador.init(log_to_driver=False)

    def call(at, counter):
        under_way = collections.deque()
        number = 0
        while not stop.exists():
            number += 1
            under_way.append(counter.add.remote(number))
            results.follow(f"call {at}.{number}", under_way[-1])
            while len(under_way) >= window and not stop.exists():
                volador.wait([under_way[0]], timeout=0.1)
                while under_way and under_way[0].done():
                    under_way.popleft()

    def submit(number):
        if kind == "tasks":
            results.follow(f"task {number}", twice.remote(number, work_ms, ledger))
        elif number % 2 == 0:
            results.follow(f"made {number}", sum_of.remote(make_numbers.remote(number)))
        else:
            try:
                results.follow(f"put {number}", sum_of.remote(volador.put(numbers_of(number))))
            except exceptions.VoladorError as error:
                results.end(f"put {number}", f"error {CODES.get(type(error), type(error).__name__)} {error}".replace("\n", " "))
                time.sleep(0.1)  # The store of this machine is temporarily unavailable.

    if kind == "counters":
        options = {"num_cpus": 0.5, "max_restarts": -1, "max_task_retries": -1}
        counters = [Counter.options(**options).remote(ledger, at, work_ms) for at in range(int(given["actors"]))]
        callers = [threading.Thread(target=call, args=each) for each in enumerate(counters)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    else:
        number = 0
        while not stop.exists():
            number += 1
            submit(number)
            while len(results.open) >= window and not stop.exists():
                time.sleep(0.01)
    results.wait(float(given["bound_s"]))
    left = sorted(results.open.items(), key=lambda item: item[1])
    print(f"{results.ended} ended, {len(left)} did not end within {given['bound_s']} s")
    for what, since in left[:20]:
        print(f"{what} is under way for {time.monotonic() - since:.1f} s", file=sys.stderr)
    sys.stdout.flush()
    if left:
        os._exit(3)  # Does not wait for hanging work.


main()
