"""What a model file says of a tensor, and the names and dtypes that may be in one."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stitch.errors import BadModel

Array: TypeAlias = NDArray[Any]
"""A NumPy array of any dtype that a model file may hold."""

MOST_TENSORS = 100_000
MOST_CHARACTERS = 512
_MOST_AXES = 32  # NumPy 1's limit; a file with more could not be read at every site
_KINDS = "biufUS"  # booleans, integers, floats, fixed-width text; objects would be pickles
_UNFIT = re.compile(r"[\x00-\x1f\x7f\\]")


class Spec(NamedTuple):
    """Shape and dtype of one tensor; the dtype in this machine's byte order."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def n_bytes(self) -> int:
        """Bytes of the data."""
        return self.size * self.dtype.itemsize

    @property
    def floating(self) -> bool:
        """Whether the elements are floating-point numbers: only those are ever averaged."""
        return self.dtype.kind == "f"

    def __str__(self) -> str:
        axes = ", ".join(map(str, self.shape))
        return f"{self.dtype.name} ({axes})"


def spec_of(array: Array) -> Spec:
    """The spec of an array.

    Raises:
        BadModel: its dtype may not be in a model file.
    """
    return Spec(tuple(array.shape), checked_dtype(array.dtype))


def checked_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in native byte order.

    Raises:
        BadModel: it is none of booleans, integers, floats up to 64 bits and fixed-width text.
    """
    if dtype.hasobject:
        raise BadModel("a tensor holds Python objects", hint="Only a pickle could: save plain numbers.")
    if dtype.kind not in _KINDS or (dtype.kind == "f" and dtype.itemsize > 8) or dtype.itemsize == 0:
        raise BadModel(
            f"a tensor has the dtype {dtype.name[:40]}",
            hint="Use booleans, integers, float16, float32 or float64.",
        )
    return dtype.newbyteorder("=")


def check_name(name: str) -> None:
    """Refuse a name that could be taken for a path, or break a line.

    Raises:
        BadModel: it is one.
    """
    parts = name.split("/")
    if not 1 <= len(name) <= MOST_CHARACTERS or _UNFIT.search(name) or ".." in parts or parts[0] == "":
        raise BadModel(
            f"a tensor has the name {name[:40]!a}",
            hint=f"Names have 1-{MOST_CHARACTERS} characters, without control characters, \\ or a path.",
        )


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse a shape that no array has.

    Raises:
        BadModel: too many axes, or a negative length.
    """
    if len(shape) > _MOST_AXES or any(length < 0 for length in shape):
        raise BadModel("a tensor has an impossible shape", hint="The file is damaged: write it again.")
