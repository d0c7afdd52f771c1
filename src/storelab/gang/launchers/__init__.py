"""Launchers, which start clients as processes on this host, over ssh, with Slurm's srun, or with HTCondor.

`choose` selects the launcher. The imports of `gang` are allowed here too.
"""
