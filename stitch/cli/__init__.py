"""What a user types: one verb a file. Parse, call, render; the work is done elsewhere."""
