"""Models for others: coefficients as JSON, a scikit-learn pipeline, an ONNX graph.

An export is fixed: it predicts as the model does now, and does not learn.
"""
