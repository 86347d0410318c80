import os
import tempfile

import pytest

_home = tempfile.TemporaryDirectory(prefix="volador-python-")
os.environ["VOLADOR_HOME"] = _home.name  # Before the first cluster of this process.

import volador  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def cluster():
    with volador.init("local", num_cpus=4, num_gpus=2) as context:
        yield context
