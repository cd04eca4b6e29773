"""What the contract tests share, and what a failed assert of the published suite compared."""

from pathlib import Path

import pytest

from tests.contract.certificates import issue_certificates

pytest.register_assert_rewrite("stitch.testing.store_contract")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ca.pem`, and `server.pem` for 127.0.0.1 that it issued."""
    folder = tmp_path_factory.mktemp("certificates")
    issue_certificates(folder)
    return folder
