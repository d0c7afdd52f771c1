"""HDFS: the store and its installation. May import: the same as `stores`."""
