"""Runs each case of a program twice: in TensorFlow's own session, and on a Millrace cluster.

The last line printed is JSON: a case's name to what came out "here" and "there".
"""

import json
import sys
import time
import traceback

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

_CASES = {}


def case(function):
    """Decorates a case: a function of a site whose value is compared."""
    _CASES[function.__name__] = function
    return function


def named_case(name, function):
    """Adds a case that is made by a loop."""
    _CASES[name] = function


class Site:
    """Where a case runs.

    Attributes:
      target: What sessions connect to; empty for TensorFlow's own session.
      addresses: The cluster's addresses by job; None for TensorFlow's own session.
    """

    def __init__(self, addresses):
        self.addresses = addresses
        self.target = f"grpc://{addresses['worker'][0]}" if addresses else ""

    def target_of(self, job, index):
        """The target of a task."""
        return f"grpc://{self.addresses[job][index]}" if self.addresses else ""

    def device(self, name):
        """Places on a task of the cluster; nowhere in particular without one."""
        return tf.device(name if self.addresses else None)

    def ps(self, index=0):
        """Places on a parameter server."""
        return self.device(f"/job:ps/task:{index}")

    def worker(self, index=0):
        """Places on a worker."""
        return self.device(f"/job:worker/task:{index}")

    def session(self, index=0, config=None, graph=None):
        """A session at a worker."""
        return tf.Session(self.target_of("worker", index), graph=graph, config=config)


def raised(call):
    """The class and text of what a call raises."""
    try:
        call()
    except Exception as error:
        return type(error), str(error)
    return None, ""


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value


def _outcome(function, site):
    begin = time.time()
    print("there" if site.addresses else "here", file=sys.stderr, flush=True)
    try:
        with tf.Graph().as_default():
            outcome = {"value": _plain(function(site))}
    except Exception as error:
        outcome = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    outcome["seconds"] = round(time.time() - begin, 3)
    return outcome


def main():
    """Runs the cases named on the command line after the addresses, or all."""
    addresses = json.loads(sys.argv[1])
    found = {}
    for name in sys.argv[2:] or _CASES:
        print(name, file=sys.stderr, flush=True)
        found[name] = {
            "here": _outcome(_CASES[name], Site(None)),
            "there": _outcome(_CASES[name], Site(addresses)),
        }
    print(json.dumps(found))
