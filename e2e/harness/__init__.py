"""What the scenarios stand on: servers, processes, tenants, and the books that are kept beside the ledger."""
