"""The server's start."""

from threadpoolctl import threadpool_info, threadpool_limits

from pages.ui.startup import leave_cores_to_training


def test_numpy_s_blas_leaves_the_cores_to_training():
    with threadpool_limits(2, user_api="blas"):  # which puts back what was before
        leave_cores_to_training()
        assert {library["num_threads"] for library in threadpool_info() if _is_blas(library)} == {1}


def _is_blas(library: dict) -> bool:
    return library["user_api"] == "blas"
