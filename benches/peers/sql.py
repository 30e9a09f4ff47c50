#!/usr/bin/env python3
"""The SQL console's API beside DuckDB's own table and PostgreSQL: the same rows, the same 22 statements, one run.

    benches/peers/sql.py [--rows 2000000,10000000] [--rounds N] [--fill-only] [--only NAME;NAME] [--explore] [--fresh]
                         [--driver PATH] [--gleaner PATH] [--folder PATH] [--no-postgres] [--json FILE]

Ours is what an analyst's program calls: `POST /api/v1/bi/queries` of a running box on the loopback with its tables
`readings` and `url_tags` (all 18 columns, so 36-character ids, a JSON text and a SHA-256 in every row). A figure is the
time from sending the request to having its first page of 200 rows as Python values, so it has in it: HTTP, the API key,
the statement's row in the store (a durable commit), a sandboxed worker process, the durable result file and its JSON.
DuckDB 2 has its own table in its own file and fetches 200 rows in process with 2 threads. PostgreSQL 15 (Debian) has
indexes on result_id, url, url_id, scraped_at, quality_composite and domain, 1 GiB of shared buffers, 2 workers for one
statement, and a local socket.

The readings come from one generator (`sql csv`, see sql.rs), so that all three hold the same: 100 readings of each URL
over 100 days, time-ordered, 200 domains of different sizes. Every round runs each statement once on each of the three in
turn; the figure is the median of the rounds; the first round warms everybody's caches and does not count. The ratio is
ours / DuckDB's; below 1 ours is faster. The numbers of rows are compared, and the rows themselves with DuckDB's.

Beside it, in the same run: the first page of `SELECT * FROM readings LIMIT 200`, warm, and with a worker that has served
nobody yet (the box is restarted for each).

--fresh measures something else: 100,000 URLs a minute are registered through `POST /api/v1/urls` for two minutes, the console
is asked without pause how many it shows, and a row's lag is the time from the answer that says it is stored to the answer
that counts it. Then what merging costs at that rate: `sql merging` (see sql.rs).

--fill-only makes the databases and measures nothing; filling is not timed and may be done before. --only measures some
statements; --explore prints every time. Packages go to an environment of their own: PEERS_VENV, or
~/.cache/gleaner/venv-peers-sql.
"""

import argparse
import http.client
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = {"duckdb": "duckdb", "psycopg": "psycopg[binary]"}
POSTGRES_BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
PAGE_ROWS = 200
COLD_STARTS = 5
FIRST_PAGE = "SELECT * FROM readings LIMIT 200"

COLUMNS = [
    ("result_id", "text"), ("job_id", "text"), ("url_id", "text"), ("url", "text"), ("domain", "text"),
    ("page_type", "text"), ("schema_version", "bigint"), ("values", "text"), ("quality_composite", "double precision"),
    ("quality_completeness", "double precision"), ("quality_validation", "double precision"), ("provider", "text"),
    ("http_status", "bigint"), ("content_hash", "text"), ("changed", "text"), ("title", "text"),
    ("scraped_at", "timestamp"), ("extracted_at", "timestamp"),
]
INDEXED = ("result_id", "url", "url_id", "scraped_at", "quality_composite", "domain")

