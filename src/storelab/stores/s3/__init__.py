"""Any S3 endpoint, presets of known systems, and rclone as an S3 server. May import: what `stores` may."""
