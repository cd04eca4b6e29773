"""A client and a strategy in place of hooks: `stitch.learning` makes the hooks from them, in the child.

The core only names that module; it imports nothing of it.
"""

from __future__ import annotations

from typing import Any

from stitch.errors import ConfigError

BRIDGE = "stitch.learning.bridge"
"""The module whose `train`, `aggregate` and `evaluate` run a client and a strategy."""

LOOK = "stitch.learning.look:look"
"""What looks at both classes without data: for `doctor`."""

TENSOR_FORMATS = ("npz", "safetensors")
"""The endings of models whose tensors an add-on can read by name; the first is the default."""


def hooks_of(given: dict[str, Any], *, options: bool, file: str) -> dict[str, Any]:
    """The `[hooks]` table with the hooks that `client` and `strategy` stand for.

    Args:
        given: the keys that the file has.
        options: whether it has a `[strategy]` table.
        file: its name, for messages.

    Raises:
        ConfigError: a client or a strategy stands beside the hook that it would be, its models have
            another format, or there are options and no strategy.
    """
    for key, hook in (("client", "train"), ("strategy", "aggregate")):
        if key not in given:
            continue
        if hook in given:
            raise ConfigError(
                f"{file}: [hooks] has both {key} and {hook}, and a {key} is the {hook} hook",
                hint=f"Remove one of the two: {key} or {hook}.",
            )
        given[hook] = f"{BRIDGE}:{hook}"
    if "client" in given:
        given.setdefault("evaluate", f"{BRIDGE}:evaluate")
        if given.get("model_ext", TENSOR_FORMATS[0]) not in TENSOR_FORMATS:
            raise ConfigError(
                f"{file}: the models of a client are named tensors, and a .{given['model_ext']} has none",
                hint='Write model_ext = "npz" or "safetensors", or a train hook instead of the client.',
            )
    if options and "strategy" not in given:
        raise ConfigError(
            f"{file}: [strategy] has options, and [hooks] names no strategy",
            hint='Write strategy = "stitch.learning:FedAvg" under [hooks].',
        )
    return given


def require_tensors(model_ext: str | None, *, table: str, file: str) -> None:
    """Refuse a table that has to open the models where nobody can.

    Args:
        model_ext: as the file gives it; None for the default.
        table: which table it is.
        file: its file, for messages.

    Raises:
        ConfigError: the models are opaque.
    """
    if (model_ext or TENSOR_FORMATS[0]) not in TENSOR_FORMATS:
        raise ConfigError(
            f"{file}: [{table}] has to open the models, and .{model_ext} files are opaque",
            hint='Use hooks.model_ext = "npz" or "safetensors".',
        )
