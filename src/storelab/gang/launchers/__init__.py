"""What starts the clients: processes on this host, Slurm's srun, HTCondor. `choose` picks one.

May import: what `gang` may.
"""
