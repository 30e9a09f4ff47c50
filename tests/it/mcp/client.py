# Connects as an agent's host does, calls every tool, pages through a large result, and is refused where it must be.
import asyncio, os, sys
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL, KEY, MODE, PAGE = (os.environ[name] for name in ("URL", "KEY", "MODE", "PAGE"))


def transport(headers):
    return streamable_http_client(URL, http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def call(client, name, arguments=None):
    answer = await client.call_tool(name, arguments or {})
    assert not answer.is_error, (name, answer)
    return answer.structured_content


async def status(headers):
    async with httpx2.AsyncClient(timeout=60) as http:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        return (await http.post(URL, json=message, headers=headers)).status_code


async def main():
    async with Client(transport({"Authorization": f"Bearer {KEY}"}), mode=MODE) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == os.environ["TOOLS"].split(","), tools
        tables = await call(client, "list_tables")
        assert any(table["name"] == "jobs" for table in tables["tables"]), tables
        assert (await call(client, "describe_table", {"table": "jobs"}))["columns"]
        numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 450) SELECT i FROM n ORDER BY i"
        seen, answer = [], await call(client, "run_sql", {"sql": numbers, "rows": 200})
        while True:
            seen += [row["i"] for row in answer["rows"]]
            if not answer["nextCursor"]:
                break
            answer = await call(client, "run_sql", {"cursor": answer["nextCursor"], "rows": 200})
        assert seen == list(range(1, 451)), seen
        missing = await client.call_tool("run_saved_query", {"name": "nothing"})
        assert missing.is_error and "no saved query" in missing.content[0].text, missing
        await call(client, "search_results", {"limit": 5})
        page = await client.call_tool("get_page", {"url": PAGE})
        assert not page.is_error and "nobody else would write" in page.content[0].text, page
        jobs = (await call(client, "submit_urls", {"urls": [PAGE]}))["jobs"]
        assert (await call(client, "job_status", {"ids": [jobs[0]["id"]]}))["id"] == jobs[0]["id"]
        await call(client, "list_schedules")
        assert (await client.list_resources()).resources and (await client.list_prompts()).prompts
        text = (await client.read_resource("gleaner://errors/rls_denied")).contents[0].text
        assert text.startswith("# "), text
        prompt = await client.get_prompt("answer_from_data", {"question": "How many?"})
        assert "How many?" in prompt.messages[0].content.text
        told = f"{client.protocol_version} {len(tools)} tools {len(seen)} rows"
    try:
        async with Client(transport({}), mode=MODE) as client:
            await client.list_tools()
        sys.exit("nobody was let in")
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
    key = {"Authorization": f"Bearer {KEY}"}
    print(told, "refused", await status({}), await status(key | {"Origin": "https://evil.example"}))


asyncio.run(main())
