"""Programs compiled for machines that are not there."""
