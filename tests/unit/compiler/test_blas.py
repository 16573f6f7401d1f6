"""NumPy's products get one thread where XLA has one, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

SAID = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")


def answers(code, **said):
    environment = {key: value for key, value in os.environ.items() if key not in SAID}
    done = subprocess.run(
        [sys.executable, "-c", f"import os; from millrace.compiler import blas, xla; {code}"],
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


@pytest.mark.parametrize(("count", "expected"), [(1, [1]), (2, [2])])
def test_a_task_with_a_core_of_its_own_multiplies_in_one_thread(count, expected):
    code = (
        "import threadpoolctl; from millrace.server import threads;"
        f"threadpoolctl.threadpool_limits(2, 'blas'); threads.use({count});"
        "print(*{i['num_threads'] for i in threadpoolctl.threadpool_info()"
        " if i['user_api'] == 'blas'})"
    )
    assert answers(code) == list(map(str, expected))
