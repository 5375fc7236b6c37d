"""From weights and a real table to predictions: scikit-learn estimators over in-context models."""
