"""A record of a run with links of 200 Mbit/s (client) and 300 Mbit/s (front-end)."""

M = 10**6
HOST = {"seconds": 10.0, "network": {"eth0": {"rx_bytes": 225 * M, "tx_bytes": 9, "link_bits_per_s": 200 * M}}}
CLIENT = {"client": 0, "endpoint": "http://a", "bytes": 220 * M}
RUN = {
    **{"point": {"store": "alpha", "axes": {}}, "clients": [CLIENT], "start_ns": 0, "deadline_ns": 10**10},
    **{"nodes": [{"ranks": [0], "watched": HOST}], "store": {"deployment": {"link_bits_per_s": [300 * M]}}},
}
FE1 = {"seconds": 10.0, "network": {"fe1": {"rx_bytes": 1, "tx_bytes": 230 * M}}}
