"""XRootD: the store (one server or a cluster) and its installation. May import: the same as `stores`."""
