"""Launchers, which start clients as processes on this host, with Slurm's srun, or with HTCondor.

`choose` selects the launcher. The imports of `gang` are allowed here too.
"""
