"""Real data: reading and writing tables, and the contract a table must meet."""
