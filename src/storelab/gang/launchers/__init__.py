"""Launchers start the clients: as processes on this host, over ssh, by Slurm's srun, or by HTCondor.

`choose` selects one.

May import: the same as `gang`.
"""
