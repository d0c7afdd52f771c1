"""HDFS: the store and its installation. The imports of `stores` are allowed here too."""
