"""Tasks in natural language: each reads problems from files into a tokenizer."""
