"""Ceph: the store, its configuration and administration. The imports of `stores` are allowed here too."""
