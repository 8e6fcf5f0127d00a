"""hipdnn-backend for Spack."""

import os

from spack.package import *


class HipdnnBackend(Package):
    """hipDNN's backend C interface with engines for CPUs, AMD and NVIDIA GPUs."""

    git = os.environ.get("HIPDNN_REPOSITORY", "")

    license("MIT", checked_by="hipdnn-backend")

    version("main", branch="main")
    version("0.6.0", tag="v0.5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.95:", type="build")

    conflicts("platform=darwin")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("xtask", "install", "--prefix", str(prefix))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_engines(self):
        Executable(self.prefix.bin.hipdnn)("engines")
