"""The command line: every verb, and what each kind of error becomes for a person."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from stitch.cli.audit import audit
from stitch.cli.carry import carry
from stitch.cli.commitment import commitment
from stitch.cli.crash import complain, report_crash
from stitch.cli.demo import demo
from stitch.cli.doctor import doctor
from stitch.cli.end import end
from stitch.cli.init import init
from stitch.cli.keys import keys
from stitch.cli.log import log
from stitch.cli.outbox import outbox
from stitch.cli.privacy import privacy
from stitch.cli.provision import provision
from stitch.cli.replay import replay
from stitch.cli.retries import retries_told
from stitch.cli.run import run
from stitch.cli.saying import spoken
from stitch.cli.setup import setup
from stitch.cli.sites import sites
from stitch.cli.status import status
from stitch.cli.step import step
from stitch.cli.try_hook import try_hook
from stitch.cli.verify import verify
from stitch.cli.whole_help import WholeHelp
from stitch.errors import StitchError
from stitch.version import __version__

_INTERRUPTED = 130

app = typer.Typer(
    name="clif-stitch",
    cls=WholeHelp,
    help="Hospitals train one model together: no server, no patient data leaves, only files travel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain ASCII help: hospital consoles run code page 1252
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the callback's signature is Typer's
    if wanted:
        typer.echo(f"clif-stitch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hospitals train one model together: no server, no patient data leaves, only files travel."""


for _name, _verb in (
    ("demo", demo),
    ("init", init),
    ("setup", setup),
    ("doctor", doctor),
    ("provision", provision),
    ("try", try_hook),
    ("run", run),
    ("step", step),
    ("status", status),
    ("log", log),
    ("end", end),
    ("verify", verify),
    ("audit", audit),
    ("commitment", commitment),
    ("replay", replay),
):
    app.command(_name)(_verb)
app.add_typer(sites, name="sites")
app.add_typer(outbox, name="outbox")
app.add_typer(carry, name="carry")
app.add_typer(keys, name="keys")
app.add_typer(privacy, name="privacy")


def _of_the_store(line: str) -> None:
    typer.echo(spoken(line, sys.stderr, indent=2), err=True)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code (stitch/errors.py).

    Args:
        args: the command line without the program's name; by default this process's.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a path with letters that the console lacks must not end us
            stream.reconfigure(errors="backslashreplace")
    try:
        with retries_told(_of_the_store):
            app(args=None if args is None else list(args), prog_name="clif-stitch")
    except StitchError as error:
        complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last resort: one line for the user, the rest in a file
        sys.exit(report_crash(error))
    sys.exit(0)
