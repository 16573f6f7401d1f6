"""Messages declared in a table, and Example made of them."""

import copy
import pickle

import pytest
from google.protobuf import text_format

from millrace.data import example
from millrace.data.messages import declare


def test_examples_have_the_bytes_of_tensorflows():
    # Each serialised by TensorFlow 2.21.
    def of(name, **kind):
        feature = {name: example.Feature(**kind)}
        return example.Example(features=example.Features(feature=feature)).SerializeToString().hex()

    assert (
        of("i", int64_list=example.Int64List(value=[1, -2, 300]))
        == "0a180a160a016912111a0f0a0d01feffffffffffffffff01ac02"
    )
    assert (
        of("f", float_list=example.FloatList(value=[0.5, -1.0]))
        == "0a130a110a0166120c120a0a080000003f000080bf"
    )
    assert (
        of("b", bytes_list=example.BytesList(value=[b"x", b""]))
        == "0a0e0a0c0a016212070a050a01780a00"
    )


def test_a_sequence_example_of_tensorflows_is_read():
    # Serialised by TensorFlow 2.21.
    data = bytes.fromhex(
        "0a0c0a0a0a016e12051a030a010712180a160a017712110a050a030a01610a0812060a0400000040"
    )
    found = example.SequenceExample.FromString(data)
    assert list(found.context.feature["n"].int64_list.value) == [7]
    words = found.feature_lists.feature_list["w"].feature
    assert [each.WhichOneof("kind") for each in words] == ["bytes_list", "float_list"]
    assert list(words[0].bytes_list.value) == [b"a"]
    assert list(words[1].float_list.value) == [2.0]
    assert found.SerializeToString() == data


def test_an_example_can_be_built_in_place_copied_pickled_and_printed():
    built = example.Example()
    built.features.feature["n"].int64_list.value.extend([1, 2])
    built.features.feature["s"].bytes_list.value.append(b"x")
    assert example.Example.FromString(built.SerializeToString()) == built
    assert copy.deepcopy(built) == built
    assert pickle.loads(pickle.dumps(built)) == built
    assert text_format.Parse(str(built), example.Example()) == built


def test_setting_one_kind_of_a_feature_clears_the_other():
    feature = example.Feature(float_list=example.FloatList(value=[1.0]))
    feature.bytes_list.value.append(b"x")
    assert feature.WhichOneof("kind") == "bytes_list"
    assert not feature.float_list.value


def test_all_kinds_of_fields_can_be_declared():
    declared = declare(
        "test/kinds.proto",
        "test.kinds",
        {
            "enum Colour": """
                RED = 0
                BLUE = 2
            """,
            "Inner": "string text = 1",
            "Outer": """
                int32 number = 1
                repeated double numbers = 2
                Inner inner = 3
                repeated Inner inners = 4
                Colour colour = 5
                map<int32, Inner> by_number = 6
                map<string, Colour> by_name = 7
                Inner left = 8 oneof side
                string right = 9 oneof side
                bool on = 10 oneof state
            """,
        },
    )
    assert sorted(declared) == ["Colour", "Inner", "Outer"]
    assert declared["Colour"].values_by_name["BLUE"].number == 2
    outer, inner = declared["Outer"], declared["Inner"]
    message = outer(number=-1, numbers=[0.5], inner=inner(text="a"), inners=[inner(), inner()])
    message.colour = 2
    message.by_number[3].text = "three"
    message.by_name["sky"] = 2
    message.right = "r"
    message.on = True
    message.left.text = "l"
    again = outer.FromString(message.SerializeToString())
    assert again == message
    assert (again.WhichOneof("side"), again.WhichOneof("state")) == ("left", "on")
    assert again.by_number[3].text == "three"


def test_a_later_table_may_use_the_types_of_an_earlier_one():
    first = declare("test/first.proto", "test.later", {"A": "int32 n = 1"})
    second = declare("test/second.proto", "test.later", {"B": "A a = 1\nmap<string, A> named = 2"})
    message = second["B"](a=first["A"](n=5))
    message.named["x"].n = 6
    assert second["B"].FromString(message.SerializeToString()).a.n == 5


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"A": "int32 n"}, "message A: cannot read 'int32 n'"),
        ({"A": "optional int32 n = 1;"}, "message A: cannot read"),
        ({"A": "Nothing n = 1"}, "field n has the type Nothing, which is neither"),
        ({"enum E": "FIRST"}, "enum E: cannot read 'FIRST'"),
        ({"A": "int32 n = 1\nint32 m = 1"}, "cannot be declared"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(table, complaint):
    with pytest.raises(ValueError, match=complaint):
        declare("test/bad.proto", "test.bad", table)
