"""volador.storage over a folder; tests/integration/storage_test.py has the object stores."""

import hashlib
import os

import pytest

from volador import exceptions, storage


def test_a_folder_is_stored_and_read(tmp_path):
    made = tmp_path / "made"
    (made / "inner").mkdir(parents=True)
    (made / "weights").write_bytes(os.urandom(100_000))
    (made / "inner" / "note").write_text("text")
    place = storage.open(f"file://{tmp_path}/store")
    assert place.address == f"{tmp_path}/store"
    files = place.upload(made, "digits/final")
    assert [(one.path, one.bytes) for one in files] == [("inner/note", 4), ("weights", 100_000)]
    assert files[1].sha256 == hashlib.sha256((made / "weights").read_bytes()).hexdigest()
    assert place.exists("digits/final") and place.keys() == ["digits/final"] and place.describe("digits/final") == files
    assert place.download("digits/final", tmp_path / "back", only=["inner"]) == files[:1]
    assert not (tmp_path / "back" / "weights").exists()
    place.delete("digits/final")
    place.delete("digits/final")
    assert not place.exists("digits/final")
    with pytest.raises(exceptions.NotFoundError, match="nothing is stored there"):
        place.download("digits/final", tmp_path / "again")


def test_mappings_have_the_keys_of_determined(tmp_path):
    place = storage.open({"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "inner", "save_trial_best": 1, "container_path": None})
    assert place.address == f"{tmp_path}/inner"
    with pytest.raises(exceptions.InvalidArgumentError, match="not inside host_path"):
        storage.open({"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "/etc"})
    with pytest.raises(exceptions.InvalidArgumentError, match='unknown key "bukket"; did you mean bucket'):
        storage.open({"type": "s3", "bukket": "models"})


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(exceptions.InvalidArgumentError) as raised:
        storage.open("s3://key:hidden@models/x")
    assert "hidden" not in str(raised.value)
