"""Held-out judgement: real tables, scores, baselines, comparisons, promotion, reports."""
