"""Shared fixtures. Tests run with the installed package, or with the library in HIPDNN_BACKEND_LIBRARY_PATH."""

from __future__ import annotations

import os

# Timings of one test must not choose for another; tests of stored timings name a folder.
os.environ.setdefault("HIPDNN_PLAN_CACHE_DIR", "")

import hipdnn
import numpy as np
import pytest


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "smoke: each part of hipdnn.torch in short, for `cargo xtask test` where PyTorch is"
    )


def pytest_report_header(config: object) -> str:
    return f"hipdnn {hipdnn.__version__}, {hipdnn.library().path}"
