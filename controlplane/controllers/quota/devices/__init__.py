"""What devices of Dynamic Resource Allocation count as quota: of claims, of extended resources, of counters. Pure."""
