"""Garage: a cluster of nodes on this machine, each with an S3 API of its own. May import: what `stores` may."""
