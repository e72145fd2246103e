"""Rewards of steps, and how they become credit."""
