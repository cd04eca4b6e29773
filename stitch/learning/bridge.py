"""The hooks that `[hooks] client` and `strategy` stand for: a class with Flower's methods in place of files.

`train` and `evaluate` ask the site's client, `aggregate` the lead's strategy. stitch.toml names the classes;
the hook's process loads them (`stitch/config/bridge.py`, `stitch/hooks/child.py`).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stitch.errors import ConfigError
from stitch.learning import aggregation
from stitch.learning.client import (
    answer,
    build_client,
    first_names,
    first_parameters,
    like_the_global,
    names_in_order,
    numbers_of,
)
from stitch.learning.strategies.settings import MOST, POSITIVE, within
from stitch.learning.strategy import Scalar, Strategy
from stitch.learning.tensors import ModelReader, open_model, write_model

BOUND = "max_norm"
"""The one option that no strategy has itself: how far a site's model may be from its base."""
_MOST_EVALUATED = 12  # of the 64 numbers that a global's seal has room for


def train(  # noqa: PLR0913  a hook's arguments, by keyword
    *,
    global_path: Path | None,
    out_path: Path,
    data_dir: Path,
    client_class: Callable[..., Any],
    config: Mapping[str, Any],
    pass_id: int,
    site_id: str,
    round_seed: int = 0,
    state_dir: Path | None = None,
    strategy_class: Callable[..., Any] | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    strategy_defaults: Mapping[str, Any] | None = None,
    config_out_path: Path | None = None,
) -> dict[str, float]:
    """Ask the client to fit the global; without one, make the model that all begin with."""
    given = {
        "data_dir": data_dir,
        "config": config,
        "site": site_id,
        "pass_id": pass_id,
        "round_seed": round_seed,
        "state_dir": state_dir,
    }
    if global_path is None:
        strategy = _strategy_if_any(strategy_class, strategy_options, defaults=strategy_defaults)
        _write_first(strategy, client_class, given, to=out_path)
        if strategy is not None and config_out_path is not None:
            _write_next(strategy, _plain(config), next_pass=1, to=config_out_path)
        return {"n_samples": 0}
    client = build_client(client_class, given)
    with open_model(global_path) as model:
        specs, names = model.specs, names_in_order(client, model.names)
        parameters = _read(model, names)
    returned = client.fit(parameters, {"server_round": pass_id, **_plain(config)})
    arrays, count, metrics = answer(returned, "fit")
    write_model(
        out_path, _stored(like_the_global(arrays, specs, names=names, tell=_tell), order=tuple(specs))
    )
    return {**numbers_of(metrics, _tell), "n_samples": count}


def evaluate(
    *,
    global_path: Path,
    data_dir: Path,
    client_class: Callable[..., Any],
    config: Mapping[str, Any],
    pass_id: int,
    site_id: str,
) -> dict[str, float]:
    """Ask the client to score a global; a client that looks at no row says nothing."""
    given = {"data_dir": data_dir, "config": config, "site": site_id, "pass_id": pass_id}
    client = build_client(client_class, {**given, "round_seed": 0, "state_dir": None})
    if not callable(getattr(client, "evaluate", None)):
        return {"n_samples": 0}
    with open_model(global_path) as model:
        parameters = _read(model, names_in_order(client, model.names))
    loss, count, metrics = answer(
        client.evaluate(parameters, {"server_round": pass_id, **_plain(config)}), "evaluate"
    )
    if count == 0:
        return {"n_samples": 0}
    return {**numbers_of({**metrics, "loss": loss}, _tell), "n_samples": count}


