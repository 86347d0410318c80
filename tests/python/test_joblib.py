"""joblib on tasks."""

import os
import time

import pytest

joblib = pytest.importorskip("joblib")

import volador  # noqa: E402
from volador.util.joblib import register_volador  # noqa: E402

register_volador()


def square(x):
    return x * x, os.getpid()


def fail(x):
    if x == 3:
        raise ArithmeticError(f"cannot do {x}")
    return x


def test_results_in_order_from_other_processes():
    with joblib.parallel_config("volador", n_jobs=2):
        done = joblib.Parallel()(joblib.delayed(square)(x) for x in range(200))
    assert [value for value, _ in done] == [x * x for x in range(200)]
    assert os.getpid() not in {pid for _, pid in done}


def test_lambdas_and_a_generator_of_results():
    with joblib.parallel_config("volador", n_jobs=2):
        done = joblib.Parallel(return_as="generator")(joblib.delayed(lambda x: x + 1)(x) for x in range(5))
        assert list(done) == [1, 2, 3, 4, 5]


def test_an_exception_keeps_its_type_and_ends_the_rest(tmp_path):
    def slow(x):
        if x == 0:
            raise ArithmeticError("cannot do it")
        time.sleep(60)

    began = time.monotonic()
    with joblib.parallel_config("volador", n_jobs=2), pytest.raises(ArithmeticError, match="cannot do it"):
        joblib.Parallel()(joblib.delayed(slow)(x) for x in range(4))
    deadline = time.monotonic() + 20
    while volador.available_resources()["cpus"] < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert volador.available_resources()["cpus"] == 4 and time.monotonic() - began < 30


def test_number_of_jobs():
    with joblib.parallel_config("volador"):
        assert joblib.effective_n_jobs(-1) == 4 and joblib.effective_n_jobs(-2) == 3 and joblib.effective_n_jobs(7) == 7
        assert joblib.effective_n_jobs(-100) == 1


def test_options_of_the_tasks():
    def gpus():
        return volador.get_runtime_context()["resources"].get("gpus", 0)

    with joblib.parallel_config("volador", n_jobs=2, num_gpus=0.5):
        assert joblib.Parallel()(joblib.delayed(gpus)() for _ in range(2)) == [0.5, 0.5]


def test_what_cannot_be_is_refused():
    with joblib.parallel_config("volador", n_jobs=0), pytest.raises(ValueError, match="n_jobs is 0; expected a number, or -1"):
        joblib.Parallel()(joblib.delayed(square)(x) for x in range(3))
    with joblib.parallel_config("volador", n_jobs=2, num_gpu=1), pytest.raises(ValueError, match="did you mean num_gpus"):
        joblib.Parallel()(joblib.delayed(square)(x) for x in range(3))


def test_name_of_ray():
    from volador.compat.ray.util.joblib import register_ray

    register_ray()
    with joblib.parallel_config("ray", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(fail)(x) for x in range(3)) == [0, 1, 2]
