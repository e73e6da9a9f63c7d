"""The published page: tables and summary in, one HTML file out. Nothing is measured here."""
