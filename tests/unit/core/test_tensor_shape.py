"""Dimension and TensorShape: every expectation was printed by TensorFlow 2.21 in v1 mode."""

import pickle

import numpy as np
import pytest

from millrace.core.tensor_shape import (
    Dimension,
    TensorShape,
    as_dimension,
    as_shape,
    dimension_at_index,
    dimension_value,
    matrix,
    scalar,
    unknown_shape,
    vector,
)

D = Dimension
S = TensorShape


class TestDimension:
    def test_it_takes_ints_none_dimensions_and_indices(self):
        assert D(3).value == 3
        assert D(None).value is None
        assert D(D(3)).value == 3
        assert type(D(np.int64(4)).value) is int

    @pytest.mark.parametrize("value", [2.5, "3", [1], np.float32(2)])
    def test_it_refuses_what_is_no_size(self, value):
        with pytest.raises(TypeError, match="Dimension value must be integer or None or have"):
            D(value)

    def test_it_refuses_negative_sizes_also_as_results(self):
        for make in (lambda: D(-1), lambda: D(1) - 2, lambda: 1 - D(2), lambda: D(np.int32(-1))):
            with pytest.raises(ValueError, match="Dimension -1 must be >= 0"):
                make()

    def test_arithmetic_with_known_sizes(self):
        results = [1 + D(2), D(2) + 1, 5 - D(2), D(5) - 2, 2 * D(3), D(3) * D(2), D(7) // 2]
        results += [7 // D(2), D(7) % 4, 9 % D(4), D(7).__div__(2)]
        assert [r.value for r in results] == [3, 3, 3, 3, 6, 6, 3, 3, 3, 1, 3]
        with pytest.raises(ZeroDivisionError):
            D(7) // 0

    def test_arithmetic_with_an_unknown_size_is_unknown(self):
        x = D(None)
        results = [x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x // 2, 2 // x, x % 2, 2 % x]
        results += [D(3) + None, D(3) // D(None)]
        assert [r.value for r in results] == [None] * 12
        assert all(isinstance(r, Dimension) for r in results)

    def test_true_division_says_to_use_floor_division(self):
        with pytest.raises(TypeError, match=r"for /: 'Dimension' and 'int', please use // instead"):
            D(7) / 2
        with pytest.raises(TypeError, match=r"for /: 'int' and 'Dimension', please use // instead"):
            7 / D(2)

    def test_arithmetic_with_nonsense_is_a_type_error(self):
        for make in (
            lambda: D(2) + "a",
            lambda: D(2) - "a",
            lambda: "a" - D(2),
            lambda: D(2) * 2.5,
            lambda: D(2) // "a",
            lambda: D(2) % "a",
        ):
            with pytest.raises(TypeError):
                make()

    def test_comparison_with_an_unknown_size_is_none(self):
        x = D(None)
        results = [x == x, x != 1, x < 1, x <= 1, x > 1, x >= 1, D(3) == None, D(3) < None]  # noqa: E711
        assert results == [None] * 8

    def test_comparison_with_known_sizes(self):
        assert [D(3) == 3, D(3) != 3, D(3) < 4, D(3) <= 2, D(3) > 2, D(3) >= 4] == (
            [True, False, True, False, True, False]
        )
        assert (D(3) == "a") is False
        assert (D(3) != "a") is True
        assert (D(3) == -1) is False
        with pytest.raises(TypeError):
            _ = D(3) < "a"

    def test_it_counts_as_an_int_unless_unknown(self):
        assert int(D(3)) == 3
        assert list(range(D(2))) == [0, 1]
        assert [10, 20][D(1)] == 20
        assert [bool(D(0)), bool(D(None)), bool(D(2))] == [False, False, True]
        with pytest.raises(TypeError):
            int(D(None))

    def test_it_is_not_hashable(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(D(3))

    def test_texts(self):
        assert (str(D(None)), repr(D(None)), str(D(3)), repr(D(3))) == (
            ("?", "Dimension(None)", "3", "Dimension(3)")
        )

    def test_merging_keeps_what_is_known(self):
        assert D(3).merge_with(None).value == 3
        assert D(None).merge_with(3).value == 3
        assert D(None).merge_with(None).value is None
        with pytest.raises(ValueError, match="Dimensions 3 and 4 are not compatible"):
            D(3).merge_with(4)
        assert D(3).is_compatible_with(None)
        assert not D(3).is_compatible_with(4)

    def test_it_can_be_pickled(self):
        assert pickle.loads(pickle.dumps(D(3))).value == 3


class TestMaking:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (None, None),
            ([], ()),
            (3, (3,)),
            ([1, None], (1, None)),
            ((None, 3), (None, 3)),
            (np.array([2, 3]), (2, 3)),
            (np.array(3), (3,)),
            (range(3), (0, 1, 2)),
            (D(3), (3,)),
            ([D(3), None], (3, None)),
            ((x for x in [1, 2]), (1, 2)),
            (S([2]), (2,)),
            ([2**40], (2**40,)),
            (S([2, None]).as_proto(), (2, None)),
            (S(None).as_proto(), None),
        ],
    )
    def test_a_shape_can_be_made_from(self, value, expected):
        shape = S(value)
        assert shape.sizes == expected
        assert all(size is None or type(size) is int for size in shape.sizes or ())

    @pytest.mark.parametrize("value", [3.0, [1.5], ["a"], "ab", [[1, 2]], np.array([[1]])])
    def test_what_is_no_shape_is_a_type_error(self, value):
        with pytest.raises(TypeError):
            S(value)

    @pytest.mark.parametrize("value", [-1, [-1, 2], [np.int64(-1)]])
    def test_a_negative_size_is_a_value_error(self, value):
        with pytest.raises(ValueError, match="Dimension -1 must be >= 0"):
            S(value)

    def test_as_shape_hands_a_shape_back(self):
        shape = S([1])
        assert as_shape(shape) is shape
        assert as_shape(None).sizes is None

    def test_the_named_makers(self):
        assert scalar().sizes == ()
        assert vector(None).sizes == (None,)
        assert matrix(2, None).sizes == (2, None)
        assert unknown_shape().sizes is None
        assert unknown_shape(2).sizes == unknown_shape(ndims=2).sizes == (None, None)
        assert unknown_shape(rank=1).sizes == (None,)

    def test_dimension_functions(self):
        assert as_dimension(3).value == 3
        assert [dimension_value(x) for x in (D(3), None, 4)] == [3, None, 4]
        assert dimension_at_index(S([1, 2]), 1).value == 2
        assert dimension_at_index(S(None), 1).value is None


class TestReading:
    def test_texts(self):
        shapes = [S(None), S([]), S([3]), S([None, 3])]
        assert [str(s) for s in shapes] == ["<unknown>", "()", "(3,)", "(?, 3)"]
        assert [repr(s) for s in shapes] == [
            "TensorShape(None)",
            "TensorShape([])",
            "TensorShape([Dimension(3)])",
            "TensorShape([Dimension(None), Dimension(3)])",
        ]

    def test_the_proto_writes_minus_one_for_unknown(self):
        proto = S([None, 2]).as_proto()
        assert [d.size for d in proto.dim] == [-1, 2]
        assert not proto.unknown_rank
        assert S(None).as_proto().unknown_rank

    def test_rank_and_elements(self):
        assert (S(None).rank, S(None).ndims, S(None).dims) == (None, None, None)
        assert (S([1, None]).rank, S([]).ndims) == (2, 0)
        assert [d.value for d in S([1, None]).dims] == [1, None]
        assert [S(x).num_elements() for x in ([2, 3], [], [0, 2], [1, None], None)] == (
            [6, 1, 0, None, None]
        )
        assert S([1, None]).as_list() == [1, None]
        with pytest.raises(ValueError, match="as_list"):
            S(None).as_list()

    def test_a_shape_is_true_if_its_rank_is_known(self):
        assert [bool(S(None)), bool(S([])), bool(S([1]))] == [False, True, True]

    def test_indexing_and_iterating_give_dimensions(self):
        assert isinstance(S([1, 2])[0], Dimension)
        assert [S([1, 2])[-1].value, S([1, 2])[D(1)].value] == [2, 2]
        assert [d.value for d in S([1, None])] == [1, None]
        assert len(S([1, 2])) == 2
        assert S(None)[7].value is None
        with pytest.raises(IndexError):
            S([1, 2])[5]
        with pytest.raises(TypeError):
            S([1, 2])["a"]
        with pytest.raises(ValueError, match="Cannot iterate over a shape with unknown rank"):
            list(S(None))
        with pytest.raises(ValueError, match="Cannot take the length of shape with unknown rank"):
            len(S(None))

    def test_numpy_takes_a_shape(self):
        assert np.zeros(S([2, 3])).shape == (2, 3)

    def test_slicing_gives_shapes(self):
        shape = S([1, 2, 3])
        assert shape[1:].sizes == (2, 3)
        assert shape[:-1].sizes == (1, 2)
        assert shape[::2].sizes == (1, 3)
        assert isinstance(shape[:0], TensorShape)

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            (slice(1, None), None),
            (slice(1, 3), (None, None)),
            (slice(None, 2), (None, None)),
            (slice(None, -1), None),
            (slice(-2, 3), None),
            (slice(3, 1), ()),
        ],
    )
    def test_slicing_a_shape_of_unknown_rank(self, key, expected):
        assert S(None)[key].sizes == expected

    def test_slicing_a_shape_of_unknown_rank_with_a_step_is_refused(self):
        with pytest.raises(ValueError, match="Steps are not yet handled"):
            S(None)[::2]

    def test_it_can_be_pickled_and_hashed(self):
        assert pickle.loads(pickle.dumps(S([1, None]))).sizes == (1, None)
        assert pickle.loads(pickle.dumps(S(None))).sizes is None
        assert {S([1, 2]): 1}[S((1, 2))] == 1


class TestComparing:
    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [
            (None, S(None), True),
            ([None], S([None]), True),
            ([1, 2], [1, 2], True),
            ([1, 2], (1, 2), True),
            ([1, 2], None, False),
            (None, None, True),
            ([3], 3, True),
            ([1], [2], False),
            ([None], [1], False),
            ([1], "a", False),
            (None, [1], False),
        ],
    )
    def test_equality_is_by_what_is_known(self, one, other, expected):
        assert (S(one) == other) is expected
        assert (S(one) != other) is not expected

    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [
            ([1], [None], True),
            ([1], [2], False),
            ([1], [1, 1], False),
            (None, [1], True),
            ([1, None], [None, 2], True),
            ([1, None], None, True),
        ],
    )
    def test_compatibility(self, one, other, expected):
        assert S(one).is_compatible_with(other) is expected
        assert S(other).is_compatible_with(one) is expected

    def test_incompatible_shapes_are_named_in_the_error(self):
        with pytest.raises(ValueError, match=r"Shapes \(1,\) and \(2,\) are incompatible"):
            S([1]).assert_is_compatible_with([2])
        S([1]).assert_is_compatible_with([None])

    def test_a_subtype_is_more_specific(self):
        assert S([1, 2]).is_subtype_of(S(None))
        assert S([1, 2]).is_subtype_of(S([None, 2]))
        assert not S([None, 2]).is_subtype_of(S([1, 2]))
        assert not S(None).is_subtype_of(S([None]))
        assert not S([1]).is_subtype_of([1])

    def test_merging(self):
        assert S([1, None]).merge_with([None, 2]).sizes == (1, 2)
        assert S(None).merge_with([2]).sizes == (2,)
        assert S([1]).merge_with(None).sizes == (1,)
        for other in ([2, 2], [2]):
            with pytest.raises(ValueError, match=r"Shapes \(1, \?\) and .* are not compatible"):
                S([1, None]).merge_with(other)

    def test_the_most_specific_compatible_shape_keeps_what_agrees(self):
        common = S([1, 2]).most_specific_compatible_shape
        assert common([1, 3]).sizes == (1, None)
        assert common([1, 2]).sizes == (1, 2)
        assert common([1]).sizes is None
        assert common(None).sizes is None
        assert S([1, None]).most_specific_compatible_shape([None, None]).sizes == (None, None)

    def test_concatenating(self):
        assert S([1]).concatenate([2]).sizes == (1, 2)
        assert S([1]).concatenate(None).sizes is None
        assert (S([1]) + [2]).sizes == ([1] + S([2])).sizes == (1, 2)
        assert (S([1]) + 3).sizes == (1, 3)
        assert (S(None) + S([1])).sizes is None

    def test_ranks_are_enforced(self):
        assert S(None).with_rank(2).sizes == (None, None)
        assert S([1]).with_rank(D(1)).sizes == (1,)
        assert S(None).with_rank_at_least(2).sizes is None
        assert S([1, 2]).with_rank_at_least(2).with_rank_at_most(2).sizes == (1, 2)
        S(None).assert_has_rank(3)
        S([1]).assert_same_rank(None)
        for check, message in [
            (lambda: S([1]).with_rank(2), r"Shape \(1,\) must have rank 2"),
            (lambda: S([1]).assert_has_rank(2), r"Shape \(1,\) must have rank 2"),
            (lambda: S([1]).with_rank_at_least(2), r"Shape \(1,\) must have rank at least 2"),
            (lambda: S([1, 2]).with_rank_at_most(1), r"Shape \(1, 2\) must have rank at most 1"),
            (lambda: S([1]).assert_same_rank([1, 2]), r"\(1,\) and \(1, 2\) must have the same"),
        ]:
            with pytest.raises(ValueError, match=message):
                check()

    def test_full_definition(self):
        assert S([1]).is_fully_defined()
        assert S([]).is_fully_defined()
        S([1]).assert_is_fully_defined()
        for shape in (S([None]), S(None)):
            assert not shape.is_fully_defined()
            with pytest.raises(ValueError, match="is not fully defined"):
                shape.assert_is_fully_defined()
