"""Any S3 endpoint, and presets of known systems. May import: what `stores` may."""
