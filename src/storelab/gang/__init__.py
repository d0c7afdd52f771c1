"""The gang: the clients of a point, started together (level 3, measuring side).

Launcher and barrier are two layers. A launcher (`local.py`; batch systems are further files) starts N client processes;
the barrier (`rendezvous.py`) is files in a shared folder and an agreed wall-clock start.
"""
