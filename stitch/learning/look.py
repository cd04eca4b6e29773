"""What `clif-stitch doctor` asks of a client's and a strategy's class; no data is read for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stitch.learning.bridge import build_strategy
from stitch.learning.client import check_client


def look(
    *,
    client_class: Callable[..., Any] | None = None,
    strategy_class: Callable[..., Any] | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    strategy_defaults: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Look at the client's methods, and make the strategy with its options.

    Raises:
        ConfigError: the strategy has no such options.
        TypeError: the client has no `fit` or wants what nobody gives, or the strategy is none.
    """
    if client_class is not None:
        check_client(client_class)
    if strategy_class is not None:
        build_strategy(strategy_class, strategy_options or {}, defaults=strategy_defaults)
    return {"n_samples": 0}
