"""What managed stores share: daemons, deployments, accounts, ports, network namespaces.

May import: `install`, `host`, `core`, `stores.protocols`.
"""
