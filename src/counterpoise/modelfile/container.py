"""The model as one safetensors file: numbers and strings in a closed schema, never code.

The file holds named tensors and, as safetensors metadata, exactly one key: canonical JSON (sorted
keys, no white space, no time stamp) with a SHA-256 over itself and the tensors. The same model
gives the same bytes. ``docs/file-format.md`` describes it for other languages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import safetensors
import safetensors.numpy

from counterpoise.atomic_write import atomic_write
from counterpoise.errors import ModelFileError
from counterpoise.version import VERSION

KEY = "counterpoise"
SCHEMA = 1
Result = TypeVar("Result")
MAX_HEADER_BYTES = 100_000_000  # as the safetensors library
INCOMPLETE = "is not a counterpoise model file, or it is damaged or truncated"
DTYPES: dict[str, Any] = {
    "I64": np.dtype(np.int64),
    "F64": np.dtype(np.float64),
    "U8": np.dtype(np.uint8),
}
TYPE_NAMES = {kind: name for name, kind in DTYPES.items()}
JSON = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)  # canonical
INTEGER_TENSORS = re.compile(r"(\d+ )?categories pairs \d+ \d+ \d+")
TYPES = {"kind": str, "options": dict, "facts": dict, "library": str, "stream": dict | None}


@dataclass(frozen=True)
class Contents:
    """Contents of a file."""

    kind: str  # name of the estimator
    options: dict[str, Any]  # its parameters
    arrays: dict[str, Any]  # float64 tensors, and int64 tensors of pairs of categories
    facts: dict[str, Any]  # other values that JSON can hold
    stream: dict[str, Any] | None = None  # encoding of columns, and read positions of inputs
    lists: dict[str, list[Any]] = field(default_factory=dict)  # long, stored as tensors of bytes


# Writing


def save(
    path: str | os.PathLike[str], contents: Contents, check: Callable[[Contents], object]
) -> None:
    """Write a file: completely or not at all, and never one that cannot be loaded."""
    try:
        require_finite(contents.arrays)
        names = ("options", "facts", "stream", "lists")
        copied = {n: _strict(_canonical(getattr(contents, n))) for n in names}
        check(replace(contents, arrays=dict(contents.arrays), **copied))
    except ValueError as error:
        raise ModelFileError(
            f"{os.fspath(path)} was not written, because it could not be loaded: the model {error}"
        ) from None
    parts = _parts(contents)
    with atomic_write(path, "the model") as file:
        for part in parts:
            file.write(part)


def to_bytes(contents: Contents) -> bytes:
    """Return the bytes of a file."""
    return b"".join(_parts(contents))


def _parts(contents: Contents) -> list[Any]:
    """Return the bytes of a file in parts, of which those of tensors are not copied.

    Tensors are in the order of the safetensors library.
    """
    tensors = {}
    for name, array in contents.arrays.items():
        kind = np.int64 if array.dtype == np.int64 else np.float64
        tensors[name] = np.ascontiguousarray(array, dtype=kind)
    for name, words in contents.lists.items():
        tensors[name] = np.frombuffer(_canonical(words), dtype=np.uint8)
    values = {name: getattr(contents, name) for name in ("kind", "options", "facts", "stream")}
    header: dict[str, Any] = {"schema": SCHEMA, "library": VERSION, **values}
    header["sha256"] = _checksum(header, tensors)
    entries: dict[str, Any] = {"__metadata__": {KEY: _canonical(header).decode()}}
    order, end, data = list(DTYPES.values()), 0, []
    for _, name in sorted([(order.index(array.dtype), name) for name, array in tensors.items()]):
        array, start = tensors[name], end
        end += array.nbytes
        shape, offsets = list(array.shape), [start, end]
        entries[name] = {
            "dtype": TYPE_NAMES[array.dtype], "shape": shape, "data_offsets": offsets,
        }  # fmt: skip
        data.append(array.data if array.size else b"")
    head = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    return [len(head).to_bytes(8, "little"), head, *data]


# Reading


def load(path: str | os.PathLike[str]) -> Contents:
    """Return the contents of an untrusted file."""
    return load_validated(path, lambda: from_bytes(_read(path)))


def _read(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file, after its header shows a safetensors file of this size."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe or a device might never end
        raise ModelFileError("is not a regular file; copy the model into one")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
            raise ModelFileError(INCOMPLETE)
        head = file.read(length)
        if size != 8 + length + _tensor_bytes(head):
            raise ModelFileError(INCOMPLETE)
        return start + head + file.read()


def _tensor_bytes(head: bytes) -> int:
    """Return the size of all tensors by the header of a safetensors file."""
    try:
        entries = [entry for k, entry in json.loads(head).items() if k != "__metadata__"]
        return max((int(entry["data_offsets"][1]) for entry in entries), default=0)
    except Exception:
        raise ModelFileError(INCOMPLETE) from None


def from_bytes(data: bytes) -> Contents:
    """Return the contents of a file given as bytes."""
    try:
        entries = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    except Exception:
        raise ModelFileError(INCOMPLETE) from None
    if list(metadata) != [KEY]:
        raise ModelFileError("is a safetensors file, but not a model of counterpoise")
    header = _strict(metadata[KEY])
    if not isinstance(header, dict) or _canonical(header).decode() != metadata[KEY]:
        raise ModelFileError("is not a valid model file: its header is not canonical JSON")
    if header.get("schema") != SCHEMA:
        raise ModelFileError(
            f"has schema {header.get('schema')!r}, but this version reads schema {SCHEMA}; "
            "install the version that wrote it, or a later one"
        )
    wanted = {"schema", "sha256", *TYPES}
    if set(header) != wanted:
        raise ModelFileError(f"has a header with the wrong fields: {sorted(set(header) ^ wanted)}")
    tensors = {name: _tensor(name, entry) for name, entry in sorted(entries.items())}
    claimed = header.pop("sha256")
    if _checksum(header, tensors) != claimed:
        raise ModelFileError("is damaged: its checksum does not match")
    for name, types in TYPES.items():
        check_file(isinstance(header[name], types), f"a {name} of the wrong type")
    arrays = {k: v for k, v in tensors.items() if v.dtype != np.uint8}
    for name, array in arrays.items():
        is_allowed = array.dtype == np.float64 or INTEGER_TENSORS.fullmatch(name)
        check_file(bool(is_allowed), f"integers {name!r} where numbers are expected")
    require_finite(arrays)
    lists: dict[str, Any] = {}
    for name, array in tensors.items():
        if name not in arrays:
            lists[name] = _strict(array.tobytes()) if array.ndim == 1 else None
            check_file(isinstance(lists[name], list), f"{name} that is not a list")
            check_file(_canonical(lists[name]) == array.tobytes(), f"{name} that is not canonical")
    # Names of columns, or features made of columns with counts of rows and recent scores.
    named = {"features", "held", "recent", "categories"}
    known = named if "features" in lists else {"names", "categories"}
    check_file(set(lists) <= known, "tensors that belong to nothing")
    return Contents(
        header["kind"], header["options"], arrays, header["facts"], header["stream"], lists
    )


def check_file(condition: bool, what: str) -> None:
    """Raise, about the file as a whole, unless a condition holds."""
    if not condition:
        raise invalid_file(what)


def invalid_file(what: str) -> ModelFileError:
    """Return the error about a file that has something impossible."""
    return ModelFileError(f"is not a valid model file: it has {what}")


def require_finite(arrays: Mapping[str, Any]) -> None:
    """Raise unless all numbers are finite."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise invalid_file(f"{name} that is not finite")


