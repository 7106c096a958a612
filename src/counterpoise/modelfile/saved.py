"""Estimators that can be saved."""

from __future__ import annotations

import os
from typing import Any

from counterpoise.modelfile import container
from counterpoise.modelfile.container import Contents


class Saved:
    """For estimators that can be saved: they turn themselves into :class:`Contents` and back."""

    _learned_from: str

    def contents(self) -> Contents:
        """What a file is to hold."""
        raise NotImplementedError

    @classmethod
    def from_contents(cls, contents: Contents) -> Any:
        """The estimator, from what a file holds, checked as if a stranger had written it."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as a safetensors file, which holds numbers and strings and never code.

        Parameters
        ----------
        path : path
            Where to. An older file is replaced, or left as it was if anything goes wrong.
        """
        if "_learned_from" in self.__dict__:
            raise ValueError(
                f"this model was learned from tables, and only {self._learned_from} knows how "
                "their columns become features; use counterpoise.TableClassifier.load, and its save"
            )
        container.save(path, self.contents(), type(self).from_contents)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Load what :meth:`save` has written, bit-identical, and go on learning if you like.

        Of a file that the command line or :class:`~counterpoise.TableClassifier` has written, this
        is the model of encoded rows, to look at; the columns that these are made of are known to
        :meth:`counterpoise.TableClassifier.load` alone.

        Parameters
        ----------
        path : path
            The file. It is not trusted: whatever is not a whole and possible model is refused.

        Returns
        -------
        The estimator.
        """
        contents = container.load(path)
        if contents.kind != cls.__name__:
            raise container.ModelFileError(
                f"{os.fspath(path)} holds a {contents.kind}, not a {cls.__name__}; use "
                f"{contents.kind}.load"
            )
        result = container.believed(path, lambda: cls.from_contents(contents))
        if contents.stream is not None and "features" in contents.lists:
            result._learned_from = os.fspath(path)
        return result
