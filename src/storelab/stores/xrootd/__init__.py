"""XRootD: the store, one server or a cluster of them, and its installation. May import: what `stores` may."""
