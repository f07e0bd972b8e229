"""The trial: a crowd of clients over two gateways, every process killed once, and a judge who knows only what clients saw, what
upstreams sent, and what the ledger holds."""
