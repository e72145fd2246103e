"""Methods that turn rewards of reasoning steps into advantages of tokens."""
