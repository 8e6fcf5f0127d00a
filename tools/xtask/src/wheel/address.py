"""Adds the address of the project to a wheel: python3 address.py WHEEL ADDRESS."""

import base64
import hashlib
import os
import sys
import zipfile

wheel, address = sys.argv[1:]
with zipfile.ZipFile(wheel) as old:
    entries = [(entry, old.read(entry)) for entry in old.infolist()]
(metadata,) = (entry.filename for entry, _ in entries if entry.filename.endswith(".dist-info/METADATA"))
lines = f"Project-URL: Repository, {address}\nProject-URL: Issues, {address}/issues\n"
with zipfile.ZipFile(wheel + ".new", "w") as new:
    for entry, data in entries:
        if entry.filename == metadata:
            head, blank, text = data.partition(b"\n\n")
            head = head.rstrip(b"\n") + b"\n" + lines.encode()
            data = head + (b"\n" + text if blank else b"")
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record = f"{metadata},sha256={digest},{len(data)}"
        if entry.filename.endswith(".dist-info/RECORD"):
            old_lines = data.decode().splitlines()
            data = "".join((record if line.startswith(metadata + ",") else line) + "\n" for line in old_lines).encode()
        new.writestr(entry, data, compress_type=entry.compress_type)
os.replace(wheel + ".new", wheel)
