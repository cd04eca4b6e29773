"""Seeds: the same everywhere, in every version, for every reader of JSON."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stitch.rounds import root_seed_of, round_seed

SEEDS_OF_7 = [1670784379, 944042161, 1790036868, 1998198973]


def test_the_seeds_of_a_run_are_fixed_for_ever() -> None:
    """Published runs are repeated from them: a change here is a new major version."""
    assert [round_seed(7, number) for number in (0, 1, 2, 1000)] == SEEDS_OF_7


@given(st.integers(0, 2**53 - 1), st.integers(0, 10_000))
def test_a_seed_fits_what_r_and_c_take(root: int, number: int) -> None:
    assert 0 <= round_seed(root, number) < 2**31


def test_rounds_and_runs_have_seeds_of_their_own() -> None:
    seeds = {round_seed(root, number) for root in range(20) for number in range(50)}
    assert len(seeds) == 1000


@given(st.binary(min_size=7, max_size=32))
def test_a_root_seed_is_exact_in_every_json_reader(entropy: bytes) -> None:
    seed = root_seed_of(entropy)
    assert 0 <= seed < 2**53
    assert int(float(seed)) == seed


def test_a_root_seed_uses_all_its_bits() -> None:
    assert root_seed_of(b"\xff" * 7) == 2**53 - 1
    assert root_seed_of(b"\x00" * 6 + b"\x01") == 1
