"""The truth: what was seen and what was decided, in one order, in PostgreSQL.

`event` and `codec` are pure and may be imported by every capability. `postgres`, `appender` and `schema` touch the
database and belong to the shell."""
