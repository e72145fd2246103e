"""Fixtures, fake services and reference implementations that tests share."""
