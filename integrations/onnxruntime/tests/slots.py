"""Compares the indices of functions and members in src/ort with ONNX Runtime's headers (Debian: libonnxruntime-dev), whose folder is the first argument."""

import os
import re
import sys

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "ort")

#: Our names, if they are not the header's name in another spelling.
OTHERS = {
    "ReleaseStatus": "Status", "ReleaseMemoryInfo": "MemoryInfo", "ReleaseValue": "Value", "ReleaseOpAttr": "OpAttr", "ReleaseProfilingEvent": "ProfilingEvent",
    "ReleaseTensorTypeAndShapeInfo": "TensorTypeAndShapeInfo", "ReleaseKeyValuePairs": "KeyValuePairs",
    "ReleaseHardwareDevice": "HardwareDevice", "ReleaseRunOptions": "RunOptions",
}  # fmt: skip


def members(text, name):
    """The members of a struct in their order."""
    found = re.search(rf"struct {name}\s*\{{(.*?)\n\}}(?: {name})?;", text, re.S)
    names = []
    for part in found.group(1).split(";") if found else []:
        part = re.sub(r"^\s*#.*$", "", part, flags=re.M).strip()
        forms = (
            r"ORT_API2_STATUS\(\s*(\w+)",
            r"ORT_API_T\([^,]*,\s*(\w+)",
            r"ORT_CLASS_RELEASE2?\(\s*(\w+)",
            r"\(\s*ORT_API_CALL\s*\*\s*(?:NO_EXCEPTION\s+)?(\w+)",
            r"(\w+)\s*$",
        )
        hit = next((hit for form in forms if (hit := re.search(form, part))), None)
        if part and hit and hit.group(1) != "not_defined_in_this_build":
            names.append(hit.group(1))
    return names


def snake(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def main():
    headers = ""
    for folder, _, files in sorted(os.walk(sys.argv[1])):
        for file in sorted(files):
            if file in ("onnxruntime_c_api.h", "onnxruntime_ep_c_api.h"):
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    headers += re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", source.read(), flags=re.S))
    if not headers:
        print(f"{sys.argv[1]} has no onnxruntime_c_api.h")
        return 1
    version = int(re.search(r"#define ORT_API_VERSION (\d+)", headers).group(1))
    with open(os.path.join(SOURCES, "table.rs"), encoding="utf-8") as source:
        tables = re.findall(r"^    (Ort\w+) \{\n(.*?)^    \}", source.read(), re.S | re.M)
    wrong, count = [], 0
    for table, body in tables:
        names = members(headers, table)
        for slot, since, name in re.findall(r"(\d+) since (\d+) (\w+)\(", body):
            if int(since) > version:
                continue
            count += 1
            have = names[int(slot)] if int(slot) < len(names) else "nothing"
            if have not in (name, OTHERS.get(name)):
                wrong.append(f"{table} {slot} is {name} here and {have} in the header")
    with open(os.path.join(SOURCES, "structs.rs"), encoding="utf-8") as source:
        structs = re.findall(
            r"pub struct (OrtEp|OrtEpFactory|OrtNodeComputeInfo|OrtEpProfilerImpl|OrtAllocator|OrtDataTransferImpl) \{\n(.*?)\n\}",
            source.read(),
            re.S,
        )
    for struct, body in structs:
        names = [snake(name) for name in members(headers, struct)]
        at = 0
        for name, kind in re.findall(r"^    pub (\w+):\s*(.*?)(?=,\n    (?:pub|///)|,?\Z)", body, re.S | re.M):
            room = re.match(r"\[\*const c_void; (\d+)\]", kind)
            if at < len(names) and not room:
                count += 1
                words = {
                    "compatibility": "get_compiled_model_compatibility_info",
                    "validate_compiled_model": "validate_compiled_model_compatibility_info",
                    "create_sync_stream": "create_sync_stream_for_device",
                }
                if names[at] != words.get(name, name):
                    wrong.append(f"{struct} {at} is {name} here and {names[at]} in the header")
            at += int(room.group(1)) if room else 1
        if version >= 28 and at != len(names):
            wrong.append(f"{struct} has {at} members here and {len(names)} in the header")
    for line in wrong:
        print("FAILED", line)
    print(f"{count} places as in the headers of version {version}")
    return 1 if wrong or count < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
