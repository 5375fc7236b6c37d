"""LimiX: masked in-context learning over the rows and features of a table."""
