"""From timings to tables: pure functions, data frames in and out."""