# (name, statement, PostgreSQL's statement where it differs). The days of the readings: 2026-01-01 to 2026-04-11.
QUERIES = [
    ("filter count", "SELECT count(*) FROM readings WHERE quality_composite > 0.8 AND domain = 'shop150.example'", None),
    ("filter sum", "SELECT sum(quality_completeness), count(*) FROM readings WHERE page_type = 'product' AND http_status = 200 AND quality_composite BETWEEN 0.4 AND 0.6", None),
    ("group low", "SELECT domain, count(*), avg(quality_composite) FROM readings GROUP BY domain ORDER BY count(*) DESC, domain LIMIT 20", None),
    ("group lowest", "SELECT page_type, provider, count(*), avg(quality_composite), min(quality_composite), max(quality_composite) FROM readings GROUP BY page_type, provider ORDER BY 1, 2", None),
    ("group high", "SELECT url, count(*), avg(quality_composite) FROM readings GROUP BY url ORDER BY 3 DESC, url LIMIT 100", None),
    ("group high, having", "SELECT url, domain, min(quality_composite), max(quality_composite) FROM readings GROUP BY url, domain HAVING max(quality_composite) > 1.9 * min(quality_composite) ORDER BY url LIMIT 100", None),
    ("top-k", "SELECT url, quality_composite, scraped_at FROM readings ORDER BY quality_composite DESC, result_id LIMIT 100", None),
    ("top-k, filtered", "SELECT url, quality_composite, scraped_at FROM readings WHERE domain = 'shop42.example' ORDER BY quality_composite, result_id LIMIT 50", None),
    ("distinct low", "SELECT count(DISTINCT domain), count(DISTINCT provider) FROM readings", None),
    ("distinct high", "SELECT count(DISTINCT url) FROM readings", None),
    ("distinct rows", "SELECT DISTINCT domain, page_type FROM readings ORDER BY 1, 2 LIMIT 200", None),
    ("join, grouped", "SELECT t.tag, count(*), avg(r.quality_composite) FROM readings r JOIN url_tags t ON r.url_id = t.url_id GROUP BY t.tag ORDER BY t.tag", None),
    ("join, filtered", "SELECT count(*), max(r.quality_composite) FROM readings r JOIN url_tags t ON r.url_id = t.url_id WHERE t.tag = 'tag7' AND r.quality_composite > 0.7", None),
    ("newest per url", "SELECT count(*), avg(quality_composite) FROM (SELECT quality_composite, row_number() OVER (PARTITION BY url ORDER BY scraped_at DESC) AS n FROM readings) x WHERE n = 1", None),
    ("lag", "SELECT url, scraped_at, quality_composite - lag(quality_composite) OVER (PARTITION BY url ORDER BY scraped_at) AS step FROM readings WHERE domain = 'shop42.example' ORDER BY quality_composite DESC, url, scraped_at LIMIT 100", None),
    ("daily series", "SELECT date_trunc('day', scraped_at) AS day, count(*), avg(quality_composite) FROM readings GROUP BY 1 ORDER BY 1", None),
    ("like", "SELECT count(*) FROM readings WHERE url LIKE '%/item-77%/details%'", None),
    ("median", "SELECT domain, median(quality_composite) FROM readings GROUP BY domain ORDER BY domain", "SELECT domain, percentile_cont(0.5) WITHIN GROUP (ORDER BY quality_composite) FROM readings GROUP BY domain ORDER BY domain"),
    ("point", "SELECT * FROM readings WHERE result_id = '{id}'", None),
    ("recent window", "SELECT domain, count(*), avg(quality_composite) FROM readings WHERE scraped_at >= TIMESTAMP '2026-04-10 00:00:00' GROUP BY domain ORDER BY domain", None),
    ("first page", "SELECT * FROM readings ORDER BY scraped_at DESC LIMIT 200", None),
    ("deep page", "SELECT * FROM readings ORDER BY scraped_at DESC LIMIT 200 OFFSET 20000", None),
]
# Statements that find the same rows in no certain order within equal keys, or add up doubles in another order.
NEAR = 1e-6


def enter_venv():
    """Starts this script again inside the environment that has the peers, which is made on first use."""
    venv = pathlib.Path(os.environ.get("PEERS_VENV", "~/.cache/gleaner/venv-peers-sql")).expanduser()
    python = venv / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == venv.resolve():
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    found = "import " + ", ".join(PACKAGES)
    if subprocess.run([python, "-c", found], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES.values()], check=True)
    os.execv(python, [str(python), str(pathlib.Path(__file__).resolve()), *sys.argv[1:]])


