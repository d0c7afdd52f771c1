"""SeaweedFS: the store and its settings. May import: what `stores` may."""
