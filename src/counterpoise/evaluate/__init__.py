"""How good a classifier is on rare classes: metrics, races, plots and a report."""
