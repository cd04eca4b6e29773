"""A site's training as a class with Flower's three methods, and how one is built and asked.

Classes written for Flower work as they are: nothing here wants a common base class.
"""

from __future__ import annotations

import inspect
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from stitch.learning.specs import Array, Spec
from stitch.learning.strategy import NDArrays, Scalar

_TAKEN = ("n_samples", "should_stop")


class NumPyClient(ABC):
    """What a site does: hand out its first weights, train, evaluate. Flower's words and signatures.

    The class is called with those of these names that its `__init__` has: `data_dir` (a Path), `config`,
    `site` (its id), `pass_id`, `round_seed`, `state_dir`, `context`.

    Attributes:
        parameter_names: names of the tensors behind the lists, in the lists' order. Without them they are
            those of the global's file, in its order; of a first model `arr_0000`, `arr_0001`, ...
    """

    parameter_names: Sequence[str] | None = None

    def get_parameters(self, config: Mapping[str, Scalar] | None = None) -> NDArrays:
        """The weights that training begins with; asked of the lead's client, for global 0 alone."""
        raise NotImplementedError(
            "global 0 needs get_parameters, a strategy's initialize_parameters, or initial_model"
        )

    @abstractmethod
    def fit(
        self, parameters: NDArrays, config: Mapping[str, Scalar]
    ) -> tuple[NDArrays, int, Mapping[str, Scalar]]:
        """Train on the site's data.

        Args:
            parameters: the global's tensors.
            config: `[config]` and `[train] config` of stitch.toml, over them what the strategy says, and
                `server_round`, the pass.

        Returns:
            The new tensors, how many rows they were fitted on, and metrics.
        """

    def evaluate(
        self,
        parameters: NDArrays,  # noqa: ARG002  for those who override it
        config: Mapping[str, Scalar],  # noqa: ARG002  as above
    ) -> tuple[float, int, Mapping[str, Scalar]]:
        """Score a global on the site's data.

        Returns:
            The loss, how many rows it was taken over, and metrics. This one looks at no row.
        """
        return 0.0, 0, {}


def build_client(factory: Callable[..., Any], given: Mapping[str, object]) -> Any:
    """The client that a class or a function makes.

    Args:
        factory: a class, or a function such as Flower's `client_fn(context)`.
        given: arguments by name; it gets those that it names.

    Raises:
        TypeError: it wants others, or what it makes is no client.
    """
    context = SimpleNamespace(
        node_id=given.get("site"),
        node_config={"site": given.get("site"), "data_dir": str(given.get("data_dir"))},
        run_config=given.get("config"),
    )
    given = {**given, "context": context, "cid": given.get("site")}
    named, unknown, takes_all = _agreed(factory, given)
    arguments = given if takes_all else {key: given[key] for key in named}
    made = factory(context) if unknown else factory(**arguments)
    made = getattr(made, "numpy_client", made)  # what Flower's `to_client()` wraps
    if not callable(getattr(made, "fit", None)):
        name = getattr(factory, "__qualname__", "the client")
        made_by = "" if name == type(made).__name__ else f"{name} made "
        raise TypeError(f"{made_by}{type(made).__name__} has no method fit")
    return made


def _agreed(factory: Callable[..., Any], given: Mapping[str, object]) -> tuple[list[str], list[str], bool]:
    """As `_wanted`, of a factory that can be called with what is given."""
    named, unknown, takes_all = _wanted(factory, given)
    if unknown and not (len(unknown) == 1 and not named and not isinstance(factory, type)):
        name = getattr(factory, "__qualname__", "the client")
        raise TypeError(
            f"{name} wants {', '.join(unknown)}; a client is called with any of {', '.join(given)}"
        )
    return named, unknown, takes_all


def check_client(factory: Callable[..., Any]) -> None:
    """Look at a client's class without making one, which might read data.

    Raises:
        TypeError: it wants arguments that nobody gives, or has no method `fit`.
    """
    names = ("data_dir", "config", "site", "pass_id", "round_seed", "state_dir", "context", "cid")
    _agreed(factory, dict.fromkeys(names))
    if isinstance(factory, type) and not callable(getattr(factory, "fit", None)):
        raise TypeError(f"{factory.__qualname__} has no method fit")


