"""What `import stitch` costs a hook's process: nothing of the core is loaded until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stitch

HEAVY = ("azure", "cryptography", "filelock", "psutil", "pydantic", "rich", "tenacity", "typer", "requests")


def loaded(code: str) -> set[str]:
    """The top-level packages in a fresh interpreter after `code`."""
    told = f"{code}\nimport sys\nprint(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in shown.stdout.split()}


def test_a_hooks_process_loads_nothing_of_the_core() -> None:
    names = loaded("import stitch, stitch.errors")
    assert "stitch" in names
    assert not names & set(HEAVY)


def test_a_verb_loads_no_cloud_sdk_and_no_http_library_before_it_needs_one() -> None:
    """Else `status` of a shared folder, and each turn of a scheduler, would wait for them."""
    names = loaded("import stitch.cli.app")
    assert "typer" in names
    assert not names & {"azure", "cryptography", "numpy", "requests"}


def test_every_export_is_there_and_listed() -> None:
    for name in stitch.__all__:
        assert getattr(stitch, name) is not None
        assert name in dir(stitch)
    from stitch import Client, Status  # noqa: PLC0415 - as a notebook does

    assert Status.UPLOADED.value == "uploaded"
    assert Client.__module__ == "stitch.client.client"


def test_a_name_that_is_not_there_is_refused_as_usual() -> None:
    with pytest.raises(AttributeError, match="'stitch' has no attribute 'Clyent'"):
        stitch.Clyent  # type: ignore[attr-defined]  # noqa: B018 - that it is refused is the point
