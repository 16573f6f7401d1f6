"""Device names: parsing, writing, merging and matching, as TensorFlow does them."""

import pickle
from types import SimpleNamespace

import pytest

from millrace.core.device_spec import (
    DeviceSpec,
    MergeDevice,
    are_compatible,
    canonical_name,
    is_subset,
    matches,
    merge_device,
)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("/job:ps/replica:0/task:1/cpu:0", "/job:ps/replica:0/task:1/device:CPU:0"),
        ("/job:ps/replica:0/task:1/device:CPU:0", "/job:ps/replica:0/task:1/device:CPU:0"),
        ("cpu:0", "/device:CPU:0"),
        ("gpu:0", "/device:GPU:0"),
        ("gpu", "/device:GPU:*"),
        ("/gpu:*", "/device:GPU:*"),
        ("/device:GPU:*", "/device:GPU:*"),
        ("/CpU:0", "/device:CPU:0"),
        ("/tpu:1", "/device:TPU:1"),
        ("/device:cpu:0", "/device:CPU:0"),
        ("/device:CpU:0", "/device:CpU:0"),
        ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
        ("/job:*", "/job:*"),
        ("job:a", "/job:a"),
        ("/task:3/job:a", "/job:a/task:3"),
        ("/job:a//task:1", "/job:a/task:1"),
        ("/job:a/job:b", "/job:b"),
        ("/:0", ""),
        ("/", ""),
        ("", ""),
        (None, ""),
        # Not TensorFlow's Python, but its C++: names in running graphs have stars in them.
        ("/job:a/replica:*/task:*", "/job:a"),
    ],
)
def test_a_name_is_read_and_written_canonically(name, canonical):
    assert DeviceSpec.from_string(name).to_string() == canonical
    assert canonical_name(name) == canonical
    assert canonical_name(DeviceSpec.from_string(name)) == canonical
    assert DeviceSpec(job="old", task=9).parse_from_string(name).to_string() == canonical


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/foo:1", "Unknown attribute: 'foo' in device spec '/foo:1'"),
        ("/job:a:b", "Unknown attribute: 'job'"),
        ("/device:CPU", "Unknown attribute: 'device'"),
        ("/XLA_CPU:0", "Unknown attribute: 'XLA_CPU'"),
        ("/cpu:0/gpu:0", "Multiple device types are not allowed"),
        ("/cpu:0/device:CPU:0", "Multiple device types are not allowed"),
        ("/cpu:x", "'x' is not a number in '/cpu:x'"),
        ("/job:a/task:x", "'x' is not a number in '/task:x' of the device spec '/job:a/task:x'"),
    ],
)
def test_a_name_that_is_not_understood_is_refused_each_time(name, message):
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            DeviceSpec.from_string(name)


def test_components_are_converted():
    spec = DeviceSpec(job=1, replica="2", task="3", device_type="gpu", device_index="4")
    assert (spec.job, spec.replica, spec.task, spec.device_type, spec.device_index) == (
        ("1", 2, 3, "GPU", 4)
    )
    assert DeviceSpec(device_index=2).to_string() == ""
    assert repr(DeviceSpec(job="a")) == (
        "<DeviceSpec(job=a, replica=None, task=None, device_type=None, device_index=None)>"
    )


def test_a_spec_can_be_changed_and_its_name_follows():
    spec = DeviceSpec(job="a")
    assert spec.to_string() == "/job:a"
    spec.job, spec.replica, spec.task = "b", "0", 1
    assert spec.to_string() == "/job:b/replica:0/task:1"
    spec.device_type = "cpu"
    assert spec.to_string() == "/job:b/replica:0/task:1/device:CPU:*"
    spec.device_index = 3
    assert spec.to_string() == "/job:b/replica:0/task:1/device:CPU:3"
    assert hash(spec) == hash(DeviceSpec.from_string("/job:b/replica:0/task:1/cpu:3"))
    assert spec.replace(job=None, task=2).to_string() == "/replica:0/task:2/device:CPU:3"


