"""Methods whose baseline is a learned value head."""
