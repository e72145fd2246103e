"""Losses of pairs and groups with the policy inside."""
