"""Columns of words and numbers to features, fixed as the stream goes on."""
