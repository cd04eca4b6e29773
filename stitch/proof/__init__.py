"""A run that was written, read again: proven from its files, or its globals made anew. Nothing is changed."""
