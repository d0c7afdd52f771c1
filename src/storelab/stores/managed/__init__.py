"""Code that managed stores share: daemons, drives, accounts, ports, network namespaces.

This package may import `install`, `host`, `core` and `stores.protocols`.
"""
