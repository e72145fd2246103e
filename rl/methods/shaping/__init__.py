"""Methods that shape a group's advantages token by token."""
