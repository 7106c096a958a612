"""The model after every row: progressive scores and single events."""
