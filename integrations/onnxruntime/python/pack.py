"""Packs the wheel: pack.py LIBRARY BACKEND_FOLDER VERSION TAG LICENCES... OUT. All files get the same date, so that equal inputs give equal wheels."""

import base64
import hashlib
import os
import sys
import zipfile

NAME, MODULE = "hipdnn-onnxruntime-ep", "onnxruntime_ep_hipdnn"


def main():
    library, backend, version, tag, *licences, out = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    files = {}
    for name in sorted(os.listdir(os.path.join(here, MODULE))):
        if name.endswith(".py"):
            files[f"{MODULE}/{name}"] = os.path.join(here, MODULE, name)
    files[f"{MODULE}/libonnxruntime_ep_hipdnn.so"] = library
    for folder, _, names in sorted(os.walk(backend)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            files[f"{MODULE}/{os.path.relpath(path, backend)}"] = path
    info = f"{NAME.replace('-', '_')}-{version}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
        "Summary: hipDNN's execution provider for ONNX Runtime, with its engines for CPUs and GPUs\n"
        "License: MIT\nRequires-Python: >=3.9\nClassifier: Operating System :: POSIX :: Linux\n\n"
        "`python -m onnxruntime_ep_hipdnn model.onnx` says what of a model is taken. Install onnxruntime 1.23 or newer beside it.\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: hipdnn-backend\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n",
    }
    for path in licences:
        folder = "sboms" if path.endswith(".json") else "licenses"
        files[f"{info}/{folder}/{os.path.basename(path)}"] = path
    contents = {name: open(path, "rb").read() for name, path in files.items()}
    contents.update({name: text.encode() for name, text in texts.items()})
    record = ""
    wheel = os.path.join(out, f"{NAME.replace('-', '_')}-{version}-py3-none-{tag}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, data):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)

        for name, data in contents.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            add(name, data)
        add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode())
    print(wheel)


if __name__ == "__main__":
    main()
