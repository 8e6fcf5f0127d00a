"""The installed package: its functions, and the command that shows how a model is divided."""

import os
import subprocess
import sys
import tempfile
import time

import networks

begun = time.perf_counter()
import onnxruntime_ep_hipdnn as ep  # noqa: E402

imported = time.perf_counter() - begun


def main():
    assert imported < 0.05, f"the import took {1000 * imported:.0f} ms, expected less than 50"
    assert os.path.isfile(ep.get_library_path()) and ep.get_ep_names() == [ep.get_ep_name()]
    with tempfile.TemporaryDirectory() as folder:
        model, picture = os.path.join(folder, "model.onnx"), os.path.join(folder, "division.svg")
        with open(model, "wb") as file:
            file.write(networks.mobilenet_v3(1)[0])
        words = [sys.executable, "-m", "onnxruntime_ep_hipdnn", model, "--threads", "2"]
        wrong = subprocess.run([*words, "--shape", "other=1,3"], check=False, capture_output=True, text=True)
        assert wrong.returncode == 1 and "no such input" in wrong.stderr, wrong
        words += ["--svg", picture, "--layers", "--batch", "2"]
        out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert "ms a run in the profile" in out, out
        assert "hipDNN takes 140 of 140 nodes in 1 subgraphs" in out, out
        with open(picture, encoding="utf-8") as file:
            text = file.read()
        assert text.startswith("<svg") and "subgraph 0: 140 nodes" in text, text[:500]
    print(out.splitlines()[-1])


main()
