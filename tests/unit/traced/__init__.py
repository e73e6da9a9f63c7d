"""Reads a page back and compares every number on it with the tables: see test_report_traced.py.

`page` and `numbers` read what stands there, `truth` is what it is compared with. `words` says what
the sentences of a section may hold, `tables` what every cell of a table must: a page that says
something new needs its derivation there.
"""
