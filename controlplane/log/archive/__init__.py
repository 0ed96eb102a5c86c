"""Archives of a log: what old events are outside of the database, how they get there and back, and whether they are
what was appended.

In: a database with the owner's rights, and a folder. Out: Parquet files with the hashes of the chain. Parquet is read
and written by pyarrow, which is an extra of this package."""
