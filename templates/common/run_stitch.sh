#!/bin/sh
# Starts, or continues, this site's part of the federation. Stop with Ctrl-C; run again to go on.
cd "$(dirname "$0")" || exit 1
if ! command -v uv >/dev/null 2>&1; then
  echo "uv was not found. Install it: https://docs.astral.sh/uv/ or 'pip install uv'." >&2
  exit 2
fi
exec uv run clif-stitch run "$@"
