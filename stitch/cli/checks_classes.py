"""What a client's and a strategy's class, and the first model, need before a run begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from stitch.cli.checks import Check, broken, fail, ok
from stitch.config.bridge import LOOK
from stitch.config.settings import Settings
from stitch.errors import ConfigError, HookError, StitchError
from stitch.files import scratch
from stitch.hooks.call import HookCall
from stitch.hooks.runner import HookRunner, check_files

_SECONDS = 60.0


def classes(settings: Settings) -> Iterator[Check]:
    """Whether the client has what it is called for, and the strategy takes its options."""
    hooks, options = settings.hooks, dict(settings.strategy_options)
    if hooks.client is not None:
        yield _looked_at(settings, "client", hooks.client, given={"client_class": hooks.client})
    if hooks.strategy is not None and settings.is_lead:
        given = {
            "strategy_class": hooks.strategy,
            "strategy_options": options,
            "strategy_defaults": settings.policy.strategy_defaults,
        }
        yield _looked_at(settings, "strategy", hooks.strategy, given=given)


def _looked_at(settings: Settings, name: str, spec: str, *, given: Mapping[str, object]) -> Check:
    with scratch() as folder:
        call = HookCall(
            hook="evaluate",
            spec=LOOK,
            root=settings.root,
            required={},
            optional=given,
            out_path=None,
            work_dir=folder,
            log_path=folder / "look.log",
            timeout_s=_SECONDS,
        )
        try:
            check_files(settings.root, spec)
            HookRunner(grace_s=1.0).run(call)
        except HookError as error:
            asked = f"the evaluate hook {LOOK}"
            cause = str(error).removeprefix(f"{asked}: ").replace(asked, f"the {name}")
            said = error.detail.strip().rpartition("\n")[2].partition(": ")[2]
            hint = error.hint if error.hint != HookError.default_hint else ""
            return broken(
                name,
                cause if not said or said in cause else f"{cause} ({said})",
                todo=hint or "Correct the class, or install what it imports: `uv sync`.",
                kind=type(error),
            )
        except StitchError as error:
            return fail(name, error)
    return ok(name, spec)


def initial_model(settings: Settings) -> Iterator[Check]:
    """Whether the file that the run begins with is there, at the lead."""
    wanted = settings.initial_model
    if wanted is None or wanted.startswith("run:") or not settings.is_lead:
        return
    todo = "Correct initial_model in stitch.toml: its path is relative to that file."
    if not (settings.root / wanted).is_file():
        yield broken("initial model", f"{wanted} does not exist", todo=todo, kind=ConfigError)
    elif Path(wanted).suffix != f".{settings.hooks.model_ext}":
        yield broken(
            "initial model", f"{wanted} is no .{settings.hooks.model_ext} file", todo=todo, kind=ConfigError
        )
    else:
        yield ok("initial model", wanted)
