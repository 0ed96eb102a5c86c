"""What people see of a log in a browser, and the read API beside it: served as the reader's role, and writing
nothing."""
