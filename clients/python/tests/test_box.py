"""The client at work with a box as it is shipped."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from conftest import Box, Web

import gleaner
from gleaner import AsyncGleaner, Gleaner, Progress, _uploads, errors, webhooks


def test_a_job_is_waited_for_and_gives_its_result(client: Gleaner, web: Web) -> None:
    job = client.submit(web.url("/item/77"), tags=["one"])
    assert job.wait(120)["status"] == "succeeded"
    result = job.result()
    assert result["values"] == {"name": "Item 77", "price": 77.5}
    assert client.job(job.id).status == "succeeded"


def test_a_job_that_fails_is_an_error_only_where_that_is_asked_for(client: Gleaner, web: Web) -> None:
    job = client.submit(web.url("/nothing"))
    assert job.wait(120)["status"] == "failed"
    with pytest.raises(gleaner.JobFailed) as failed:
        job.wait(check=True)
    assert failed.value.job["id"] == job.id and "404" in str(failed.value)
    with pytest.raises(gleaner.JobFailed):
        job.result()


def test_a_wait_ends_in_time_and_the_job_goes_on(client: Gleaner, web: Web) -> None:
    web.gate.clear()
    job = client.submit(web.url(f"/slow/{uuid4().int % 1000}"))
    begun = time.monotonic()
    with pytest.raises(gleaner.WaitTimeout):
        job.wait(0.5)
    assert time.monotonic() - begun >= 0.5
    assert job.refresh()["status"] in ("queued", "running")
    web.release()
    assert job.wait(120)["status"] == "succeeded"


def test_a_collection_of_more_than_a_batch_tells_how_far_it_is(client: Gleaner, web: Web) -> None:
    said: list[Progress] = []
    urls = [web.url(f"/item/{number}") for number in range(1005)] + [web.url("/missing")]
    collection = client.collect(urls, tags=["many"], name="many", priority=3)
    assert len(collection) == 1006 and len(collection.batch_ids) == 2
    end = collection.wait(600, on_progress=said.append)
    assert (end.succeeded, end.failed, end.pending) == (1005, 1, 0)
    assert said[-1] == end and str(end) == "1006 of 1006, 1 failed"
    assert [it.ended for it in said] == sorted({it.ended for it in said}), "each is told once, in order"
    assert [collection.urls[job["id"]] for job in collection.failed] == [web.url("/missing")]
    first = next(iter(collection.results()))
    assert first["values"]["name"] == "Item 0" and first["tags"] == ["many"]
    batch = client.jobs.get_batch(collection.batch_ids[0])
    assert batch["name"] == "many" and batch["jobs"] == 1000


def test_the_same_key_collects_once(client: Gleaner, web: Web, crawled: list[str]) -> None:
    before = client.billing.get_current_plan()["remainingCredits"]
    again = client.collect(web.items(12), key="twelve", tags=["twelve"], name="twelve")
    assert list(again.jobs) == crawled and again.wait(60).succeeded == 12
    assert client.billing.get_current_plan()["remainingCredits"] == before
    # The same page twice in one call is meant.
    twice = client.collect([web.url("/item/1"), web.url("/item/1")])
    assert len(twice) == 2 and twice.wait(120).succeeded == 2
    with pytest.raises(errors.Conflict):
        client.collect(web.items(12), key="twelve", tags=["other"])


def test_the_end_of_a_wait_is_told_by_an_event(client: Gleaner, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    poll = client.jobs.poll_jobs
    opened = threading.Event()

    def blind(*, ids: Any) -> Any:
        # The first poll comes when the stream has begun; that one, and all others, have seen nothing end.
        told = poll(ids=ids)
        opened.set()
        return {**told, "items": [{**it, "status": "running"} for it in told["items"]]}

    monkeypatch.setattr(client.jobs, "poll_jobs", blind)
    web.gate.clear()
    collection = client.collect([web.url("/slow/901"), web.url("/slow/902")])

    def release() -> None:
        opened.wait(60)
        web.release()

    threading.Thread(target=release, daemon=True).start()
    assert collection.wait(120).succeeded == 2
    assert all(job["resultId"] for job in collection.jobs.values())


def test_jobs_that_are_large_go_in_batches_that_the_box_takes(client: Gleaner, web: Web) -> None:
    # 16 KiB of metadata is what a job may have, and a body 1 MiB.
    large = {"text": "x" * 16_000}
    collection = client.collect([web.url(f"/item/{number}") for number in range(150)], metadata=large)
    assert len(collection) == 150 and len(collection.batch_ids) > 2
    assert collection.wait(240).succeeded == 150
    with pytest.raises(errors.InvalidRequest) as refused:
        client.collect([web.url("/item/1")], metadata={"text": "x" * 17_000})
    assert refused.value.field == "jobs[0].metadata"


def test_jobs_are_waited_for_without_a_stream(client: Gleaner, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise errors.of(429, {"error": "Too many requests"}, {}, "GET /api/v1/events")

    monkeypatch.setattr(client.transport, "stream", refused)
    assert client.collect(web.items(5)).wait(120).succeeded == 5


def test_a_collection_is_canceled(client: Gleaner, web: Web) -> None:
    web.gate.clear()
    collection = client.collect([web.url(f"/slow/{number}") for number in range(40)])
    collection.cancel()
    collection.cancel()
    progress = collection.wait(120)
    web.release()
    assert progress.canceled > 0 and progress.pending == 0


def test_every_list_with_a_cursor_is_read_to_its_end(client: Gleaner, stranger: Gleaner, web: Web, crawled: list[str]) -> None:
    ids = fill(client, web)
    seen: dict[str, int] = {}
    for area in vars(client).values():
        for name, method in inspect.getmembers(area, lambda it: inspect.ismethod(it) and it.__name__.startswith("iter_")):
            parameters = inspect.signature(method).parameters
            needed = [it for it in parameters.values() if it.default is it.empty]
            given = [ids[f"{name}:{it.name}"] for it in needed]
            extra = {"url": web.url("/item/1")} if name == "iter_extraction_history" else {}
            small = [key(it) for it in method(*given, page_size=page_size(name), **extra)]
            large = [key(it) for it in method(*given, page_size=200, **extra)]
            # What happened in between stands in front.
            assert large[len(large) - len(small) :] == small, name
            seen[name] = len(large)
            if needed and needed[0].name == "id":
                with pytest.raises(errors.NotFound):
                    list(getattr(getattr(stranger, area_of(client, area)), name)(*given, **extra))
    # 38 of the document's lists have a cursor in their answer.
    assert len(seen) == 38, sorted(seen)
    paged = {name for name, count in seen.items() if count > 2}
    assert {"iter_jobs", "iter_urls", "iter_results", "iter_url_tags", "iter_bi_tables", "iter_saved_queries"} <= paged
    assert not list(stranger.jobs.iter_jobs()) and not list(stranger.extraction.iter_results())


def page_size(name: str) -> int:
    """Two, but where other tests have left a thousand rows."""
    return 40 if name in ("iter_jobs", "iter_results", "iter_events", "iter_transactions", "iter_audit_logs") else 2


def area_of(client: Gleaner, area: Any) -> str:
    return next(name for name, value in vars(client).items() if value is area)


def key(item: Any) -> Any:
    return next((item[name] for name in ("id", "name", "tag", "domain", "seq") if name in item), str(item))


def fill(client: Gleaner, web: Web) -> dict[str, str]:
    """At least one of whatever has a list below it, with the ids that such lists are asked for by."""
    client.urls.create_urls(urls=[{"url": it, "tags": [f"t{at % 4}"]} for at, it in enumerate(web.items(12))])
    known = {it["url"]: it["id"] for it in client.urls.iter_urls()}
    provider = client.providers.list_providers()["items"][0]["id"]
    workflow = client.workflows.create_smart_workflow(name=f"w {uuid4()}")["workflowId"]
    assert provider
    for number in range(3):
        client.bi.create_saved_query(name=f"q{number} {uuid4()}", sql="select 1 as n")
    made = client.inputs.create_input(kind="sitemap", name=f"i {uuid4()}", url=web.url("/sitemap.xml"))
    output = client.outputs.create_output(kind="webhook", url=web.url("/hook"), events=["job.*"], is_enabled=False)
    agent = client.agents.create_agent(name="a")
    return {
        "iter_url_history:id": known[web.url("/item/1")],
        "iter_workflow_versions:id": workflow,
        "iter_input_runs:id": made["id"],
        "iter_deliveries:id": output["id"],
        "iter_messages:id": agent["id"],
    }


def test_errors_say_what_was_wrong_where(client: Gleaner, stranger: Gleaner, box: Box, crawled: list[str]) -> None:
    with pytest.raises(errors.InvalidRequest) as invalid:
        client.jobs.submit_jobs(jobs=[{"url": "https://example.com/"}, {"url": "gopher://example.com"}])
    assert (invalid.value.code, invalid.value.field) == ("invalid_url", "jobs[1].url")
    assert invalid.value.reason == "scheme must be http or https"
    assert invalid.value.request_id and invalid.value.docs_url == f"{box.url}/docs/errors/invalid_url"
    with pytest.raises(errors.NotFound) as missing:
        stranger.jobs.get_job(crawled[0])
    assert missing.value.code == "not_found" and missing.value.status == 404 and missing.value.field is None
    with Gleaner(box.url, "glk_AAAAAAAAAAAAAAAAAAAAAA_AAAAAA") as unknown, pytest.raises(errors.AuthenticationFailed) as refused:
        unknown.jobs.list_jobs()
    assert refused.value.code == "auth_invalid"
    with pytest.raises(errors.InvalidRequest) as wrong:
        client.sql("selekt 1")
    assert wrong.value.code == "syntax_error"
    with pytest.raises(errors.ApiError) as denied:
        client.sql("select * from nobodys")
    assert denied.value.code == "rls_denied" and isinstance(denied.value, errors.PermissionDenied)
    with pytest.warns(errors.IgnoredFieldsWarning, match=r"jobs\[0\].prioritty"):
        client.jobs.submit_jobs(jobs=[{"url": box.web.url("/item/1"), "prioritty": 3}])  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ValueError, match="time zone"):
        client.jobs.list_jobs(from_=datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="must not be"):
        client.jobs.get_job("..")


def test_what_was_changed_meanwhile_is_not_overwritten(client: Gleaner, web: Web) -> None:
    client.urls.create_urls(urls=[{"url": web.url("/item/500")}])
    [url] = list(client.urls.iter_urls(q="/item/500"))
    read = client.urls.get_url(url["id"])
    tag = gleaner.meta(read).etag
    assert tag and gleaner.meta(read).request_id
    client.urls.update_url(url["id"], tags=["first"], if_match=tag)
    with pytest.raises(errors.PreconditionFailed):
        client.urls.update_url(url["id"], tags=["second"], if_match=tag)
    assert client.urls.get_url(url["id"])["tags"] == ["first"]
    client.urls.delete_url(url["id"])
    with pytest.raises(errors.NotFound):
        client.urls.delete_url(url["id"])


def test_a_statement_gives_rows_a_table_and_a_frame(client: Gleaner, tmp_path: Path) -> None:
    query = client.sql(
        "select $1::int as i, $2 as t, 0.1 + 0.2 as n, timestamp '2026-11-20 09:30:00' as at, null::text as nothing",
        [7, "seven"],
    )
    assert query.rows() == [
        {"i": 7, "t": "seven", "n": "0.3", "at": "2026-11-20T09:30:00.000Z", "nothing": None}
    ]
    assert client.sql("select 42 as n").scalar() == 42
    with pytest.raises(ValueError, match="one row of one column"):
        query.scalar()
    pyarrow = pytest.importorskip("pyarrow")
    table = query.to_arrow()
    assert table.column_names == ["i", "t", "n", "at", "nothing"] and table.num_rows == 1
    assert pyarrow.types.is_integer(table.schema.field("i").type) and pyarrow.types.is_decimal(table.schema.field("n").type)
    pytest.importorskip("pandas")
    frame = query.to_pandas()
    assert list(frame["i"]) == [7] and str(frame["at"].dtype).startswith("datetime64")
    saved = query.download(tmp_path / "seven.csv")
    assert saved.read_text().splitlines()[0] == "i,t,n,at,nothing" and [it.name for it in tmp_path.iterdir()] == ["seven.csv"]
    parquet = query.download(tmp_path / "seven.parquet")
    assert parquet.read_bytes()[:4] == b"PAR1"


def test_a_large_result_comes_in_pages(client: Gleaner) -> None:
    query = client.sql("select i, repeat('x', 50) as t from generate_series(1, 25000) as g(i) order by i", timeout=300)
    assert query.row_count == 25000 and not query.is_truncated
    assert [row["i"] for row in query] == list(range(1, 25001))
    sizes = [len(page) for page in query.pages(700)]
    assert sum(sizes) == 25000 and sizes[0] == 700
    pytest.importorskip("pyarrow")
    assert query.to_arrow().num_rows == 25000
    empty = client.sql("select i from generate_series(1, 10) as g(i) where i > 10")
    assert empty.rows() == [] and empty.to_arrow().column_names == ["i"]


def test_statements_see_their_own_organization_only(client: Gleaner, stranger: Gleaner, crawled: list[str]) -> None:
    deadline = time.monotonic() + 60
    while client.sql("select count(*) as n from jobs").scalar() < 12:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert stranger.sql("select count(*) as n from jobs").scalar() == 0
    query = client.sql("select 1 as n")
    with pytest.raises(errors.NotFound):
        stranger.bi.get_bi_results(query.id)


def test_a_statement_that_fails_or_takes_too_long_says_so(client: Gleaner) -> None:
    with pytest.raises(gleaner.QueryFailed) as failed:
        client.sql("select 1 / (i - 5) as n from generate_series(1, 9) as g(i)")
    assert failed.value.code and failed.value.job_id
    endless = "select count(*) as n from generate_series(1, 1000000) a, generate_series(1, 1000000) b where a.a + b.b = -1"
    with pytest.raises(gleaner.WaitTimeout):
        client.sql(endless, timeout=0.3)
    # Canceling waits a little for its end, and on a slow machine not long enough.
    deadline = time.monotonic() + 60
    while (last := client.bi.list_bi_queries(limit=1)["items"][0])["status"] != "canceled":
        assert last["status"] in ("queued", "running") and time.monotonic() < deadline, last
        time.sleep(0.2)


def test_a_saved_query_is_run_once_under_a_key(client: Gleaner) -> None:
    saved = client.bi.create_saved_query(name=f"s {uuid4()}", sql="select $1::int * 2 as n")
    once = uuid4()
    first = client.run_saved(saved["id"], [21], key=once)
    again = client.run_saved(saved["id"], [21], key=once)
    assert first.scalar() == 42 and again.id == first.id and again.execution["replayed"]


def test_pages_are_downloaded(client: Gleaner, web: Web, tmp_path: Path) -> None:
    result = client.submit(web.url("/item/9?size=300000")).result(120)
    page = client.download_page(result["id"])
    assert isinstance(page, bytes) and page.startswith(b"<html><h1>Item 9</h1>") and len(page) > 300_000
    path = client.download_page(result["id"], tmp_path / "page.html")
    assert isinstance(path, Path) and path.read_bytes() == page
    content = client.extraction.get_result_content(result["id"], format="text")
    assert "xxx" in content["content"]


def test_urls_are_registered_from_files_and_from_programs(
    client: Gleaner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_uploads, "PART_LINES_MAX", 1500)
    host = f"https://{uuid4().hex}.example"
    file = tmp_path / "urls.csv"
    file.write_text("url,tags,shelf\n" + "".join(f"{host}/{n},a|b,{n}\n" for n in range(300)) + "not a url,,\n")
    told = client.upload(file)
    assert (told["created"], told["invalidTotal"], told["metadataColumns"]) == (300, 1, ["shelf"])
    assert client.upload(str(file))["duplicates"] == 300
    packed = tmp_path / "urls.txt.gz"
    packed.write_bytes(gzip.compress("".join(f"{host}/{n}\n" for n in range(400)).encode()))
    assert client.upload(packed)["created"] == 100

    def entries() -> Any:
        for n in range(4_000):
            yield f"{host}/made/{n}"
        yield {"url": f"{host}/own", "tags": ["own"], "metadata": {"n": 1}}
        yield "nonsense"

    # More lines than a part has: three requests, and the line number of the whole.
    made = client.upload(entries(), tags=["made"])
    assert (made["created"], made["lines"], made["invalidTotal"]) == (4_001, 4_002, 1)
    assert made["invalid"][0]["line"] == 4_002
    [own] = client.urls.iter_urls(q=f"{host}/own")
    assert sorted(own["tags"]) == ["made", "own"] and own["metadata"] == {"n": 1}
    with pytest.raises(ValueError, match="content_type"):
        client.upload(tmp_path / "urls.dat")
    with pytest.raises(ValueError, match="no URL"):
        client.upload([])


def test_events_come_in_order_and_once(client: Gleaner, stranger: Gleaner, web: Web) -> None:
    start = next(iter(client.events.list_events(limit=1)["items"]), None)
    after = start["seq"] if start else 0
    jobs = [client.submit(web.url(f"/item/{number}"), tags=["told"]) for number in range(6)]
    ended: list[str] = []
    for event in client.events.stream(["job.succeeded"], tag="told", after=after):
        ended.append(event["subject"]["id"])
        if len(ended) == 6:
            break
    assert sorted(ended) == sorted(job.id for job in jobs)
    first = next(iter(client.events.stream("job.*", subject=jobs[0].id, after=after)))
    assert first["kind"] == "job.queued" and first["subject"]["id"] == jobs[0].id
    assert not [it for it in stranger.events.iter_events(kind=["job.*"])]
    with pytest.raises(errors.InvalidRequest):
        next(iter(client.events.stream("no.such")))


def test_a_stream_and_a_wait_outlive_the_box(tmp_path: Path, web: Web) -> None:
    box = Box(tmp_path, web)
    box.start()
    try:
        key = box.organization("ada")
        with Gleaner(box.url, key, timeout=120, retry_for=120, retries=30) as client:
            heard: list[str] = []
            job_ids: list[str] = []
            done = threading.Event()

            def listen() -> None:
                for event in client.events.stream("job.succeeded", after=0):
                    heard.append(event["subject"]["id"])
                    if len(heard) == 8:
                        done.set()
                        return

            listener = threading.Thread(target=listen, daemon=True)
            listener.start()
            first = client.collect(web.items(4))
            assert first.wait(120).succeeded == 4
            web.gate.clear()
            second = client.collect([web.url(f"/slow/{number}") for number in range(4)])
            port = box.url.rsplit(":", 1)[1]
            box.kill()
            web.release()

            def restart() -> None:
                time.sleep(1.5)
                box.start(f"127.0.0.1:{port}")

            restarting = threading.Thread(target=restart, daemon=True)
            restarting.start()
            assert second.wait(240).succeeded == 4
            assert done.wait(120)
            restarting.join(60)
            assert box.process is not None and box.url.endswith(port)
            job_ids = [*first.jobs, *second.jobs]
            assert sorted(heard) == sorted(job_ids)
    finally:
        web.release()
        box.kill()


def test_what_an_output_delivers_is_verified(client: Gleaner, web: Web) -> None:
    output = client.outputs.create_output(
        kind="webhook", url=web.url("/hook"), events=["job.succeeded"], tags=["hook"], name="hook"
    )
    [secret] = output["secrets"]
    before = len(web.messages)
    client.submit(web.url("/item/3"), tags=["hook"]).wait(120)
    deadline = time.monotonic() + 60
    while len(web.messages) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    headers, body = web.messages[before]
    event = webhooks.verify(headers, body, secret=secret)
    assert event["type"] == "job.succeeded" and event["tags"] == ["hook"]
    other = "whsec_" + "A" * 32
    assert webhooks.verify(headers, body, secret=[other, secret]) == event
    lowered = {name.lower(): value for name, value in headers.items()}
    for bad_headers, bad_body, bad_secret, now in [
        (headers, body + b" ", secret, None),
        (headers, body, other, None),
        ({**lowered, "webhook-id": "msg_other"}, body, secret, None),
        ({**lowered, "webhook-signature": "v1a,AAAA"}, body, secret, None),
        ({**lowered, "webhook-timestamp": "soon"}, body, secret, None),
        ({}, body, secret, None),
        (headers, body, secret, time.time() + 400),
        (headers, body, secret, time.time() - 400),
    ]:
        with pytest.raises(gleaner.WebhookRejected):
            webhooks.verify(bad_headers, bad_body, secret=bad_secret, now=now)
    with pytest.raises(ValueError):
        webhooks.verify(headers, body, secret="whsec_short")
    client.outputs.delete_output(output["id"])


def test_a_viewer_reads_and_is_told_what_it_may_not(client: Gleaner, box: Box) -> None:
    key = client.api_keys.create_api_key(name="narrow", permissions=["jobs:read"])["secret"]
    with Gleaner(box.url, key) as narrow:
        assert list(narrow.jobs.iter_jobs(page_size=200)) is not None
        with pytest.raises(errors.PermissionDenied) as denied:
            narrow.submit("https://example.com/")
        assert denied.value.code == "auth_forbidden"


def test_the_async_client_does_the_same(box: Box, keys: tuple[str, str], web: Web, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncGleaner(box.url, keys[0], timeout=120) as client:
            said: list[Progress] = []
            collection = await client.collect(web.items(20), tags=["async"])
            assert (await collection.wait(240, on_progress=said.append)).succeeded == 20
            assert said and said[-1].ended == 20
            results = [result async for result in collection.results()]
            assert [it["values"]["name"] for it in results] == [f"Item {n}" for n in range(1, 21)]
            job = await client.submit(web.url("/item/1"))
            assert (await job.result(120))["values"]["price"] == 1.5
            counted = [it async for it in client.jobs.iter_jobs(tag=["async"], page_size=3)]
            assert len(counted) == 20
            query = await client.sql("select i from generate_series(1, 2500) as g(i) order by i")
            assert [row["i"] async for row in query] == list(range(1, 2501))
            several = await asyncio.gather(*(client.sql("select $1::int as n", [n]) for n in range(3)))
            assert [await it.scalar() for it in several] == [0, 1, 2]
            async for event in client.events.stream("job.succeeded", tag="async", after=0):
                assert event["tags"] == ["async"]
                break
            file = tmp_path / "urls.txt"
            file.write_text("https://async.example/1\nhttps://async.example/2\n")
            assert (await client.upload(file))["created"] == 2
            with pytest.raises(errors.NotFound):
                await client.jobs.get_job(uuid4())
            page = await client.download_page(results[0]["id"], tmp_path / "page.html")
            assert isinstance(page, Path) and b"Item 1" in page.read_bytes()

    asyncio.run(work())
