"""The paper's experiments, every table and figure, with our figures next to the printed ones."""
