"""Which files of a program travel to other machines."""

import io
import subprocess
import sys
import warnings
import zipfile

import pytest
from volador import _code


def write(root, **files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def names(archive):
    return sorted(zipfile.ZipFile(io.BytesIO(archive)).namelist())


@pytest.fixture
def project(tmp_path):
    write(
        tmp_path,
        **{
            "main.py": "a",
            "data/table.csv": "1,2",
            "package/__init__.py": "",
            "package/inner/part.py": "b",
            "package/__pycache__/part.pyc": "x",
            ".hidden/secret": "x",
            "venv/pyvenv.cfg": "x",
            "venv/lib/big.py": "x",
        },
    )
    return tmp_path


def test_all_but_hidden_folders_and_environments(project):
    assert _code.files_of(str(project)) == ["main.py", "data/table.csv", "package/__init__.py", "package/inner/part.py"]


def test_what_git_ignores_stays(project):
    write(project, **{".gitignore": "*.csv\nvenv\n.hidden\n__pycache__\n"})
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    assert _code.files_of(str(project)) == [".gitignore", "main.py", "package/__init__.py", "package/inner/part.py"]


@pytest.mark.parametrize("pattern", ["data", "data/", "*.csv", "/data/table.csv", "data/*"])
def test_what_voladorignore_names_stays(project, pattern):
    write(project, **{".voladorignore": f"# data\n\n{pattern}\n"})
    assert "data/table.csv" not in _code.files_of(str(project))
    assert "package/inner/part.py" in _code.files_of(str(project))


def test_equal_files_are_equal_archives(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for name in _code.files_of(str(project)):
        write(other, **{name: (project / name).read_text()})
    assert _code.archive_of([str(project)]) == _code.archive_of([str(other)])
    assert names(_code.archive_of([str(project), str(other)])) == sorted(f"{index}/{name}" for index in (0, 1) for name in _code.files_of(str(project)))
    write(other, **{"main.py": "changed"})
    assert _code.archive_of([str(project)]) != _code.archive_of([str(other)])


def test_of_a_large_folder_only_its_modules_with_a_warning(project, monkeypatch):
    monkeypatch.setattr(_code, "BYTES_MAX", 2 << 20)
    write(project, **{"data/large.bin": "x" * (3 << 20)})
    with pytest.warns(UserWarning, match=r"at most 2 MiB travel.*Largest: data/large.bin \(3 MiB\).*\.voladorignore"):
        archive = _code.archive_of([str(project)])
    assert names(archive) == ["0/main.py", "0/package/__init__.py", "0/package/inner/part.py"]


def test_modules_that_are_too_large_are_refused(project, monkeypatch):
    monkeypatch.setattr(_code, "BYTES_MAX", 1 << 20)
    write(project, **{"huge.py": "#" * (2 << 20)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"the modules below .* exceed the 1 MiB.*\.voladorignore"):
            _code.archive_of([str(project)])


def test_installations_are_no_folders_of_the_program(project, tmp_path_factory, monkeypatch):
    installed = tmp_path_factory.mktemp("installed")
    (installed / "thing-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(project), str(installed), str(project), "/nowhere", *sys.path])
    found = _code.own_folders()
    assert found[0] == str(project) and found.count(str(project)) == 1
    assert not any(str(installed) in folder or "site-packages" in folder or "/lib/python3" in folder for folder in found)