def aggregate(  # noqa: PLR0913  as above
    *,
    site_dir: Path,
    out_path: Path,
    strategy_class: Callable[..., Any],
    strategy_options: Mapping[str, Any],
    train_config: Mapping[str, Any],
    global_path: Path,
    bases_dir: Path,
    pass_id: int,
    round_seed: int,
    strategy_defaults: Mapping[str, Any] | None = None,
    outer_path: Path | None = None,
    outer_out_path: Path | None = None,
    config_out_path: Path | None = None,
    evaluation_results: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Make the next global by the strategy, and let it say what the next pass is trained with.

    What the sites said of the global before goes through `aggregate_evaluate`, last of all: the metrics
    `evaluate.loss` and `evaluate.<name>` of the new global. Whoever makes it again need not have it.
    """
    strategy = build_strategy(strategy_class, strategy_options, defaults=strategy_defaults)
    made = aggregation.aggregate(
        site_dir=site_dir,
        out_path=out_path,
        global_path=global_path,
        bases_dir=bases_dir,
        strategy=strategy,
        outer_path=outer_path,
        outer_out_path=outer_out_path,
        round_seed=round_seed,
        max_norm=norm_bound(strategy_class, strategy_options),
    )
    if config_out_path is not None:
        _write_next(strategy, train_config, next_pass=pass_id + 1, to=config_out_path)
    return {**made, **_evaluated(strategy, evaluation_results)}


def build_strategy(
    strategy_class: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] | None = None,
) -> Strategy:
    """The strategy, called with its options.

    Args:
        strategy_class: its class.
        options: the `[strategy]` table.
        defaults: what the run's policy says, of which the class takes what it names and was not given.

    Raises:
        ConfigError: it takes others, or the bound of the norm is none or cannot be taken.
        TypeError: it makes no `Strategy`.
    """
    name, takes = getattr(strategy_class, "__qualname__", "the strategy"), _takes(strategy_class)
    bound = norm_bound(strategy_class, options)
    own = {key: value for key, value in (defaults or {}).items() if key in takes} | dict(options)
    if bound is not None:
        del own[BOUND]
    _check_options(strategy_class, own, name=name)
    made = strategy_class(**own)
    if not isinstance(made, Strategy):
        raise TypeError(f"{name} made {type(made).__name__}, which is no stitch.learning.Strategy")
    aggregation.check_bound(made, bound)
    return made


def _write_first(
    strategy: Strategy | None, client_class: Callable[..., Any], given: Mapping[str, Any], *, to: Path
) -> None:
    """Write global 0: what the strategy's `initialize_parameters` gives, else the client's `get_parameters`.

    No client is built for the first, since it may want data.
    """
    first = None if strategy is None else strategy.initialize_parameters()
    named: object = client_class
    if first is None:
        named = build_client(client_class, given)
        first = first_parameters(named)
    write_model(to, dict(zip(first_names(named, len(first)), first, strict=True)))


def _strategy_if_any(
    strategy_class: Callable[..., Any] | None,
    options: Mapping[str, Any] | None,
    *,
    defaults: Mapping[str, Any] | None,
) -> Strategy | None:
    return (
        None if strategy_class is None else build_strategy(strategy_class, options or {}, defaults=defaults)
    )


def norm_bound(strategy_class: Callable[..., Any], options: Mapping[str, Any]) -> float | None:
    """`max_norm` of the `[strategy]` table, unless the class has an option of that name itself.

    Raises:
        ConfigError: it is no number above 0.
    """
    if BOUND not in options or BOUND in _takes(strategy_class):
        return None
    return within(BOUND, options[BOUND], low=POSITIVE, high=MOST)


def _takes(strategy_class: Callable[..., Any]) -> list[str]:
    """The options that the class names."""
    given = inspect.signature(strategy_class).parameters.values()
    return [one.name for one in given if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]


def _check_options(strategy_class: Callable[..., Any], options: Mapping[str, Any], *, name: str) -> None:
    signature, takes = inspect.signature(strategy_class), _takes(strategy_class)
    takes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    hint = f"[strategy] may have: {', '.join(dict.fromkeys([*takes, BOUND]))}."
    if unknown := sorted(set(options) - set(takes) if not takes_all else ()):
        raise ConfigError(f"the strategy {name} has no option {', '.join(unknown)}", hint=hint)
    missing = [
        one
        for one in takes
        if one not in options and signature.parameters[one].default is inspect.Parameter.empty
    ]
    if missing:
        raise ConfigError(
            f"the strategy {name} needs the option {', '.join(missing)}",
            hint=f"Write it under [strategy], such as {missing[0]} = 0.1.",
        )


def _evaluated(strategy: Strategy, told: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the strategy makes of the evaluations that have a loss."""
    results = [
        (float(one["metrics"]["loss"]), int(one["n_samples"]), _without_loss(one["metrics"]))
        for one in told
        if "loss" in one["metrics"]
    ]
    if not results:
        return {}
    loss, metrics = strategy.aggregate_evaluate(results)
    found = numbers_of({"loss": loss, **_without_loss(metrics)}, _tell)
    return {f"evaluate.{name}"[:64]: value for name, value in list(found.items())[:_MOST_EVALUATED]}


def _without_loss(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name != "loss"}


def _write_next(strategy: Strategy, config: Mapping[str, Scalar], *, next_pass: int, to: Path) -> None:
    """Write down what the strategy changes for the next pass; what stands in stitch.toml need not be."""
    wanted = strategy.configure_fit(next_pass, config)
    missing = object()
    changed = {name: value for name, value in wanted.items() if config.get(name, missing) != value}
    if changed:
        to.write_text(json.dumps(changed, allow_nan=False, sort_keys=True), encoding="utf-8")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """What every site has alike: the site's own file goes to the client's `__init__` alone."""
    return {name: value for name, value in config.items() if name != "site"}


def _read(model: ModelReader, names: list[str]) -> list[Any]:
    return [model.read(name) for name in names]


def _stored(tensors: Mapping[str, Any], *, order: tuple[str, ...]) -> dict[str, Any]:
    """In the order of the global's file, whatever the client's."""
    return {name: tensors[name] for name in order}


def _tell(note: str) -> None:
    print(f"note: {note}")  # noqa: T201 - a hook's output is its log
