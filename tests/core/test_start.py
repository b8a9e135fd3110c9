"""What importing the core sets, and what it leaves to whoever has set it already."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("", "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"),
        (
            "--xla_backend_optimization_level=3",
            "--xla_backend_optimization_level=3 --xla_cpu_use_fusion_emitters=false",
        ),
    ],
)
def test_quick_compilation_where_nobody_said_otherwise(said, left):
    code = "import os, dgp_core, jax; jax.numpy.ones(3).sum(); print(os.environ['XLA_FLAGS'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLA_FLAGS": said},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == left, done.stderr
