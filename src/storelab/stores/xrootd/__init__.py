"""XRootD: the store (one server or a cluster) and its installation. The imports of `stores` are allowed here too."""
