"""HDFS: the store and its installation. May import: what `stores` may."""
