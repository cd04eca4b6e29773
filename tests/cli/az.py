"""Stands for the Azure CLI: the commands that `provision --print` uses, carried out on a real blob service.

Options are those of Azure CLI 2; one that it does not know fails, so that no misspelt one is passed over.
The `az` on the path is a few lines that hand their words to the test's process, which has the SDK loaded.
"""

from __future__ import annotations

import argparse
import json
import re
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from azure.storage.blob import (
    AccessPolicy,
    BlobServiceClient,
    ContainerClient,
    generate_blob_sas,
    generate_container_sas,
)

from stitch.testing.azurite import ACCOUNT, Azurite

_OF_TOKENS = ("https-only", "only-show-errors")
_CLIENT = """#!{python} -IS
import json, socket, sys
with socket.create_connection(("127.0.0.1", {port})) as line:
    line.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
    code, said = json.loads(line.makefile(encoding="utf-8").readline())
if said:
    print(said, file=sys.stderr if code else sys.stdout)
sys.exit(code)
"""


class Az:
    """The commands, by their words.

    Args:
        azurite: the account.
    """

    def __init__(self, azurite: Azurite) -> None:
        self._service = BlobServiceClient.from_connection_string(
            azurite.connection_string, api_version="2026-06-06"
        )
        self._key = azurite.account_key
        self._verbs: dict[str, Callable[[Sequence[str]], str]] = {
            "storage container exists": self._exists,
            "storage container create": self._create,
            "storage container metadata show": self._metadata_show,
            "storage container metadata update": self._metadata_update,
            "storage container policy list": self._policy_list,
            "storage container policy create": self._policy_create,
            "storage container policy delete": self._policy_delete,
            "storage container generate-sas": self._container_sas,
            "storage blob generate-sas": self._blob_sas,
        }

    def call(self, words: Sequence[str]) -> str:
        """What the command prints.

        Raises:
            LookupError: there is no such command, option or query.
        """
        verb = next(verb for verb in self._verbs if " ".join(words).startswith(f"{verb} "))
        return self._verbs[verb](words[len(verb.split()) :])

    def _container(self, name: str) -> ContainerClient:
        return self._service.get_container_client(name)

    def _policies(self, name: str) -> dict[str, AccessPolicy]:
        kept = self._container(name).get_container_access_policy()["signed_identifiers"]
        return {one.id: one.access_policy for one in kept or ()}

    def _exists(self, words: Sequence[str]) -> str:
        asked = _options(words, "name", "query", "output")
        return str(self._container(asked.name).exists()).lower()

    def _create(self, words: Sequence[str]) -> str:
        asked = _options(words, "name", "metadata", "output")
        self._service.create_container(asked.name, metadata=dict(p.split("=", 1) for p in asked.metadata))
        return ""

    def _metadata_show(self, words: Sequence[str]) -> str:
        asked = _options(words, "name", "query", "output")
        return str(self._container(asked.name).get_container_properties().metadata.get(asked.query, ""))

    def _metadata_update(self, words: Sequence[str]) -> str:
        """All of it is replaced."""
        asked = _options(words, "name", "metadata", "output")
        self._container(asked.name).set_container_metadata(dict(p.split("=", 1) for p in asked.metadata))
        return ""

    def _policy_list(self, words: Sequence[str]) -> str:
        asked = _options(words, "container-name", "query", "output")
        held = sorted(self._policies(asked.container_name))
        if asked.query == "length(keys(@))":
            return str(len(held))
        match = re.fullmatch(r"keys\(@\)\[\?starts_with\(@, '([\w-]+)'\)\]( \| \[0\])?", asked.query)
        if match is None:
            raise LookupError(asked.query)
        found = [one for one in held if one.startswith(match[1])]
        return "\n".join(found[:1] if match[2] else found)

    def _policy_create(self, words: Sequence[str]) -> str:
        """One of the same name is replaced."""
        asked = _options(words, "container-name", "name", "permissions", "output")
        held = {
            **self._policies(asked.container_name),
            asked.name: AccessPolicy(permission=asked.permissions),
        }
        self._container(asked.container_name).set_container_access_policy(held)
        return ""

    def _policy_delete(self, words: Sequence[str]) -> str:
        asked = _options(words, "container-name", "name", "output")
        held = self._policies(asked.container_name)
        del held[asked.name]
        self._container(asked.container_name).set_container_access_policy(held)
        return ""

    def _container_sas(self, words: Sequence[str]) -> str:
        asked = _options(words, "name", "policy-name", "expiry", "output", flags=_OF_TOKENS)
        return generate_container_sas(
            ACCOUNT,
            asked.name,
            account_key=self._key,
            policy_id=asked.policy_name,
            expiry=_when(asked.expiry),
        )

    def _blob_sas(self, words: Sequence[str]) -> str:
        asked = _options(words, "container-name", "name", "policy-name", "expiry", "output", flags=_OF_TOKENS)
        return generate_blob_sas(
            ACCOUNT,
            asked.container_name,
            asked.name,
            account_key=self._key,
            policy_id=asked.policy_name,
            expiry=_when(asked.expiry),
        )


@contextmanager
def az_on_path(folder: Path, azurite: Azurite) -> Iterator[None]:
    """Puts an `az` into a folder that works as long as this lasts."""
    az = Az(azurite)

    class Line(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                answer = (0, az.call(json.loads(self.rfile.readline())))
            except (Exception, SystemExit) as error:  # noqa: BLE001  as the real one: a message and a code
                answer = (1, f"az: {error}")
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Line) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        client = folder / "az"
        client.write_text(
            _CLIENT.format(python=sys.executable, port=server.server_address[1]), encoding="utf-8"
        )
        client.chmod(0o755)
        yield
        server.shutdown()


def _options(words: Sequence[str], *names: str, flags: Sequence[str] = ()) -> argparse.Namespace:
    """Exactly these options, all of them, and perhaps some flags."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for name in names:
        parser.add_argument(f"--{name}", required=True, nargs="+" if name == "metadata" else None)
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    return parser.parse_args(words)


def _when(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
