"""Hooks: the user's code, run as a stranger in a child process (law 9).

`HookRunner.run(HookCall) -> HookResult`; `launch`, `guard` and `child` are the files that run on the
child's side and import nothing of STITCH.
"""

from stitch.hooks.call import HookCall, HookName, HookResult, HookSpec, HookStopped
from stitch.hooks.runner import HookRunner, check_files, check_spec
from stitch.hooks.spec import hooks_sha256, parse_spec, risky_extension
from stitch.hooks.survivors import RECORD_NAME, end_survivor

__all__ = [
    "RECORD_NAME",
    "HookCall",
    "HookName",
    "HookResult",
    "HookRunner",
    "HookSpec",
    "HookStopped",
    "check_files",
    "check_spec",
    "end_survivor",
    "hooks_sha256",
    "parse_spec",
    "risky_extension",
]
