"""Tasks in natural language, whose problems come from files or a generator."""
