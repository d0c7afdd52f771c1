"""Launchers start the clients: as processes on this host, by Slurm's srun, or by HTCondor. `choose` selects one.

May import: the same as `gang`.
"""
