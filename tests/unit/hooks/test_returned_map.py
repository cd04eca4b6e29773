"""The rules for the map that a hook returns, at their edges."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch.errors import HookOutput
from stitch.hooks import HookCall, HookName
from stitch.hooks.output import MOST_BYTES, MOST_KEYS, check_returned


def call(hook: HookName = "train", *, default_n_samples: int | None = None) -> HookCall:
    here = Path()
    return HookCall(
        hook=hook,
        spec="a.py:b",
        root=here,
        required={},
        out_path=None,
        work_dir=here,
        log_path=here,
        default_n_samples=default_n_samples,
    )


def refusal(returned: dict[str, object], hook: HookName = "train") -> str:
    with pytest.raises(HookOutput) as caught:
        check_returned(call(hook), returned)
    assert caught.value.hint
    assert "\n" not in str(caught.value) + caught.value.hint
    assert str(caught.value).isascii()
    return str(caught.value)


def test_n_samples_is_an_integer_of_at_least_zero() -> None:
    assert check_returned(call(), {"n_samples": 0}).n_samples == 0
    assert "no n_samples" in refusal({"loss": 1})
    assert "n_samples as a boolean" in refusal({"n_samples": True})
    assert "n_samples as a float" in refusal({"n_samples": 120.0})
    assert "n_samples as text" in refusal({"n_samples": "120"})
    assert "n_samples as nothing" in refusal({"n_samples": None})
    assert "negative" in refusal({"n_samples": -1})
    assert "impossible" in refusal({"n_samples": 2**60})


def test_a_default_counts_only_where_nothing_is_returned() -> None:
    assert check_returned(call("aggregate", default_n_samples=9), {}).n_samples == 9
    assert check_returned(call("aggregate", default_n_samples=9), {"n_samples": 3}).n_samples == 3


def test_should_stop_is_a_boolean_of_aggregate() -> None:
    assert check_returned(call("aggregate"), {"n_samples": 1, "should_stop": True}).should_stop
    assert not check_returned(call("aggregate"), {"n_samples": 1}).should_stop
    assert "should_stop as an integer" in refusal({"n_samples": 1, "should_stop": 1}, "aggregate")
    assert "returned should_stop" in refusal({"n_samples": 1, "should_stop": False})


def test_keys_are_bounded_names() -> None:
    longest = "a" + "b" * 63
    good: dict[str, object] = {"n_samples": 1, longest: 1.0, "_a.b-c9": 2}
    assert check_returned(call(), good).metrics == {longest: 1.0, "_a.b-c9": 2}
    for bad in ("", "9a", "a b", "a" * 65, "patient\n4711", "größe", ".a", "a/b", "a\n"):
        assert "no metric's name" in refusal({"n_samples": 1, bad: 1.0})


def test_there_are_at_most_64_keys_and_16_kib() -> None:
    most: dict[str, object] = {f"m{number}": 0.5 for number in range(MOST_KEYS - 1)}
    assert len(check_returned(call(), {"n_samples": 1, **most}).metrics) == MOST_KEYS - 1
    assert "65 keys" in refusal({"n_samples": 1, "one_more": 1, **most})
    long: dict[str, object] = {"m" * 60 + str(number): 10**300 for number in range(60)}
    assert f"over the limit of {MOST_BYTES}" in refusal({"n_samples": 1, **long})


def test_values_are_finite_numbers() -> None:
    assert "'a' as nan" in refusal({"n_samples": 1, "a": math.nan})
    assert "'a' as -inf" in refusal({"n_samples": 1, "a": -math.inf})
    assert "'a' as a boolean" in refusal({"n_samples": 1, "a": False})
    assert "'a' as a map" in refusal({"n_samples": 1, "a": {}})
    assert "'a' as a number beyond a float" in refusal({"n_samples": 1, "a": 10**400})


def test_what_had_no_json_value_is_named_with_its_type() -> None:
    with pytest.raises(HookOutput, match="'rows' as DataFrame"):
        check_returned(call(), {"n_samples": 1}, odd={"rows": "DataFrame"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    st.lists,
    max_leaves=3,
)


@given(
    st.dictionaries(st.text(max_size=70) | st.sampled_from(["n_samples", "should_stop", "a"]), json_values)
)
def test_whatever_passes_holds_finite_numbers_under_legal_names(returned: dict[str, object]) -> None:
    try:
        checked = check_returned(call("aggregate"), returned)
    except HookOutput:
        return
    assert checked.n_samples >= 0
    assert all(math.isfinite(value) and not isinstance(value, bool) for value in checked.metrics.values())
    assert all(name.isascii() and name.isprintable() and " " not in name for name in checked.metrics)
