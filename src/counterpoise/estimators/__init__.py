"""Estimators with scikit-learn's conventions."""
