"""The same acts as Azure CLI commands, for a cloud team that lets nobody else hold the account's key.

A POSIX shell script without a secret in it: policies and tokens are made where it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from shlex import quote

from stitch.cli.provision_kits import DAYS, KITS, Asked, instructions, kit_head
from stitch.store.azure_provision import (
    BEAT,
    LANE_MARK,
    MOST_POLICIES,
    REVOKED_MARK,
    RUN_MARK,
    SHARED,
    SITE,
    Container,
    Token,
    Want,
    withdrawn,
)

_OURS = f"""\
there() {{  # NAME: whether there is such a container
  there=$(az storage container exists --name "$1" --query exists --output tsv) || exit 1
  [ "$there" = true ]
}}

ours() {{  # NAME RUN LANE: stops unless the container says that it is this lane's
  run=$(az storage container metadata show --name "$1" --query {RUN_MARK} --output tsv) || exit 1
  lane=$(az storage container metadata show --name "$1" --query {LANE_MARK} --output tsv) || exit 1
  [ "$run $lane" = "$2 $3" ] || {{ echo "error: $1 is there already, and not for $2 $3" >&2; exit 1; }}
}}
"""

_REVOKED = f"""\
revoked() {{  # NAME: whether the site of this lane was revoked
  mark=$(az storage container metadata show --name "$1" --query {REVOKED_MARK} --output tsv) || exit 1
  [ -n "$mark" ]
}}
"""

_GRANT = f"""\
make() {{  # NAME RUN LANE
  there "$1" || az storage container create --name "$1" \\
    --metadata {RUN_MARK}="$2" {LANE_MARK}="$3" --output none
}}

policy() {{  # CONTAINER PURPOSE PERMISSIONS: sets $id, the stored access policy that serves the purpose
  id=$(az storage container policy list --container-name "$1" \\
    --query "keys(@)[?starts_with(@, '$2_')] | [0]" --output tsv) || exit 1
  [ -n "$id" ] || id="$2_$(date -u +%Y%m%d%H%M%S)"  # a new id: one that was withdrawn must not come back
  az storage container policy create --container-name "$1" --name "$id" --permissions "$3" --output none
}}

policy_or() {{  # CONTAINER PURPOSE PERMISSIONS OTHER: as policy; OTHER, when there is no room for one more
  id=$(az storage container policy list --container-name "$1" \\
    --query "keys(@)[?starts_with(@, '$2_')] | [0]" --output tsv) || exit 1
  held=$(az storage container policy list --container-name "$1" \\
    --query "length(keys(@))" --output tsv) || exit 1
  if [ -z "$id" ] && [ "$held" -ge {MOST_POLICIES - 1} ]; then
    policy "$1" "$4" "$3"
  else
    policy "$1" "$2" "$3"
  fi
}}

