"""Priorline: from synthetic priors to served foundation models for structured data."""

__version__ = "0.1.0"
