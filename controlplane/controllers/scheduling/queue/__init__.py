"""Who is scheduled next, who waits for what, and which nodes are promised."""
