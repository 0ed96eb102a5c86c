"""The connectivity controller: which clusters answer us, since when, and what each of them serves, as facts in the
log."""
