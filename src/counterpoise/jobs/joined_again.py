"""Events and labels that were learned, joined once more, to be taken back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from counterpoise.jobs.joined import Joined
from counterpoise.jobs.learn import Learner
from counterpoise.jobs.waiting import Waiting
from counterpoise.jobs.where import Where
from counterpoise.streams import Source


@contextmanager
def joined_again(
    learner: Learner,
    events: Iterable[Source],
    labels: Iterable[Source],
    id: str,  # noqa: A002
    where: Where | None,
) -> Iterator[tuple[list[Joined], list[str]]]:
    """Join those events that are meant with their labels, wherever they have come from.

    ``id`` is the column that joins them. Yield a source of joined rows for each input of labels,
    and the ids of the events.
    """
    label = learner.encoding.columns.label
    with (
        tempfile.TemporaryDirectory() as folder,
        Waiting(os.path.join(folder, "again"), id) as again,
    ):
        for number, source in enumerate(events):
            again.take(
                source,
                str(number),
                learner.chunk_rows,
                lambda: False,
                lambda chunk: None,
                lambda chunk: np.ones(chunk.rows, bool) if where is None else where.of(chunk),
            )
        sources = [
            Joined(source, learner.key(source.path), label, again, lenient=True)
            for source in labels
        ]
        yield sources, again.ids()
