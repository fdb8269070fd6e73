"""What clients reach: the proxy, its certificate, its address for people, keys of clients."""
