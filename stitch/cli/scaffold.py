"""Renders a project folder from the templates: what `clif-stitch init` and `demo` both call.

A template is a list of layers (folders under `templates/`) that are laid over one another, the
later ones winning. A file ending in `.tmpl` has its `{{ name }}` replaced; any other file is
copied byte for byte, so that the hooks of a template are plain code that tests import. A name
beginning with `dot_` gets its dot here, lest git and build tools heed the templates' ignore files.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from stitch.config import names
from stitch.errors import ConfigError, DiskError, StitchError
from stitch.hooks import risky_extension
from stitch.version import __version__

TEMPLATES = ("numpy", "gbm", "r")

_PLACEHOLDER = re.compile(r"\{\{ ([a-z_]+) \}\}")
_WHEEL = re.compile(r"clif_stitch-[^-]+(-[^-]+){3,4}\.whl\Z")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A project folder that was written.

    Attributes:
        root: the folder, absolute.
        run_id: the run its stitch.toml names.
        files: what was written, relative to `root`, sorted.
        warnings: one line each, for the person who asked.
    """

    root: Path
    run_id: str
    files: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """The numbers of stitch.toml; a `root_seed` of None follows from the run id."""

    num_passes: int = 10
    poll_seconds: float = 30.0
    heartbeat_minutes: float = 2.0
    root_seed: int | None = None


@dataclass(frozen=True, slots=True)
class _Template:
    folders: tuple[Path, ...]
    title: str
    model_ext: str
    dependencies: tuple[str, ...]
    text: Mapping[str, str]


def render_project(
    dest: Path,
    *,
    lead: str,
    sites: Sequence[str],
    template: str = "numpy",
    run_id: str | None = None,
    wheel: Path | None = None,
    site: str | None = None,
    pace: Pace = Pace(),
) -> Rendered:
    """Write a whole project folder, or nothing.

    Args:
        dest: the folder to make; it must not exist, or be empty.
        lead: the site that also aggregates, one of `sites`.
        sites: everyone who takes part.
        template: one of `TEMPLATES`.
        run_id: the run's name; None derives one from the folder's name.
        wheel: a clif-stitch wheel to carry along and install from, instead of a pinned version.
        site: also write this site's config/config.json, with the project's own `data/` folder.
        pace: the numbers of stitch.toml.

    Raises:
        ConfigError: a name, the template or the wheel cannot be used, or `dest` is in use.
        DiskError: the folder cannot be written.
    """
    roster = names.roster(sites, where="--sites")
    leader = names.site_id(lead, where="--lead")
    if leader not in roster:
        listed = ", ".join(roster) or "(none)"
        raise ConfigError(f"the lead {leader!r} is not among the sites {listed}", hint="Add it to --sites.")
    run = names.run_id(run_id, where="--run-id") if run_id else run_id_from(dest)
    _check_wheel(wheel)
    _check_free(dest)
    chosen = _read_template(template)
    values = _values(chosen, run=run, lead=leader, roster=roster, wheel=wheel, pace=pace)
    with _whole_or_nothing(dest) as draft:
        for folder in chosen.folders:
            _lay(folder, draft, values)
        if wheel is not None:
            (draft / "vendor").mkdir()
            shutil.copyfile(wheel, draft / "vendor" / wheel.name)
        if site is not None:
            write_site_config(draft, site=site, data_directory="data")
        files = tuple(
            sorted(file.relative_to(draft).as_posix() for file in draft.rglob("*") if file.is_file())
        )
    warning = format_warning(chosen.model_ext)
    return Rendered(dest.resolve(), run, files, (warning,) if warning else ())


def write_site_config(root: Path, *, site: str, data_directory: str) -> None:
    """Write config/config.json from the project's own template, for one site.

    Raises:
        ConfigError: `site` is no site id.
    """
    text = (root / "config" / "config_template.json").read_text(encoding="utf-8")
    own = {"site_name": names.site_id(site, where="--site"), "data_directory": data_directory}
    (root / "config" / "config.json").write_text(
        json.dumps(json.loads(text) | own, indent=2) + "\n", encoding="utf-8", newline="\n"
    )


