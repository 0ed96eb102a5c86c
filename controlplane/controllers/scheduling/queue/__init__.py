"""Who is scheduled next, who waits for what, and which pods are nominated for nodes."""
