"""Where GPU plans and timings are stored by default, and that they do not grow without end."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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


def test_a_file_in_place_of_the_folder_is_ignored(tmp_path):
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


STEPS = """
import json, sys, torch, hipdnn.torch
import torch.nn.functional as F
x, w = torch.randn(2, 8, 32, 32), torch.randn(8, 8, 3, 3)
a = torch.randn(3, 5)
with hipdnn.torch.enable(timed=sys.argv[1:] != ["all"]):
    for _ in range(60):
        y = F.conv2d(x, w)
        b = a @ a.T
    torch.testing.assert_close(y, F.conv2d(x.double(), w.double()).float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(b, (a.double() @ a.double().T).float())
print(json.dumps([[row.function, row.routed, row.passed_on, row.reasons, row.stored] for row in hipdnn.torch.report()][:2]))
"""


def steps(folder, *arguments):
    """The first two rows of a process's report, by function."""
    variables = {**os.environ, "HIPDNN_CACHE_DIR": str(folder)}
    variables.pop("HIPDNN_PLAN_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", STEPS, *arguments], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {row[0]: row[1:] for row in json.loads(done.stdout.splitlines()[-1])}


def test_the_next_process_does_not_time_again(tmp_path):
    first = steps(tmp_path)
    for routed, passed_on, _, is_stored in first.values():
        assert routed and passed_on and not is_stored
    # Host plans are made as fast as read.
    (file,) = (tmp_path / "plans").iterdir()
    assert file.name.startswith("torch-choices-") and len(file.read_text().splitlines()) >= 2
    for name, (routed, passed_on, reasons, is_stored) in steps(tmp_path).items():
        # The earlier choice computes, at once: without PyTorch in all steps but those that are compared, or without hipDNN.
        assert is_stored and (routed == 0 or routed >= 3), (name, routed, passed_on)
        if first[name][0] < first[name][1]:
            assert routed == 0 and reasons
    # An explicit request for hipDNN is obeyed, whichever was faster.
    assert all(routed == 60 for routed, *_ in steps(tmp_path, "all").values())


def test_a_damaged_file_is_passed_over(tmp_path):
    steps(tmp_path)
    (file,) = (tmp_path / "plans").glob("torch-choices-*")
    whole = file.read_bytes()
    for damaged in (b"\xff\x001 2\n-1 5 aten::mm\n\n", whole[: len(whole) // 2], whole.replace(b" ", b"\n")):
        file.write_bytes(damaged)
        steps(tmp_path)
    # A long file loses its older half.
    file.write_bytes(b"1 2 aten::mm 3\n" * 100000 + whole)
    assert all(is_stored for *_, is_stored in steps(tmp_path).values())
    assert file.stat().st_size < 1 << 20
    # A line claiming that hipDNN takes no time costs time, but no result: `steps` compares them.
    file.write_bytes(b"".join(b"0 9 " + line.split(b" ", 2)[2] + b"\n" for line in whole.splitlines()))
    # Whole steps then decide against it, if need be.
    assert all(routed >= 3 for routed, *_ in steps(tmp_path).values())


def test_files_are_the_programs_to_switch_off(tmp_path):
    assert stored.find({"HIPDNN_CACHE_DIR": str(tmp_path), "HIPDNN_DISABLE_CACHE": "1"}) is None
    assert stored.find({"HIPDNN_CACHE_DIR": str(tmp_path), "HIPDNN_PLAN_CACHE_DIR": ""}) is None
    assert stored.find({"HIPDNN_PLAN_CACHE_DIR": str(tmp_path / "own")}) == tmp_path / "own"
    assert stored.choices(tmp_path, ("1", "2")) != stored.choices(tmp_path, ("1", "3"))
