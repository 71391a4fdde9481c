# SPDX-License-Identifier: Apache-2.0
"""Row planning: every row exactly once, in the smallest gear, requests whole where they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ge_core.batching import Execution, RowSlice, group_gears, plan, smallest_gear, trailing_shapes

GEARS = (1, 2, 4, 8)


@pytest.mark.parametrize(("rows", "gear"), [(1, 1), (2, 2), (3, 4), (5, 8), (8, 8), (9, 8)])
def test_the_smallest_gear_that_holds_the_rows(rows, gear):
    assert smallest_gear(rows, GEARS) == gear


def test_requests_of_one_call_share_an_execution():
    assert plan([1, 2, 1, 3, 1], GEARS) == [
        Execution(
            8,
            8,
            [
                RowSlice(0, 0, 0, 1),
                RowSlice(1, 0, 1, 2),
                RowSlice(2, 0, 3, 1),
                RowSlice(3, 0, 4, 3),
                RowSlice(4, 0, 7, 1),
            ],
        )
    ]


def test_a_request_that_fits_is_not_torn_apart():
    assert plan([5, 4], GEARS) == [Execution(8, 5, [RowSlice(0, 0, 0, 5)]), Execution(4, 4, [RowSlice(1, 0, 0, 4)])]


def test_a_long_request_is_cut_and_its_remainder_shares():
    assert plan([20, 3], GEARS) == [
        Execution(8, 8, [RowSlice(0, 0, 0, 8)]),
        Execution(8, 8, [RowSlice(0, 8, 0, 8)]),
        Execution(8, 7, [RowSlice(0, 16, 0, 4), RowSlice(1, 0, 4, 3)]),
    ]


def test_a_static_model_is_one_gear():
    assert plan([3], (4,)) == [Execution(4, 3, [RowSlice(0, 0, 0, 3)])]


def test_no_requests_no_executions():
    assert plan([], GEARS) == []


@given(
    rows=st.lists(st.integers(1, 40), max_size=12),
    gears=st.sets(st.integers(1, 16), min_size=1).map(lambda values: tuple(sorted(values))),
)
def test_every_row_runs_exactly_once(rows, gears):
    executions = plan(rows, gears)
    seen = []
    for execution in executions:
        assert execution.gear == smallest_gear(execution.rows, gears)
        assert execution.rows <= execution.gear
        filled = 0
        for piece in execution.slices:
            assert piece.row == filled
            filled += piece.rows
            seen += [(piece.request, row) for row in range(piece.start, piece.start + piece.rows)]
        assert filled == execution.rows
    assert seen == [(request, row) for request, count in enumerate(rows) for row in range(count)]
    whole = [request for request, count in enumerate(rows) if count <= gears[-1]]
    for request in whole:
        assert sum(piece.request == request for execution in executions for piece in execution.slices) == 1


def shaped(*gears):
    """(input shapes, output shapes) of gears: ids [n, s] to y [n * 2, s]."""
    return [(((rows, length),), ((rows * 2, length),)) for rows, length in gears]


def test_gears_are_grouped_by_what_follows_the_batch():
    found = group_gears(shaped((4, 128), (1, 128), (8, 384), (8, 128)), ["y"])
    assert list(found) == [((128,),), ((384,),)]
    assert found[((128,),)][:2] == ([1, 4, 8], [1, 0, 3])
    assert found[((384,),)][:2] == ([8], [2])
    assert found[((128,),)].output_shapes(3) == ((6, 128),)
    assert trailing_shapes([(3, 128)]) in found


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([(1, 5), (1, 5)], r"output 'y' is \[1, 5\] for inputs \[4, 128\]: it cannot be cut by rows"),
        ([(1, 5), (8, 5)], r"output 'y' is \[8, 5\] for inputs \[4, 128\]"),
        ([(1, 1), (4, 4)], r"output 'y' is \[4, 4\] for inputs \[4, 128\]"),
        ([(), ()], r"output 'y' is \[\] for inputs \[1, 128\]"),
    ],
)
def test_an_output_that_does_not_follow_the_batch_is_named(outputs, says):
    shapes = [(((rows, 128),), (output,)) for rows, output in zip((1, 4), outputs, strict=True)]
    with pytest.raises(ValueError, match=says):
        group_gears(shapes, ["y"])