def _wanted(factory: Callable[..., Any], given: Mapping[str, object]) -> tuple[list[str], list[str], bool]:
    """The given names that a factory takes, what it needs beyond them, and whether it takes everything."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except ValueError:  # a built-in class has none to show
        parameters = []
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    needed = [one.name for one in named if one.default is one.empty and one.name not in given]
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    return [one.name for one in named if one.name in given], needed, takes_all


def first_parameters(client: Any) -> NDArrays:
    """What `get_parameters` gives, whether or not it takes a `config`.

    Raises:
        TypeError: the client has no such method.
        NotImplementedError: it has none of its own.
        ValueError: it gives no tensor.
    """
    ask = getattr(client, "get_parameters", None)
    if ask is None:
        raise TypeError("global 0 needs get_parameters, a strategy's initialize_parameters, or initial_model")
    arrays = list(ask({}) if inspect.signature(ask).parameters else ask())
    if not arrays:
        raise ValueError("get_parameters gave no tensor, so that there is nothing to begin with")
    return arrays


def first_names(client: object, count: int) -> list[str]:
    """Names for the tensors of a first model.

    Raises:
        ValueError: `parameter_names` are not as many.
    """
    said = getattr(client, "parameter_names", None)
    names = [f"arr_{number:04d}" for number in range(count)] if said is None else list(said)
    if len(names) != count:
        raise ValueError(f"parameter_names are {len(names)}, and there are {count} tensors")
    return names


def names_in_order(client: object, stored: Sequence[str]) -> list[str]:
    """The names of a global's tensors, in the order of the client's lists.

    Raises:
        ValueError: `parameter_names` are others than those of the global.
    """
    said = getattr(client, "parameter_names", None)
    if said is None:
        return list(stored)
    if sorted(said) != sorted(stored):
        other = sorted(set(said) ^ set(stored))[:5]
        raise ValueError(f"parameter_names are not those of the global: {', '.join(other) or 'one twice'}")
    return list(said)


def answer(returned: object, method: str) -> tuple[Any, int, Mapping[str, object]]:
    """The three things that `fit` and `evaluate` return.

    Raises:
        TypeError: they are not.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 3:
        raise TypeError(f"{method} returned {type(returned).__name__}, wanted three things in a tuple")
    first, count, metrics = returned
    if not isinstance(metrics, Mapping):
        raise TypeError(f"{method} returned metrics as {type(metrics).__name__}, wanted a map")
    try:
        return first, operator.index(count), metrics
    except TypeError:
        raise TypeError(
            f"{method} returned the number of examples as {type(count).__name__}, wanted an integer"
        ) from None


def numbers_of(metrics: Mapping[str, object], tell: Callable[[str], None]) -> dict[str, float]:
    """The metrics that are finite numbers; of the others a note says that they stay here.

    Args:
        metrics: as a client returned them.
        tell: takes the note.
    """
    kept: dict[str, float] = {}
    for name, given in metrics.items():
        value: object = given.item() if isinstance(given, np.generic) else given
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if isinstance(value, int | float) and number and name not in _TAKEN:
            kept[name] = value
        else:
            tell(f"the metric {name!a} is left out: {_why(name, value)}")
    return kept


def _why(name: str, value: object) -> str:
    if name in _TAKEN:
        return "its name has a meaning of its own"
    return "it is not finite" if isinstance(value, float) else f"it is {type(value).__name__}, no number"


def like_the_global(
    arrays: Sequence[object], specs: Mapping[str, Spec], *, names: Sequence[str], tell: Callable[[str], None]
) -> dict[str, Array]:
    """What `fit` returned, by name, with the dtypes of the global.

    A float of another width is cast, with a note: scikit-learn and NumPy make float64 of much.

    Raises:
        ValueError: another number of tensors, or another shape.
        TypeError: another kind of number.
    """
    if len(arrays) != len(names):
        raise ValueError(f"fit returned {len(arrays)} tensors, and the global has {len(names)}")
    made: dict[str, Array] = {}
    for name, given in zip(names, arrays, strict=True):
        array, spec = np.asarray(given), specs[name]
        if array.shape != spec.shape:
            raise ValueError(f"fit returned {name} of shape {array.shape}, and the global's is {spec.shape}")
        if array.dtype != spec.dtype:
            if array.dtype.kind != "f" or spec.dtype.kind != "f":
                raise TypeError(f"fit returned {name} as {array.dtype}, and the global has {spec.dtype}")
            tell(f"{name} is cast from {array.dtype} to the global's {spec.dtype}")
        made[name] = array.astype(spec.dtype, copy=False)
    return made
