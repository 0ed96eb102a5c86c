"""Rows of the log are removed by hand under the service, or before it starts: it does not act on what is left, says
what is missing, and goes on once that is back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from controlplane.app.hosted import TYPES
from controlplane.controllers.connectivity.local_connection import service_stopped
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append
from controlplane.log.postgres import PostgresLog
from tests.outages.stage import Stage, settings

Make = Callable[..., Awaitable[Stage]]
KEPT = "CREATE TABLE public.kept AS SELECT * FROM controlplane.events WITH NO DATA"
BACK = "INSERT INTO controlplane.events SELECT * FROM public.kept"


async def waits(on: Stage, said: str) -> None:
    health = on.replica.health

    def told() -> bool:
        check = health.checks.get("database")
        return check is not None and not check.ok and said in check.detail and "log verify" in check.detail

    await on.until(told, f"{said} to be missing")
    assert not health.ready
    assert not on.replica.leads
    assert not on.replica.task.done()


async def test_a_process_that_starts_on_a_log_with_a_gap_does_not_lead_it(stage: Make) -> None:
    found = settings()  # of what is behind a snapshot nobody reads the events
    on = await stage("a", "b", settings=replace(found, log=replace(found.log, snapshot_every=100_000)))
    on.submit_for("train-0", "200ms")
    await on.done("train-0")
    await on.kill()
    (lost,) = on.query("SELECT position FROM controlplane.events WHERE stream LIKE 'workload/%%' ORDER BY 1 LIMIT 1")[0]
    on.execute(KEPT)
    on.execute("INSERT INTO public.kept SELECT * FROM controlplane.events WHERE position = %s", lost)
    on.execute("DELETE FROM controlplane.events WHERE position = %s", lost)
    position, epochs = on.position, on.query("SELECT epoch FROM controlplane.log_head")
    await on.up(ready=False)
    on.submit_for("train-1", "200ms")
    await waits(on, f"position {lost},")
    await on.quiet(0.5)
    assert (on.position, on.query("SELECT epoch FROM controlplane.log_head")) == (position, epochs)
    assert not on.clones(name="train-1")
    on.execute(BACK)
    await on.until(lambda: on.replica.leads, "the lead")
    await on.done("train-1")


async def test_a_leader_that_meets_a_gap_leads_no_more(stage: Make) -> None:
    """Another one's events are lost between their commit and its next read."""
    on = await stage("a", "b")
    on.execute(KEPT)
    on.execute(
        "CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN"
        " INSERT INTO public.kept SELECT * FROM controlplane.events WHERE position = NEW.position;"
        " DELETE FROM controlplane.events WHERE position = NEW.position; RETURN NULL; END $$"
    )
    on.execute(
        "CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON controlplane.events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        " WHEN (NEW.type = 'ServiceStopped') EXECUTE FUNCTION public.lose()"
    )
    async with PostgresLog(Database(on.url), Codec(TYPES)) as beside:
        await beside.assist()
        await beside.append(Append([service_stopped(0, "somebody beside it")]))
    (lost,) = on.query("SELECT position FROM public.kept")[0]
    await waits(on, f"position {lost},")
    on.submit_for("train-0", "200ms")
    await on.quiet(0.5)
    assert not on.clones(name="train-0")
    on.execute("DROP FUNCTION public.lose() CASCADE")
    on.execute(BACK)
    await on.until(lambda: on.replica.leads, "the lead")
    await on.done("train-0")
