"""HTTP service of a model: predict now, learn when the label comes, lose nothing.

- ``Client``: requests of Python programs
- ``new_token``: a bearer token and its line for a file of tokens

``counterpoise serve`` starts the service.
"""

from __future__ import annotations

from counterpoise.serve.client import Client, ServiceError
from counterpoise.serve.tokens import new_token

__all__ = ["Client", "ServiceError", "new_token"]
