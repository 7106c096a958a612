"""Moments and options to scores, probabilities and explanations."""