def test_specs_are_equal_by_name_and_can_be_pickled():
    spec = DeviceSpec(job="a", device_type="CPU", device_index=0)
    assert spec == DeviceSpec.from_string("/job:a/cpu:0")
    assert spec != DeviceSpec(job="a")
    assert spec != "/job:a/device:CPU:0"
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_merging_prefers_the_argument():
    outer = DeviceSpec.from_string("/job:a/task:1/cpu:0")
    inner = DeviceSpec.from_string("/task:2/gpu:*")
    assert outer.make_merged_spec(inner).to_string() == "/job:a/task:2/device:GPU:0"
    assert outer.to_string() == "/job:a/task:1/device:CPU:0"
    outer.merge_from(inner)
    assert outer.to_string() == "/job:a/task:2/device:GPU:0"


@pytest.mark.parametrize(
    ("scopes", "result"),
    [
        (["/job:ps", "/gpu:1"], "/job:ps/device:GPU:1"),
        (["/job:ps/cpu:0", "/job:worker"], "/job:worker/device:CPU:0"),
        (["/job:train", "/job:ps/device:GPU:0"], "/job:ps/device:GPU:0"),
        (["/gpu:1", ""], "/device:GPU:1"),
        ([None, "/cpu:0"], "/device:CPU:0"),
        ([], ""),
    ],
)
def test_device_scopes_merge_with_the_innermost_winning(scopes, result):
    device = ""
    for scope in reversed(scopes):
        merge = merge_device(scope)
        by_call = merge(SimpleNamespace(device=device))
        device = merge.merge_name(device)
        assert isinstance(by_call, DeviceSpec)
        assert by_call.to_string() == device
    assert device == result


def test_a_device_function_keeps_the_spec_as_it_was():
    spec = DeviceSpec(job="ps")
    merge = merge_device(spec)
    spec.job = "worker"
    assert merge.merge_name("/cpu:0") == "/job:ps/device:CPU:0"


def test_a_device_function_keeps_an_index_without_a_type():
    assert merge_device(DeviceSpec(device_index=2)).merge_name("/gpu:*") == "/device:GPU:2"


def test_merge_device_takes_device_functions_and_refuses_bad_names():
    merge = merge_device("/job:ps")
    assert isinstance(merge, MergeDevice)
    assert merge_device(merge) is merge
    assert not merge.is_null_merge
    assert merge_device("").is_null_merge
    assert "/job:ps" in repr(merge)
    with pytest.raises(ValueError, match="Unknown attribute: 'nonsense'"):
        merge_device("/nonsense:1")


FULL = "/job:worker/replica:0/task:1/device:CPU:0"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", True),
        (None, True),
        ("/job:worker", True),
        ("/job:*", True),
        ("/job:ps", False),
        ("/job:worker/task:1", True),
        ("/job:worker/task:0", False),
        ("/cpu:*", True),
        ("/cpu:0", True),
        ("/gpu:*", False),
        ("/device:CPU:1", False),
        (FULL, True),
    ],
)
def test_a_pattern_matches_the_devices_it_describes(pattern, expected):
    assert matches(pattern, FULL) is expected
    assert matches(DeviceSpec.from_string(pattern), DeviceSpec.from_string(FULL)) is expected
    assert is_subset(FULL, pattern) is expected


def test_a_pattern_does_not_match_a_name_that_leaves_its_component_open():
    assert not matches("/job:worker/task:1", "/job:worker")
    assert not is_subset("/job:worker", "/job:worker/task:1")


def test_names_are_compatible_unless_a_component_differs():
    assert are_compatible("/job:a", "/task:1/cpu:0")
    assert are_compatible("/job:a/task:1", "/job:a")
    assert are_compatible("/job:*", "/job:a")
    assert not are_compatible("/job:a", "/job:b/cpu:0")
    assert not are_compatible("/cpu:0", "/cpu:1")
    assert are_compatible("/cpu:*", "/cpu:1")