def run_id_from(dest: Path) -> str:
    """A run id made of the folder's name: lower-case words joined by hyphens.

    Raises:
        ConfigError: the name holds no letter or digit, or is a Windows device's.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", dest.resolve().name.lower()).strip("-")[:64].rstrip("-")
    return names.run_id(slug, where=f"the folder name {dest.name!r}")


def format_warning(model_ext: str) -> str:
    """One line for a model format that can run code when it is opened, else ""."""
    risk = risky_extension(model_ext)
    return f'model_ext = "{model_ext}": {risk}; prefer npz, safetensors, json or csv' if risk else ""


def templates_dir() -> Path:
    """Where the templates lie: inside the installed package, or at the top of a checkout.

    Raises:
        StitchError: neither is there.
    """
    package = Path(str(resources.files("stitch")))
    for folder in (package / "_templates", package.parent / "templates"):
        if (folder / "common").is_dir():
            return folder
    raise StitchError("this clif-stitch lacks its templates", hint="Install clif-stitch again.")


def _read_template(name: str) -> _Template:
    if name not in TEMPLATES:
        raise ConfigError(f"there is no template {name!r}", hint=f"Choose one of: {', '.join(TEMPLATES)}.")
    folder = templates_dir()
    table = tomllib.loads((folder / name / "template.toml").read_text(encoding="utf-8"))
    return _Template(
        folders=tuple(folder / layer for layer in table["layers"]),
        title=table["title"],
        model_ext=table["model_ext"],
        dependencies=tuple(table["dependencies"]),
        text={key: str(value).strip("\n") for key, value in table["text"].items()},
    )


def _values(
    template: _Template, *, run: str, lead: str, roster: Sequence[str], wheel: Path | None, pace: Pace
) -> dict[str, str]:
    """What the placeholders stand for."""
    seed = zlib.crc32(run.encode("utf-8")) if pace.root_seed is None else pace.root_seed
    source = "" if wheel is None else f'\n[tool.uv.sources]\nclif-stitch = {{ path = "vendor/{wheel.name}" }}'
    requirements = (_requirement(wheel), *template.dependencies)
    return {
        "run_id": run,
        "project_name": f"{run.rstrip('._-').lower()}-federation",  # never the name of a dependency
        "lead": lead,
        "sites_toml": ", ".join(f'"{name}"' for name in roster),
        "sites_text": ", ".join(f"`{name}`" for name in roster),
        "number_of_sites": str(len(roster)),
        "num_passes": str(pace.num_passes),
        "poll_seconds": f"{pace.poll_seconds:g}",
        "heartbeat_minutes": f"{pace.heartbeat_minutes:g}",
        "root_seed": str(seed),
        "title": template.title,
        "model_ext": template.model_ext,
        "dependencies_toml": "\n".join(f'  "{requirement}",' for requirement in requirements),
        "uv_sources": source,
        **template.text,
    }


def _lay(folder: Path, draft: Path, values: Mapping[str, str]) -> None:
    """Copy or render one layer into `draft`."""
    for source in sorted(folder.rglob("*")):
        inner = source.relative_to(folder)
        if not source.is_file() or inner.as_posix() == "template.toml" or "__pycache__" in inner.parts:
            continue
        rendered = source.suffix == ".tmpl"
        name = re.sub(r"\Adot_", ".", inner.name.removesuffix(".tmpl") if rendered else inner.name)
        target = draft / inner.parent / name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes().replace(b"\r\n", b"\n")
        if rendered:
            data = fill(data.decode("utf-8"), values).encode("utf-8")
        # cmd.exe misreads labels and blocks of a batch file with bare line feeds.
        target.write_bytes(data.replace(b"\n", b"\r\n") if target.suffix == ".bat" else data)
        if target.suffix == ".sh":
            target.chmod(0o755)


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `{{ name }}` replaced by its value, and one newline at its end.

    Raises:
        StitchError: a name has no value.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise StitchError(f"a template names {match[1]!r}, which has no value")
        return values[match[1]]

    return _PLACEHOLDER.sub(value, text).rstrip("\n") + "\n"


def _requirement(wheel: Path | None) -> str:
    if wheel is not None:
        return "clif-stitch"
    if __version__.startswith("0+"):
        raise ConfigError(
            "clif-stitch runs here without being installed, so there is no version to pin",
            hint="Install it (`uv sync` in its checkout), or give --wheel FILE.",
        )
    return f"clif-stitch=={__version__}"


def _check_wheel(wheel: Path | None) -> None:
    if wheel is None:
        return
    if not wheel.is_file():
        raise ConfigError(f"there is no wheel at {wheel}", hint="Give --wheel the path of a .whl file.")
    if not _WHEEL.match(wheel.name):
        raise ConfigError(
            f"{wheel.name!r} is not a wheel of clif-stitch",
            hint="Its name must be as it was built: clif_stitch-VERSION-py3-none-any.whl.",
        )


def _check_free(dest: Path) -> None:
    if dest.resolve() == Path.cwd().resolve():
        raise ConfigError("the project cannot be rendered into the current folder", hint="Name a new folder.")
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        raise ConfigError(f"{dest} already exists", hint="Name a new folder: init never overwrites anything.")


@contextmanager
def _whole_or_nothing(dest: Path) -> Iterator[Path]:
    """A draft folder beside `dest` that takes its name at the end, or vanishes."""
    draft: Path | None = None
    try:
        dest.resolve().parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{dest.name}.", suffix=".draft", dir=dest.resolve().parent))
        draft.chmod(0o755)
        yield draft
        if dest.exists():
            dest.rmdir()  # empty, else refused above; Windows cannot rename onto it
        draft.replace(dest)
    except OSError as error:
        raise DiskError(f"the project folder {dest} cannot be written: {error.strerror or error}") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