add() {{  # KIT VARIABLE CONTAINER [BLOB]: a line of a kit, a token that hangs on the policy $id
  if [ $# -eq 4 ]; then
    token=$(az storage blob generate-sas --container-name "$3" --name "$4" \\
      --policy-name "$id" --expiry "$until" $https --output tsv --only-show-errors) || exit 1
  else
    token=$(az storage container generate-sas --name "$3" \\
      --policy-name "$id" --expiry "$until" $https --output tsv --only-show-errors) || exit 1
  fi
  printf '%s="%s/%s?%s"\\n' "$2" "$endpoint" "$3${{4:+/$4}}" "$token" >> "{KITS}/$1.env"
}}
"""

_WITHDRAW = """\
held() {  # CONTAINER PURPOSE: sets $ids, the policies for this purpose; whether there are any
  there "$1" || return 1
  ids=$(az storage container policy list --container-name "$1" \\
    --query "keys(@)[?starts_with(@, '$2_')]" --output tsv) || exit 1
  [ -n "$ids" ]
}

withdraw() {  # CONTAINER PURPOSE: ends every token that hangs on the policies for this purpose
  held "$1" "$2" || return 0
  for id in $ids; do
    az storage container policy delete --container-name "$1" --name "$id" --output none
    echo "withdrawn: $1 $id"
  done
}
"""


def grant_script(asked: Asked) -> str:
    """What `provision` does, as a script: containers, policies, then kits."""
    plan, days = asked.plan, asked.days or DAYS
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    lines = [
        *_head(asked, f"make what is missing, and kits in {KITS}/ for {days} days"),
        f"until={until:%Y-%m-%dT%H:%M:%SZ}",
        f"https={'--https-only' if asked.endpoint.startswith('https:') else ''}",
        "",
        _OURS,
        _REVOKED,
        _GRANT,
    ]
    lines += [f"if there {one.name}; then {_ours(asked, one)}; fi" for one in plan.containers]
    lines += [_ours(asked, one, act="make") for one in plan.containers]
    lines += ["", f"mkdir -p {KITS}", f"echo '*' > {KITS}/.gitignore"]
    for site in plan.kits:
        lines += ["", *_kit(asked, site, until=until)]
    lines += ["", f"echo 'Wrote {KITS}/: send each site its two files so that only it can read them.'"]
    return "\n".join(lines) + "\n"


def revoke_script(asked: Asked) -> str:
    """What `provision --revoke` does, as a script."""
    lines = [*_head(asked, f"end the tokens of {asked.revoke}"), "", _OURS, _WITHDRAW]
    acts = withdrawn(asked.plan, asked.revoke)
    own = list(acts)[-1]
    lines.append(f'there {own} || {{ echo "error: there is no container {own}" >&2; exit 1; }}')
    touched = [one for one in asked.plan.containers if one.name in acts]
    lines += [f"if there {one.name}; then {_ours(asked, one)}; fi" for one in touched]
    unfinished = f"if held {own} {SITE} || held {own} {BEAT}; then"
    for container, purposes in acts.items():
        for purpose in purposes:
            act = f"withdraw {container} {purpose}"
            lines.append(f"{unfinished} {act}; fi" if purpose == SHARED else act)
    if asked.revoke != asked.plan.lead:
        mark = f" {REVOKED_MARK}={datetime.now(UTC):%Y-%m-%d}"
        lines.append(_marks(asked, asked.plan.container_of(asked.revoke), more=mark))
    lines += [
        f"rm -f {KITS}/{asked.revoke}.env {KITS}/{asked.revoke}.md",
        "# If 'shared_...' was among them, the sites without a policy 'read_<site>_...' need new kits:",
        "# clif-stitch provision --sites THOSE --print",
    ]
    return "\n".join(lines) + "\n"


def _head(asked: Asked, what: str) -> Iterator[str]:
    yield "#!/bin/sh"
    yield f"# clif-stitch provision, run {asked.plan.run_id}: {what}."
    yield "# Run it where `az login` or AZURE_STORAGE_KEY gives the account's key."
    yield "# No blob is touched."
    yield "set -eu"
    yield "umask 077"
    yield f"endpoint={asked.endpoint}"
    yield "unset AZURE_STORAGE_CONNECTION_STRING AZURE_STORAGE_SAS_TOKEN  # they would win over this:"
    yield f"export AZURE_STORAGE_ACCOUNT={asked.account}"
    if asked.endpoint != f"https://{asked.account}.blob.core.windows.net":
        yield 'export AZURE_STORAGE_ACCOUNT_URL="$endpoint"'


def _kit(asked: Asked, site: str, *, until: datetime) -> list[str]:
    """A site's two files; none for one that was revoked, unless it was asked for by name."""
    plan, own = asked.plan, asked.plan.container_of(site)
    containers = {one.name: one for one in plan.containers}
    lines = _file(f"{KITS}/{site}.env", kit_head(asked, site, until=until))
    for token in plan.kits[site]:
        lines += _token(site, token, containers[token.container])
    lines += _file(f"{KITS}/{site}.md", instructions(asked, site, until=until))
    if site == plan.lead:
        return lines
    if site in asked.named:
        return [*lines, f"if revoked {own.name}; then {_marks(asked, own)}; fi"]
    said = f"echo 'none for {site}: revoked; name it in --sites to take it back'"
    return [f"if revoked {own.name}; then {said}; else", *lines, "fi"]


def _marks(asked: Asked, container: Container, *, more: str = "") -> str:
    marks = f"{RUN_MARK}={quote(asked.plan.run_id)} {LANE_MARK}={quote(container.lane)}{more}"
    return f"az storage container metadata update --name {container.name} --metadata {marks} --output none"


def _ours(asked: Asked, container: Container, *, act: str = "ours") -> str:
    return f"{act} {container.name} {quote(asked.plan.run_id)} {quote(container.lane)}"


def _token(site: str, token: Token, container: Container) -> list[str]:
    want = next(one for one in container.wants if one.purpose == token.purpose)
    blob = f" {token.blob}" if token.blob else ""
    return [_policy(container.name, want), f"add {site} {token.variable} {container.name}{blob}"]


def _policy(container: str, want: Want) -> str:
    if want.otherwise:
        return f"policy_or {container} {want.purpose} {want.permissions} {want.otherwise}"
    return f"policy {container} {want.purpose} {want.permissions}"


def _file(path: str, text: str) -> list[str]:
    """A file with this text, in which the shell replaces nothing."""
    return [f"cat > {path} <<'END'", text.rstrip("\n"), "END"]
