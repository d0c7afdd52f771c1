"""Faults of a managed store: its daemons killed, hung and restarted, its drives taken, its links slowed and cut.

`acts.py` does and undoes; `journal.py` keeps on disk what is to be taken back, so that nothing stays stopped, away or
slowed where storelab itself is killed. May import: what `stores` may.
"""
