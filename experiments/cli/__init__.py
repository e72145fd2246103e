"""What the commands share: flags, checks of arguments, and error messages."""
