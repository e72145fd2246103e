"""Losses of pairs and groups of samples, such as DPO on a group."""
