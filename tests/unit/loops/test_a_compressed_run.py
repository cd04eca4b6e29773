"""A run whose sites compress what they send, and one that sends something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stitch.config.compression import Compression
from stitch.config.privacy import Privacy
from tests.unit.loops.private import PrivateRun


def test_a_pass_that_cannot_be_expanded_is_left_out_by_name_before_the_verdict(tmp_path: Path) -> None:
    """After it nobody could be left out any more, and one site's file would stop the federation."""
    run = PrivateRun(
        tmp_path,
        privacy=Privacy(),
        functions={"expand": None},  # in a child, as it is
        compression=Compression("int8"),
        num_passes=1,
    )
    loops = run.loops()
    nu = run.clients["nu"]
    assert nu.config_sha256 == run.clients["rush"].config_sha256
    nu.settings = replace(nu.settings, compression=Compression())  # it agreed, and sends its model whole
    try:
        run.finish(loops)
        record = run.seal(1).round
        assert record is not None
        assert [one.site for one in record.inputs] == ["rush", "uchicago"]
        assert [(one.site, one.reason) for one in record.excluded] == [
            ("nu", "its model cannot be expanded: the model has no tensor 'w.stitch_at'")
        ]
    finally:
        run.close()
