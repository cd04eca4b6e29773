"""`clif-stitch step`: one turn for cron and schedulers."""

from __future__ import annotations

from tests.cli.federation import Federation, Said, Site

WAITING, DONE = 3, 4


def step(site: Site) -> Said:
    return site.call("step", "--exit-code")


def test_a_site_waits_for_the_lead_to_begin(federation: Federation) -> None:
    said = step(federation.nu)
    assert said.code == WAITING
    assert said.out.splitlines()[-1].startswith("waiting: ")


def test_without_exit_code_every_good_turn_is_0(federation: Federation) -> None:
    assert federation.nu.call("step").code == 0


def test_turns_alone_bring_a_federation_to_its_end(federation: Federation) -> None:
    """As cron would: one turn each, again and again, every one a fresh process."""
    codes: list[int] = []
    for _ in range(20):
        for site in (federation.lead, federation.nu):
            said = step(site)
            assert said.code in (0, WAITING, DONE), said
            codes.append(said.code)
        if codes[-2:] == [DONE, DONE]:
            break
    assert codes[-2:] == [DONE, DONE]
    assert codes[0] == 0
    assert (federation.run / "global" / "DONE.json").is_file()
    assert (federation.nu.mirror / "global" / "pass_001" / "model.json").is_file()


def test_a_failing_hook_ends_the_turn_with_its_code(federation: Federation) -> None:
    federation.lead.hooks("    base =", "    raise ValueError\n    base =")
    assert step(federation.lead).code == 11
