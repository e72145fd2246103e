"""Methods that change a group's advantages, most of them token by token."""
