"""Models with columns: learn, predict, evaluate, unlearn, merge, model files."""
