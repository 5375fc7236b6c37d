"""Pretraining: curriculum, objective, optimiser and the one loop."""
