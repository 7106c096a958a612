"""Times of single rows are those of rows together."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from counterpoise import timestamps


@pytest.mark.parametrize(
    "t",
    [
        0, -3, 1.7e9, np.float32(7.5), "2024-02-29 12:30", date(2024, 2, 29),
        np.datetime64("2024-02"), datetime(2024, 2, 29, 1, 2, 3, 456_789),
        datetime(1912, 6, 23, 7, 0, 0, 1, tzinfo=UTC),
        datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
    ],
)  # fmt: skip
def test_the_time_of_one_row_is_that_of_rows(t):
    assert timestamps.time(t) == timestamps.times([t], 1)[0]


@pytest.mark.parametrize("t", [None, "soon", float("nan"), 2e12, True, [1.0, 2.0]])
def test_what_is_no_time_is_refused_alike(t):
    with pytest.raises(ValueError, match=r" t|t ") as many:
        timestamps.times(t, 1)
    with pytest.raises(ValueError, match=r" t|t ") as one:
        timestamps.time(t)
    assert str(one.value) == str(many.value)
