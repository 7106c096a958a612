"""Bearer tokens with roles, of which only hashes are stored, and a rate of requests for each."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from counterpoise.errors import DataError

ROLES = ("predict", "label", "admin")


@dataclass
class Caller:
    """Holder of a token."""

    name: str
    roles: frozenset[str]
    allowance: float = math.inf  # requests that may come now
    since: float = field(default_factory=time.monotonic)

    def has_role(self, role: str) -> bool:
        """Return whether the caller may do what requires a role; an admin may do everything."""
        return role in self.roles or "admin" in self.roles

    def take(self, rate: float) -> bool:
        """Return whether a request may come now, at a rate per second and in bursts of a second."""
        now = time.monotonic()
        self.allowance = min(rate, self.allowance + (now - self.since) * rate)
        self.since = now
        if self.allowance < 1.0:
            return False
        self.allowance -= 1.0
        return True


class Tokens:
    """Tokens by their hash."""

    def __init__(self, lines: Iterable[str], place: str = "the tokens") -> None:
        self._callers: dict[str, Caller] = {}
        for number, line in enumerate(lines, 1):
            text = line.partition("#")[0].split()
            if not text:
                continue
            if len(text) != 3:
                raise DataError(f"{place}, line {number}: expected NAME ROLES HASH; correct it")
            name, roles, digest = text
            unknown = set(roles.split(",")) - set(ROLES)
            if unknown:
                raise DataError(
                    f"{place}, line {number}: role {min(unknown)!r} must be {', '.join(ROLES)}"
                )
            is_hash = len(digest) == 64 and not set(digest) - set("0123456789abcdef")
            if not is_hash:
                raise DataError(
                    f"{place}, line {number}: the hash of {name!r} is not a SHA-256 in "
                    "hexadecimal digits; make a token with counterpoise.serve.new_token"
                )
            self._callers[digest] = Caller(name, frozenset(roles.split(",")))

    def __len__(self) -> int:
        return len(self._callers)

    def find(self, token: str) -> Caller | None:
        """Return the caller of a token, after a time that does not depend on the token."""
        digest, found = _hash(token), None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def new_token(name: str, *roles: str) -> tuple[str, str]:
    """Return a new token, and the line that a file of tokens needs.

    Parameters
    ----------
    name : str
        Name of the caller in logs, without spaces.
    *roles : str
        "predict" (predictions), "label" (labels and labeled events) or "admin" (everything).

    Returns
    -------
    token : str
        The token, which is not stored.
    line : str
        The line with its hash.

    Examples
    --------
    >>> from counterpoise.serve import new_token
    >>> token, line = new_token("shop", "predict", "label")
    >>> line.split()[:2]
    ['shop', 'predict,label']
    """
    token = secrets.token_urlsafe(32)
    line = f"{name} {','.join(roles)} {_hash(token)}"
    Tokens([line])
    return token, line


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()
