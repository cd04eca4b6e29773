"""Model files, tensor by tensor: `.npz` and `.safetensors` both ways, `.pt` for reading.

What a file says is checked before any of its data is read: it may come from another site. Names,
order and dtypes are kept. Writing gives the same bytes for the same tensors on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from stitch.errors import BadModel
from stitch.learning.npz import NpzSink, open_npz
from stitch.learning.pt import open_pt
from stitch.learning.safetensors import SafetensorsSink, open_safetensors
from stitch.learning.specs import Array, Spec, check_name, spec_of
from stitch.learning.stored import StoredTensor

_FORMATS = "Use .npz or .safetensors: set [hooks] model_ext."


class ModelReader:
    """An open model file; a context manager. Made by `open_model`.

    Args:
        tensors: in the file's order.
        stack: what is open.
    """

    def __init__(self, tensors: Mapping[str, StoredTensor], *, stack: ExitStack) -> None:
        self._tensors = tensors
        self._stack = stack

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors' names, in the order in which they are stored."""
        return tuple(self._tensors)

    @property
    def specs(self) -> dict[str, Spec]:
        """Shape and dtype of every tensor, in the order in which they are stored."""
        return {name: tensor.spec for name, tensor in self._tensors.items()}

    def spec(self, name: str) -> Spec:
        """Shape and dtype of a tensor.

        Raises:
            BadModel: there is none of that name.
        """
        return self._tensor(name).spec

    def read(self, name: str) -> Array:
        """A whole tensor: a new array in C order.

        Raises:
            BadModel: there is none of that name, or its data is damaged.
        """
        spec = self.spec(name)
        return self.read_range(name, start=0, stop=spec.size).reshape(spec.shape)

    def read_range(self, name: str, *, start: int, stop: int) -> Array:
        """Elements `start` to `stop` of a tensor, counted in C order: a new array, shape (stop - start,).

        Ranges that follow one another cost least.

        Raises:
            BadModel: there is no tensor of that name, or its data is damaged.
        """
        tensor = self._tensor(name)
        if not 0 <= start <= stop <= tensor.spec.size:
            raise IndexError(f"{start}:{stop} is not within {tensor.spec.size} elements")
        return tensor.read_range(start, stop)

    def _tensor(self, name: str) -> StoredTensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise BadModel(f"the model has no tensor {name[:40]!a}", hint="All sites need one architecture.")
        return tensor

    def close(self) -> None:
        """Close the file."""
        for tensor in self._tensors.values():
            tensor.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_model(path: str | PathLike[str]) -> ModelReader:
    """Open a model file for reading; its ending says the format.

    Raises:
        BadModel: the format is unknown, or the file is not what its ending says.
        OSError: it cannot be opened.
    """
    place = Path(path)
    with ExitStack() as stack:
        match place.suffix.lower():
            case ".npz":
                tensors = open_npz(place, stack)
            case ".safetensors":
                tensors = open_safetensors(place, stack)
            case ".pt":
                tensors = open_pt(place)
            case ending:
                raise BadModel(
                    f"a {ending or 'nameless'} model cannot be opened tensor by tensor", hint=_FORMATS
                )
        return ModelReader(tensors, stack=stack.pop_all())
    raise AssertionError  # the stack lets no error through in silence; said for the type checker


class _Sink(Protocol):
    def begin(self, name: str, spec: Spec) -> None: ...
    def append(self, data: Array) -> None: ...
    def end(self) -> None: ...
    def close(self) -> None: ...


class ModelWriter:
    """A model file being written; a context manager. Left by an exception, it leaves no file.

    Args:
        path: where; the ending says the format. What is there is replaced.
        specs: of all tensors in the order in which they will be written, if known: a `.safetensors`
            file is then written in one go, not by way of a second file.

    Raises:
        BadModel: the format cannot be written.
    """

    def __init__(self, path: str | PathLike[str], *, specs: Mapping[str, Spec] | None = None) -> None:
        self._path = Path(path)
        self._names: set[str] = set()
        self._sink: _Sink
        match self._path.suffix.lower():
            case ".npz":
                self._sink = NpzSink(self._path)
            case ".safetensors":
                self._sink = SafetensorsSink(self._path, specs=specs)
            case ending:
                raise BadModel(f"a {ending or 'nameless'} model cannot be written", hint=_FORMATS)
        self._expected = None if specs is None else dict(specs)

    def write(self, name: str, array: Array) -> None:
        """Write a whole tensor.

        Raises:
            BadModel: its name or dtype may not be in a model file, or the name was written before.
        """
        given = np.asarray(array)
        with self.tensor(name, spec_of(given)) as append:
            append(np.ascontiguousarray(given).reshape(-1))

    @contextmanager
    def tensor(self, name: str, spec: Spec) -> Iterator[_Append]:
        """Write a tensor in parts: calls of what this yields take 1-D arrays, its elements in C order.

        Raises:
            BadModel: see `write`; or the parts are not as many elements as the spec says.
        """
        check_name(name)
        if name in self._names:
            raise BadModel(f"the tensor {name[:40]!a} was written before", hint="Names are unique.")
        if self._expected is not None and self._expected.get(name) != spec:
            raise BadModel(f"the tensor {name[:40]!a} is not as announced", hint="Keep shape and dtype.")
        self._names.add(name)
        self._sink.begin(name, spec)
        part = _Append(self._sink, spec)
        yield part
        part.check(name)
        self._sink.end()

    def close(self) -> None:
        """Finish the file.

        Raises:
            BadModel: an announced tensor was not written.
        """
        self._sink.close()
        if self._expected is not None and len(self._names) != len(self._expected):
            self._path.unlink(missing_ok=True)
            raise BadModel("not every announced tensor was written", hint="Write all of them.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self._sink.close()
        finally:
            self._path.unlink(missing_ok=True)


class _Append:
    """Takes the parts of one tensor and counts them."""

    def __init__(self, sink: _Sink, spec: Spec) -> None:
        self._sink, self._spec, self._count = sink, spec, 0

    def __call__(self, part: Array) -> None:
        if part.dtype != self._spec.dtype and part.dtype.newbyteorder("=") != self._spec.dtype:
            raise BadModel(
                f"a part is of {part.dtype.name}, not {self._spec.dtype.name}", hint="Cast it first."
            )
        self._count += part.size
        if part.size:
            self._sink.append(np.ascontiguousarray(part, dtype=self._spec.dtype.newbyteorder("<")))

    def check(self, name: str) -> None:
        if self._count != self._spec.size:
            raise BadModel(
                f"the tensor {name[:40]!a} got {self._count} of {self._spec.size} elements",
                hint="Write all parts.",
            )


def read_model(path: str | PathLike[str]) -> dict[str, Array]:
    """All tensors of a model file by name, in the order in which they are stored.

    Raises:
        BadModel, OSError: see `open_model`.
    """
    with open_model(path) as model:
        return {name: model.read(name) for name in model.names}


def write_model(path: str | PathLike[str], tensors: Mapping[str, Array]) -> None:
    """Write a model file with these tensors, in this order.

    Raises:
        BadModel: the format cannot be written, or a name or dtype may not be in it.
    """
    arrays = {name: np.asarray(array) for name, array in tensors.items()}
    with ModelWriter(path, specs={name: spec_of(array) for name, array in arrays.items()}) as writer:
        for name, array in arrays.items():
            writer.write(name, array)
