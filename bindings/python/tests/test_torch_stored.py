"""Where plans of GPUs are stored by default, and that they do not grow without end."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from hipdnn.torch import stored  # noqa: E402


def test_the_folder_is_the_users_own(tmp_path):
    variables = {"HIPDNN_CACHE_DIR": str(tmp_path / "cache")}
    folder = stored.choose(variables)
    assert folder == tmp_path / "cache" / "plans" and folder.stat().st_mode & 0o777 == 0o700
    assert variables["HIPDNN_PLAN_CACHE_DIR"] == str(folder)


@pytest.mark.parametrize("chosen", ["", "/elsewhere"])
def test_the_program_chooses(chosen, tmp_path):
    variables = {"HIPDNN_CACHE_DIR": str(tmp_path / "cache"), "HIPDNN_PLAN_CACHE_DIR": chosen}
    assert stored.choose(variables) is None
    assert variables["HIPDNN_PLAN_CACHE_DIR"] == chosen and not (tmp_path / "cache").exists()


def test_a_folder_that_others_write_to_is_not_used(tmp_path):
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans").chmod(0o777)
    variables = {"HIPDNN_CACHE_DIR": str(tmp_path)}
    assert stored.choose(variables) is None and "HIPDNN_PLAN_CACHE_DIR" not in variables


def test_a_file_in_its_place_is_no_error(tmp_path):
    (tmp_path / "plans").write_text("")
    assert stored.choose({"HIPDNN_CACHE_DIR": str(tmp_path / "plans")}) is None


def test_the_oldest_files_go(tmp_path):
    for at in range(10):
        (tmp_path / str(at)).write_bytes(bytes(100))
        os.utime(tmp_path / str(at), (1000 + at, 1000 + at))
    (tmp_path / "folder").mkdir()
    stored.trim(tmp_path, 450)
    assert sorted(os.listdir(tmp_path)) == ["6", "7", "8", "9", "folder"]
    stored.trim(tmp_path / "missing", 0)
