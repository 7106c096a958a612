"""Models for others: coefficients as JSON, a scikit-learn pipeline, an ONNX graph.

An export is fixed: it predicts as the model does now, and does not learn. Scores are computed about
the anchor of the model, a row amid those that it has learned:

    f(x) = offset + coef·(φ(x) − anchor)        or, with pooled_rows,
    f_k(x) = offset_k − ‖(φ(x) − anchor − mean_k) root_k‖²/2

A model that chooses has a sum of such scores, each with a map φ of its own.

About the origin they would lose digits where features are far from zero, such as time stamps.

Every export knows both probabilities: under balanced classes, by which the label is decided, and
under the stream's own frequencies, by which costs are.
"""
