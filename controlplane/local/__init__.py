"""Everything on one machine: a PostgreSQL, a management cluster and its workers, all of them ours, and a folder that
remembers them.

In: a folder and the size of a fleet. Out: a `LocalEnvironment`, to which `controlplane up` adds the service in the same
process, and `controlplane demo` a service in a process of its own, jobs, and a judgement of what came of them. The
clusters are simulated; the service, its database and its wire protocols are the real ones."""
