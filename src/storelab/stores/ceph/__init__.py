"""Ceph: the store, its cluster, configuration and administration. May import: the same as `stores`."""
