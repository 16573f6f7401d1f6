"""NumPy's products get one thread where XLA has one, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

SAID = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")


def answers(code, **said):
    environment = {key: value for key, value in os.environ.items() if key not in SAID}
    done = subprocess.run(
        [sys.executable, "-c", f"import os; from millrace.ops import blas, xla; {code}"],
        env={**environment, **said},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(("said", "expected"), [(None, "True"), ("1", "True"), ("3", "False")])
def test_what_the_user_says_of_threads_holds(said, expected):
    more = {} if said is None else {"OPENBLAS_NUM_THREADS": said}
    assert answers("print(blas.use_one_thread())", **more) == [expected]


def test_products_go_into_messages_where_xla_was_given_one_thread():
    code = (
        "from millrace.runtime import product_stage as p; print(p.is_better());"
        "xla.use_threads({}); print(p.is_better())"
    )
    assert answers(code.format(1)) == ["False", "True"]
    assert answers(code.format(2)) == ["False", "False"]
