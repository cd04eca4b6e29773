"""Hooks: the user's code, run as a stranger in a child process (law 9)."""
