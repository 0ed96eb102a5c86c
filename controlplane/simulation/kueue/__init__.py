"""One simulated Kueue: quota, queues, the job framework, and the rules of its API."""
