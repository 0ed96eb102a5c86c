"""What must hold where this service decides on quota: quota by the objects' own truth, the ledger, the state of
admission."""
