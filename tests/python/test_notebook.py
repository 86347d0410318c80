"""Programs in the cells of a Jupyter notebook. Skipped where nbclient and ipykernel (scripts/setup_nbclient.sh) are not there."""

import os
import pathlib
import re
import textwrap
import time

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
import nbformat  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "notebooks"


class Client(nbclient.NotebookClient):
    """Notes when displays come and change."""

    def process_message(self, message, cell, index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            self.displays.append((time.monotonic(), message["msg_type"], message["content"]["data"]))
        return super().process_message(message, cell, index)


@pytest.fixture
def execute(tmp_path):
    def run(*cells, fails=False):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells])
        return execute_notebook(notebook, tmp_path, fails)

    return run


def execute_notebook(notebook, folder, fails=False):
    """Runs it as a front end does; returns its cells with their outputs, and the displays."""
    client = Client(notebook, timeout=180, startup_timeout=180, kernel_name="python3", allow_errors=fails, resources={"metadata": {"path": str(folder)}})
    client.displays = []
    # A kernel under pytest leaves descriptors 1 and 2 alone.
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    client.execute(env={**environment, "HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_CONFIG_DIR": str(folder / "jupyter")})
    return [cell for cell in notebook.cells if cell.cell_type == "code"], client.displays


def stream(cell):
    return "".join(output["text"] for output in cell.outputs if output.output_type == "stream")


def pages(cell):
    """HTML of the displays."""
    return [output["data"]["text/html"] for output in cell.outputs if output.output_type == "display_data"]


START = """
import time
import volador
from volador import tune
cluster = volador.init("local", num_cpus=2)
cluster
"""
TRAIN = """
def train(config):
    for step in range(1, 9):
        time.sleep(0.2)
        tune.report({"score": config["x"] * step})
"""


def test_output_of_actors_and_tasks_arrives_in_the_cell_that_runs(execute):
    cells, _ = execute(
        START,
        """
        class Speaker(volador.Actor):
            def say(self, words):
                print(words)
                return len(words)

        @volador.task
        def speak(words):
            import sys
            print(words, file=sys.stderr)

        speaker = Speaker.remote()
        speaker.say.remote("from an actor, first cell").result()
        time.sleep(2)
        """,
        """
        speaker.say.remote("from an actor, second cell").result()
        speak.remote("from a task").result()
        time.sleep(2)
        """,
        "await speaker.say.remote('four')",
        "speaker",
    )
    assert "from an actor, first cell" in stream(cells[1]) and "second cell" not in stream(cells[1])
    assert "from an actor, second cell" in stream(cells[2]) and "from a task" in stream(cells[2]) and "first cell" not in stream(cells[2])
    assert cells[3].outputs[-1]["data"]["text/plain"] == "4"
    assert "Private cluster" in cells[0].outputs[-1]["data"]["text/html"]
    assert "alive" in cells[4].outputs[-1]["data"]["text/html"]


def test_a_tuning_run_is_one_display_that_changes_in_place(execute):
    cells, displays = execute(
        START + TRAIN,
        """
        analysis = tune.run(train, name="climb", space={"x": tune.grid_search([1, 2, 3, 4])}, metric="score", storage_path="results", tensorboard=False)
        """,
        "analysis",
        "analysis.best_trial()",
    )
    assert len(pages(cells[1])) == 1
    assert "trials:" not in stream(cells[1])  # The lines of a program without a terminal.
    page = pages(cells[1])[0]
    assert "climb" in page and "4 of 4 trials: 4 finished" in page and "finished" in page
    assert page.count("★") == 1 and "<strong>" in page
    text = next(output["data"]["text/plain"] for output in cells[1].outputs if output.output_type == "display_data")
    assert re.search(r"best \w+: score 32 at step 8 · x 4", text)
    times = [at for at, kind, _ in displays]
    assert [kind for _, kind, _ in displays][:1] == ["display_data"] and len(displays) >= 4
    assert len(displays) <= 3 + 2.6 * (times[-1] - times[0])
    running = [data["text/html"] for _, _, data in displays[1:-1]]
    assert any("2 running" in each and "of 2 CPUs" in each for each in running)
    assert "★" in cells[2].outputs[-1]["data"]["text/html"]
    assert "score" in cells[3].outputs[-1]["data"]["text/html"]


def test_output_of_trials_and_a_failed_run_are_shown(execute):
    cells, _ = execute(
        START,
        """
        def train(config):
            print("trial with x", config["x"])
            tune.report({"score": 1.0})
            if config["x"] == 2:
                raise ValueError("x is <two>")
        analysis = tune.run(train, space={"x": tune.grid_search([1, 2])}, metric="score", storage_path="results", tensorboard=False)
        """,
        "time.sleep(2)",
        "tune.run(train, space={'x': 1}, metric='score', storage_path='results', tensorboard=False, progress='silent'); time.sleep(2)",
        "import volador as v",
        fails=True,
    )
    page = pages(cells[1])[0]
    assert "1 finished, 1 failed" in page and "x is &lt;two&gt;" in page and "failed" in page
    assert any(output.output_type == "error" and output.ename == "TaskError" for output in cells[1].outputs)
    assert "trial with x 1" in stream(cells[1]) + stream(cells[2])
    assert pages(cells[3]) == [] and "trial with x 1" in stream(cells[3])


def test_a_training_run_is_one_display_that_changes_in_place(execute):
    pytest.importorskip("torch")
    cells, displays = execute(
        START,
        """
        from volador import train

        def fit(config):
            for step in range(1, 6):
                time.sleep(0.2)
                with train.checkpoint_folder() as folder:
                    train.report({"loss": 1 / step}, checkpoint=folder)

        trainer = train.TorchTrainer(fit, config={}, num_workers=2, name="digits", storage="results")
        result = trainer.fit()
        """,
        "result",
        "train.TorchTrainer(fit, config={}, storage='results', progress='silent').fit();",
    )
    page = pages(cells[1])[0]
    assert len(pages(cells[1])) == 1
    assert "digits" in page and "finished" in page and "step 5" in page and "2 workers" in page and "last checkpoint after step 5" in page
    assert any("running" in data.get("text/html", "") and "loss" in data["text/html"] for _, _, data in displays)
    assert "loss" in cells[2].outputs[-1]["data"]["text/html"]
    assert pages(cells[3]) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_example_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in notebook.cells), "the notebook is kept without its outputs"
    cells, _ = execute_notebook(notebook, tmp_path)
    assert any(pages(cell) for cell in cells)


def test_there_is_an_example():
    assert list(EXAMPLES.glob("*.ipynb"))
