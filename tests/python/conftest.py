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


@pytest.fixture
def determined_alone(tmp_path, monkeypatch):
    """A folder of its own for what a trial of Determined stores, and no trial left behind."""
    from volador.compat.determined import _info
    from volador.compat.determined.core import _preempt

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    yield
    _info.set_cluster_info(None)
    _preempt._requested.clear()
