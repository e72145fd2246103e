"""Methods that turn rewards of reasoning steps into credit of tokens."""
