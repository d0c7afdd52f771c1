"""Ceph: the store, its cluster, configuration and administration. May import: what `stores` may."""