def _tensor(name: str, entry: Mapping[str, Any]) -> Any:
    """Return a tensor; its bytes are a copy already, which may be changed."""
    check_file(entry["dtype"] in DTYPES, f"a tensor {name!r} of type {entry['dtype']}")
    return np.frombuffer(entry["data"], DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, Any]) -> str:
    """Return SHA-256 of the header, then name, type, shape and bytes of each tensor by name."""
    whole = hashlib.sha256(_canonical(header))
    for name, array in sorted(tensors.items()):
        whole.update(_canonical([name, TYPE_NAMES.get(array.dtype), list(array.shape)]))
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()


def _canonical(value: Any) -> bytes:
    """Return canonical JSON."""
    return JSON.encode(value).encode()


def _strict(text: str | bytes) -> Any:
    """Return the value of JSON without NaN and without repeated keys."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) < len(items):
            raise ValueError("a key occurs twice")
        return dict(items)

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"is not a valid model file: its header cannot be read ({error})"
        ) from None


def load_validated(path: str | os.PathLike[str], build: Callable[[], Result]) -> Result:
    """Return what ``build`` makes of a file; raise any error as an error of the file."""
    try:
        return build()
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} {error}") from None
    except OSError:
        raise
    except Exception as error:
        what = " ".join(str(error).split())[:200]
        raise ModelFileError(
            f"{os.fspath(path)} is not a valid model file: its contents are malformed "
            f"({type(error).__name__}: {what})"
        ) from None
