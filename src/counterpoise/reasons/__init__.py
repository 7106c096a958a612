"""Why a row has its score: the result of ``explain``, and its plots."""

from counterpoise.reasons.result import Reasons

__all__ = ["Reasons"]
