"""No credential of a store reaches a hook, and nothing else is taken from it."""

from __future__ import annotations

import json

import pytest

from stitch.hooks import HookRunner
from stitch.hooks.environment import RUN_MARK, child_environment, is_secret
from tests.unit.hooks.conftest import Project

SECRETS = {
    "STITCH_STORE": "az://account/container",
    "STITCH_STORE_SITE": "file:///mnt/share",
    "STITCH_STORE_GLOBAL": "https://a.blob.core.windows.net/c?sv=1&sig=abc%3D",
    "stitch_store_heartbeat": "x",
    "STITCH_ANYTHING": "x",
    "AZURE_CLIENT_SECRET": "x",
    "AZURE_STORAGE_CONNECTION_STRING": "x",
    "azure_tenant_id": "x",
    "IDENTITY_HEADER": "x",
    "MSI_SECRET": "x",
    "MY_SAS": "x",
    "SAS_TOKEN": "x",
    "BOX": "https://a.blob.core.windows.net/c?SIG=abc",
    "WRAPPED": "https%3A%2F%2Fa%2Fc%3Fsig%3Dabc",
    "OTHER": "DefaultEndpointsProtocol=https;AccountKey=abc==",
    "ANOTHER": "SharedAccessSignature sv=1",
}
KEPT = {
    "PATH": "/usr/bin:/opt/SAS/bin",
    "HOME": "/home/x",
    "CUDA_VISIBLE_DEVICES": "0",
    "HTTPS_PROXY": "http://proxy:8080",
    "DATABASE": "postgres://host/db?design=1",
    "SASSY": "yes",
    "PYTHONPATH": "lib",
}


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_credential_is_recognised(name: str) -> None:
    assert is_secret(name, SECRETS[name])


def test_everything_else_is_kept() -> None:
    environ = child_environment({**SECRETS, **KEPT}, mark="m")
    utf8 = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}
    assert environ == {**KEPT, **utf8, RUN_MARK: "m"}


def test_a_hook_and_its_children_see_no_credential(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    project.train(
        """
        import json
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        seen = [dict(os.environ), json.loads(subprocess.check_output([sys.executable, "-c", code]))]
        json.dump(seen, open("seen.json", "w"))
        return {"n_samples": 1}
        """
    )
    project.run()
    for environ in json.loads((project.root / "seen.json").read_text(encoding="utf-8")):
        assert set(SECRETS) & set(environ) == set()
        assert {name for name in environ if name.startswith("STITCH_")} == {RUN_MARK}


def test_no_credential_is_in_a_process_list_or_a_file_of_the_run(project: Project) -> None:
    project.train(
        """
        import json
        lines = [open(f"/proc/{pid}/cmdline").read() for pid in (os.getpid(), os.getppid())]
        open("cmdlines", "w").write("".join(lines))
        return {"n_samples": 1}
        """
        if (project.root / "/proc/self").exists()
        else "return {'n_samples': 1}"
    )
    HookRunner(environ={**SECRETS, **KEPT}).run(project.call())
    for path in project.root.rglob("*"):
        if path.is_file():
            assert b"sig=abc" not in path.read_bytes(), path
