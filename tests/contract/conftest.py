"""Shows what a failed assert of the published suite compared."""

import pytest

pytest.register_assert_rewrite("stitch.testing.store_contract")
