"""Methods whose advantages are verdicts, and corrections of verifier errors."""
