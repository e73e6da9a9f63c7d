"""Four Cells: measures LLM serving engines cell by cell."""
