"""Learned models without scikit-learn: states, candidates and their averages."""
