"""The testbed: a real Slurm cluster or HTCondor pool on one machine, for tests and for teaching (level 3, measuring side).

`loopback`: several slurmd as one ordinary user, all on 127.0.0.1. `links`: each slurmd in a network namespace with host name and address of its
own, its link shaped (root). `pool`: HTCondor in such namespaces, from a chroot (root). A testbed lives in one folder, is stopped by the pids
noted there, and leaves nothing behind. `storelab testbed`.
"""