class Ours:
    name = "gleaner"

    def __init__(self, options, rows, folder):
        self.options, self.rows, self.data = options, rows, folder / "box" / "data"
        key = folder / "box" / "key"
        if not key.exists():
            shutil.rmtree(folder / "box", ignore_errors=True)
            self.data.mkdir(parents=True)
            made = subprocess.run([options.driver, "box", str(rows), str(self.data), options.gleaner],
                                  check=True, stdout=subprocess.PIPE, text=True)
            key.write_text(made.stdout.strip())
        self.key = key.read_text()
        snapshots = self.data / "snapshots"
        self.bytes = sum(path.stat().st_size for path in snapshots.rglob("*") if path.is_file())
        self.process = None

    def start(self):
        settings = {
            "GLEANER_SERVER__LISTEN": "127.0.0.1:0", "GLEANER_STORAGE__DATA_DIR": str(self.data),
            "GLEANER_LOG__LEVEL": "warn", "GLEANER_BI__MAX_QUERY_SEC": "120",
        }
        self.process = subprocess.Popen([self.options.gleaner, "serve"], cwd=self.data.parent,
                                        env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        address = line.removeprefix("Gleaner listens at http://").strip()
        self.connection = http.client.HTTPConnection(address, timeout=120)
        # Answers when the console has looked whether the snapshots are those of the store; asks no worker for it.
        tables = self.call("GET", "/api/v1/bi/tables")["items"]
        count = next(table["rowCount"] for table in tables if table["name"] == "readings")
        if count != self.rows:
            raise RuntimeError(f"the console shows {count} of {self.rows} readings: a release with other tables has made them "
                               f"anew from its store, which lacks these; remove {self.data.parent} and fill it again")

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        self.connection.request(method, path, json.dumps(body) if body else None, headers)
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status not in (200, 202):
            raise RuntimeError(f"{method} {path} {body}: {reply.status} {text[:500]}")
        return json.loads(text)

    def run(self, sql):
        began = time.perf_counter()
        said = self.call("POST", "/api/v1/bi/queries", {"sql": sql, "waitMs": 10_000})
        while said["status"] in ("queued", "running"):
            said = self.call("GET", f"/api/v1/bi/queries/{said['jobId']}")
        if said["status"] != "success":
            raise RuntimeError(f"{sql}: {said}")
        page = said.get("results") or self.call("GET", f"/api/v1/bi/queries/{said['jobId']}/results")
        ms = (time.perf_counter() - began) * 1000
        return ms, [list(row.values()) for row in page["rows"]]

    def close(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()


class DuckDb:
    name = "duckdb"

    def __init__(self, options, rows, folder):
        import duckdb

        self.version = duckdb.__version__
        path = folder / "duck.db"
        part = folder / "duck.part.db"
        if not path.exists():
            part.unlink(missing_ok=True)
            connection = duckdb.connect(str(part))
            connection.execute("SET threads = 2")
            columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS)
            connection.execute(f"CREATE TABLE readings ({columns})")
            connection.execute("CREATE TABLE url_tags (url_id text, tag text)")
            for what, table in (("csv", "readings"), ("tags", "url_tags")):
                load(options, what, rows, folder, lambda fifo: connection.execute(
                    f"COPY {table} FROM '{fifo}' (FORMAT csv, HEADER false, PARALLEL false)"))
            connection.execute("CHECKPOINT")
            connection.close()
            part.rename(path)
        self.path = path
        self.bytes = path.stat().st_size

    def start(self):
        import duckdb

        self.connection = duckdb.connect(str(self.path), read_only=True)
        self.connection.execute("SET threads = 2")

    def run(self, sql):
        began = time.perf_counter()
        rows = self.connection.execute(sql).fetchmany(PAGE_ROWS)
        return (time.perf_counter() - began) * 1000, rows

    def close(self):
        self.connection.close()


def load(options, what, rows, folder, copy):
    """Feeds the generator's rows through a pipe, so that they take no disk."""
    fifo = folder / "rows.csv"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    with subprocess.Popen(f"exec {options.driver} {what} {rows} > {fifo}", shell=True) as generator:
        copy(fifo)
        generator.wait()
    fifo.unlink()


class Postgres:
    name = "postgresql"

    def __init__(self, options, rows, folder):
        self.data = folder / "pg"
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if not (folder / "pg.filled").exists():
            shutil.rmtree(self.data, ignore_errors=True)
            self.data.mkdir()
            if self.user:
                shutil.chown(self.data, "postgres", "postgres")
            self.command("initdb", "-D", self.data, "-A", "trust", "-U", "bench", "--no-locale", "-E", "UTF8")
            self.start()
            self.fill(options, rows)
            self.close()
            (folder / "pg.filled").touch()

    def start(self):
        import psycopg

        settings = "-c listen_addresses='' -c shared_buffers=1GB -c work_mem=256MB -c max_parallel_workers_per_gather=2 " \
            "-c fsync=off -c max_wal_size=8GB -c jit=off -c unix_socket_directories=" + str(self.data)
        self.command("pg_ctl", "-D", self.data, "-w", "-o", settings, "-l", self.data / "log", "start")
        self.connection = psycopg.connect(f"host={self.data} user=bench dbname=postgres", autocommit=True)
        self.bytes = self.connection.execute("SELECT pg_database_size('postgres')").fetchone()[0]

    def command(self, program, *arguments):
        subprocess.run([*self.user, POSTGRES_BIN / program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def fill(self, options, rows):
        run = self.connection.execute
        run("CREATE UNLOGGED TABLE readings (" + ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS) + ")")
        run("CREATE UNLOGGED TABLE url_tags (url_id text, tag text)")
        for what, table in (("csv", "readings"), ("tags", "url_tags")):
            with subprocess.Popen([options.driver, what, str(rows)], stdout=subprocess.PIPE) as generator:
                with self.connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
                    while block := generator.stdout.read(1 << 20):
                        copy.write(block)
        for column in INDEXED:
            run(f"CREATE INDEX ON readings ({column})")
        run("CREATE INDEX ON url_tags (url_id)")
        run("VACUUM ANALYZE")

    def run(self, sql):
        began = time.perf_counter()
        rows = self.connection.execute(sql).fetchmany(PAGE_ROWS)
        return (time.perf_counter() - began) * 1000, rows

    def close(self):
        self.connection.close()
        self.command("pg_ctl", "-D", self.data, "-m", "fast", "stop")


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def is_same(ours, theirs):
    """Whether two values are the same, times as text or as such, doubles nearly."""
    if hasattr(theirs, "isoformat"):
        return str(ours)[:19] == theirs.isoformat()[:19]
    if isinstance(theirs, float) or isinstance(ours, float):
        return ours is not None and theirs is not None and math.isclose(float(ours), float(theirs), rel_tol=NEAR)
    if isinstance(ours, str) and not isinstance(theirs, str) and theirs is not None:
        return math.isclose(float(ours), float(theirs), rel_tol=NEAR)
    return ours == theirs


def differ(ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(ours)} rows beside {len(theirs)}"
    for index, (own, their) in enumerate(zip(ours, theirs)):
        if len(own) != len(their) or not all(map(is_same, own, their)):
            return f"row {index}: {own} beside {their}"
    return None


def measure(options, rows):
    folder = pathlib.Path(options.folder) / str(rows)
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o755)
    peers = [Ours(options, rows, folder), DuckDb(options, rows, folder)]
    if options.postgres and POSTGRES_BIN.is_dir():
        peers.append(Postgres(options, rows, folder))
    elif options.postgres:
        print("PostgreSQL is skipped: Debian's package postgresql-15 is not installed")
    if options.fill_only:
        return None
    for peer in peers:
        peer.start()
    try:
        return compare(options, rows, peers)
    finally:
        for peer in peers:
            peer.close()


def compare(options, rows, peers):
    point, _ = peers[1].connection.execute(f"SELECT result_id, 1 FROM readings LIMIT 1 OFFSET {rows // 3}").fetchone()
    chosen = [query for query in QUERIES if not options.only or query[0] in options.only.split(";")]
    times = {peer.name: {name: [] for name, *_ in chosen} for peer in peers}
    for round_ in range(options.rounds + 1):
        for name, sql, postgres_sql in chosen:
            found = {}
            for peer in peers:
                text = postgres_sql if postgres_sql and peer.name == "postgresql" else sql
                ms, found[peer.name] = peer.run(text.replace("{id}", point))
                if round_ > 0:
                    times[peer.name][name].append(ms)
            if round_ == 0:
                difference = differ(found["gleaner"], found["duckdb"])
                if difference:
                    print(f"{name}: not what DuckDB gives: {difference}", file=sys.stderr)
    medians = {peer: {name: statistics.median(ms) for name, ms in own.items()} for peer, own in times.items()}
    print(f"\n{rows} readings, {options.rounds} rounds, medians in ms; DuckDB {peers[1].version}")
    print(f"{'':22}" + "".join(f"{peer.name:>12}" for peer in peers) + "   ratio to duckdb")
    for name, *_ in chosen:
        figures = "".join(f"{medians[peer.name][name]:12.1f}" for peer in peers)
        more = "  " + " ".join(f"{ms:.1f}" for ms in times["gleaner"][name]) if options.explore else ""
        print(f"{name:22}{figures}   {medians['gleaner'][name] / medians['duckdb'][name]:.2f}{more}")
    ratios = {}
    for peer in peers[1:]:
        ratios[peer.name] = geometric_mean(
            [medians["gleaner"][name] / medians[peer.name][name] for name, *_ in chosen])
        print(f"geometric mean of ours / {peer.name}: {ratios[peer.name]:.2f}")
    print("bytes on disk: " + ", ".join(f"{peer.name} {peer.bytes >> 20} MiB" for peer in peers))
    warm, cold = first_page(options, peers[0])
    return {"rows": rows, "medians": medians, "geometricMeans": ratios, "firstPageMs": {"warm": warm, "cold": cold},
            "bytes": {peer.name: peer.bytes for peer in peers}}


def first_page(options, ours):
    """The first page of all rows: from a worker that has served the organization, and from one that has served nobody."""
    warm = [ours.run(FIRST_PAGE)[0] for _ in range(30)]
    cold = []
    for _ in range(COLD_STARTS):
        ours.close()
        ours.start()
        cold.append(ours.run(FIRST_PAGE)[0])
    print(f"{FIRST_PAGE}: warm median {statistics.median(warm):.1f} ms, largest of {len(warm)} {max(warm):.1f}; "
          f"cold worker median {statistics.median(cold):.1f} ms, largest of {len(cold)} {max(cold):.1f}")
    return warm, cold


FRESH_SECONDS = 120
FRESH_ROWS_PER_MINUTE = 100_000
FRESH_STEP_SECONDS = 0.5


def cpu_seconds(pid):
    """What a process has used, and its children that still live: the box and its waiting workers."""
    own = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK")


def fresh(options):
    folder = pathlib.Path(options.folder) / "fresh"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    box = Ours(options, 0, folder)
    box.start()
    shown, stop = [], threading.Event()

    def look():
        looking = Ours(options, 0, folder)
        looking.connection = http.client.HTTPConnection(box.connection.host, box.connection.port, timeout=120)
        while not stop.is_set():
            _, rows = looking.run("SELECT count(*) AS n FROM urls")
            shown.append((time.perf_counter(), rows[0][0]))
            time.sleep(0.02)

    looker = threading.Thread(target=look)
    looker.start()
    step = int(FRESH_ROWS_PER_MINUTE * FRESH_STEP_SECONDS / 60)
    began, cpu, stored, sent = time.perf_counter(), cpu_seconds(box.process.pid), [], 0
    while sent < FRESH_ROWS_PER_MINUTE * FRESH_SECONDS / 60:
        urls = [f"https://shop{n % 200}.example/catalogue/item-{n}/details.html" for n in range(sent, sent + step)]
        box.call("POST", "/api/v1/urls", {"urls": urls})
        sent += step
        stored.append((time.perf_counter(), sent))
        time.sleep(max(0.0, began + len(stored) * FRESH_STEP_SECONDS - time.perf_counter()))
    took, cpu = time.perf_counter() - began, cpu_seconds(box.process.pid) - cpu
    give_up = time.perf_counter() + 30
    while shown[-1][1] < sent and time.perf_counter() < give_up:
        time.sleep(0.1)
    stop.set()
    looker.join()
    box.close()
    # All rows of a request were stored at once and are shown at once: one lag, as often as it has rows.
    lags = sorted(next(at for at, count in shown if count >= upto) - at for at, upto in stored)
    of = lambda share: lags[min(len(lags) - 1, int(len(lags) * share))]
    print(f"{sent} rows in {took:.0f} s ({sent / took * 60:.0f} a minute), {len(shown)} looks: a row is shown after "
          f"{of(0.5):.2f} s (median), {of(0.99):.2f} s (p99), {lags[-1]:.2f} s (longest); "
          f"the box took {cpu / took * 100:.0f} % of a core for all of it")
    shutil.rmtree(folder)
    subprocess.run([options.driver, "merging", str(FRESH_ROWS_PER_MINUTE), str(folder)], check=True)
    shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="2000000,10000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--driver", default=str(ROOT / "target/release/examples/sql"))
    parser.add_argument("--gleaner", default=str(ROOT / "target/release/gleaner"))
    parser.add_argument("--folder", default="/var/tmp/gleaner-peers-sql")
    parser.add_argument("--no-postgres", dest="postgres", action="store_false")
    parser.add_argument("--fill-only", action="store_true")
    parser.add_argument("--only", help="names of statements, separated by semicolons")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.folder = str(pathlib.Path(options.folder).resolve())
    if options.fresh:
        return fresh(options)
    results = [measure(options, int(rows)) for rows in options.rows.split(",")]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    enter_venv()
    main()
