"""Reinforcement learning of policies, as pure functions of arrays."""

from rl.errors import UsageError as UsageError
