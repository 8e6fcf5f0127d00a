"""Sessions with the execution provider, and the contents of its report."""

import json
import os
import sys
import tempfile
import threading

import numpy as np
import onnxruntime as ort

# Reports on GPUs ask engines for their reasons, which the library only logs.
os.environ.setdefault("HIPDNN_LOG_FILE", os.devnull)

NAME = "HipDNNExecutionProvider"
LIBRARY = os.environ["HIPDNN_ORT_LIBRARY"]
# Tests run on a GPU if this says so.
DEVICE = os.environ.get("HIPDNN_ORT_DEVICE", "cpu")
VERSION = int(ort.__version__.split(".")[1])

ort.set_default_logger_severity(4)
ort.register_execution_provider_library("hipdnn", LIBRARY)
DEVICES = [device for device in ort.get_ep_devices() if device.ep_name == NAME]


def options(threads=0):
    of = ort.SessionOptions()
    of.log_severity_level = 4
    of.intra_op_num_threads = threads
    # On processors without dot products of bytes, ONNX Runtime's sums saturate at 16 bits otherwise.
    of.add_session_config_entry("session.x64quantprecision", "1")
    return of


def session(model, settings=None, threads=0):
    """A session with the provider, and ONNX Runtime's own for the rest."""
    of = options(threads)
    settings = {"device": DEVICE, **({"threads": str(threads)} if threads else {}), **(settings or {})}
    of.add_provider_for_devices(DEVICES, settings)
    # After a failure, do not retry without the provider.
    return ort.InferenceSession(model, of, enable_fallback=0)


def reported(model, settings=None, threads=0):
    """A session, and each node as the provider last saw it: with its subgraph, or the reason why it was not claimed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        made = session(model, {"report": path, **(settings or {})}, threads)
        graphs = []
        # The provider is never asked about a graph that is constant as a whole.
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                graphs = [json.loads(line)["nodes"] for line in lines]
    # When asked again, ONNX Runtime has replaced claimed nodes by its own.
    return made, next((nodes for nodes in graphs if nodes), [])


def plain(model, threads=0):
    return ort.InferenceSession(model, options(threads), providers=["CPUExecutionProvider"])


class Bound:
    """A session whose inputs and outputs are bound on the GPU."""

    def __init__(self, own, feeds):
        self.own, self.binding = own, own.io_binding()
        gpu = next(device for device in DEVICES if device.device.type == ort.OrtHardwareDeviceType.GPU)
        vendor = gpu.device.vendor_id

        def there(array):
            return ort.OrtValue.ortvalue_from_numpy(array, "gpu", 0, vendor_id=vendor)

        for name, array in feeds.items():
            self.binding.bind_ortvalue_input(name, there(array))
        for of, array in zip(own.get_outputs(), own.run(None, feeds)):
            self.binding.bind_ortvalue_output(of.name, there(array))

    def run(self, *_):
        self.own.run_with_iobinding(self.binding)

    def results(self):
        return [of.numpy() for of in self.binding.get_outputs()]


def difference(have, want):
    """The largest difference relative to the largest magnitude; infinite if NaN, shapes or types differ."""
    have, want = np.asarray(have), np.asarray(want)
    if have.shape != want.shape or have.dtype != want.dtype:
        return float("inf")
    if have.size == 0:
        return 0.0
    if have.dtype.kind not in "fc" and str(have.dtype) != "bfloat16":
        return 0.0 if np.array_equal(have, want) else float("inf")
    have, want = have.astype(np.float64), want.astype(np.float64)
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(have - want))
    if not np.all(np.isfinite(gap)):
        return float("inf")
    return float(gap.max() / max(1e-30, np.abs(want[np.isfinite(want)]).max(initial=0.0)))


def in_threads(work, count):
    """Runs `work(0)` to `work(count - 1)` in threads, and waits for them."""
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_tests(of):
    """Runs the functions whose names begin with test_, or those that contain an argument of the command line: 1 if one failed."""
    words = sys.argv[1:]
    tests = [(name, test) for name, test in of.items() if name.startswith("test_")]
    tests = [(name, test) for name, test in tests if not words or any(word in name for word in words)]
    failed = 0
    for name, test in tests:
        try:
            test()
        except Exception as error:
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {str(error)[:800]}")
    print(f"{len(tests) - failed} of {len(tests)} passed with ONNX Runtime {ort.__version__}")
    return 1 if failed else 0
