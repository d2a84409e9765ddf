"""Asks one engine the questions of docs/fleet over a fleet's folder, and compares its answers with tally's.

engines.py ENGINE TALLY FOLDER DOCS: prints ok, FAILED or skipped, one line for each question. With `time` as a fifth
argument, for a large fleet: also the time that each question takes.
"""

import atexit
import collections
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ENGINE, TALLY, FOLDER, DOCS = sys.argv[1:5]
COLUMNS = {
    "samples": "time, host, service, pid, tid, comm, kind, unit, state, waker, value, samples, function, stack, modules",
    "recordings": "time, host, kind, total, agent_cpu_ns, agent_age_ns, left_out",
}


def note(result, what, why=""):
    print(f"{result} {ENGINE} {what}{': ' + why if why else ''}", flush=True)


def statements(name):
    text = open(os.path.join(DOCS, name)).read()
    return [part.strip() for part in re.sub(r"^--.*$", "", text, flags=re.M).split(";\n") if part.strip()]


def queries():
    text = open(os.path.join(DOCS, "queries.sql")).read()
    for part in re.split(r"^-- name: ", text, flags=re.M)[1:]:
        name, sql = part.split("\n", 1)
        yield name, re.sub(r"^--.*$", "", sql, flags=re.M).strip().rstrip(";")


def duckdb():
    import duckdb

    os.chdir(FOLDER)
    engine = duckdb.connect()
    for statement in statements("duckdb.sql"):
        engine.execute(statement)
    return lambda sql: engine.execute(sql).fetchall()


def spark():
    from pyspark.sql import SparkSession

    os.chdir(FOLDER)
    # Two workers are processes of their own, each with one core and 1 GiB.
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    engine = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    engine.sparkContext.setLogLevel("ERROR")
    for statement in statements("spark.sql"):
        engine.sql(statement)
    atexit.register(engine.stop)
    return lambda sql: [tuple(row) for row in engine.sql(sql).collect()]


def chdb():
    from chdb.session import Session

    engine = Session()
    for statement in statements("clickhouse.sql"):
        engine.query(statement)
    # The file's own column has the host's name, the folder's one is escaped.
    own = "use_hive_partitioning = 0"
    for table, columns in COLUMNS.items():
        files = f"file('{FOLDER}/{table}/*/*/*.parquet', Parquet)"
        engine.query(f"INSERT INTO tally.{table} ({columns}) SELECT {columns} FROM {files} SETTINGS {own}")
    engine.query("USE tally")
    return lambda sql: rows_of_text(str(engine.query(sql, "TabSeparated")))


def clickhouse_server():
    """A server over HTTP; old ones have no Parquet and get the rows as text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = tempfile.mkdtemp(prefix="tally-clickhouse-")
    with open(f"{place}/users.xml", "w") as users:
        users.write(
            "<yandex><profiles><default/></profiles><users><default><password></password><profile>default</profile>"
            "<quota>default</quota><networks><ip>127.0.0.1</ip></networks></default></users>"
            "<quotas><default/></quotas></yandex>"
        )
    with open(f"{place}/config.xml", "w") as config:
        config.write(
            f"<yandex><logger><level>error</level><log>{place}/log</log></logger><http_port>{port}</http_port>"
            f"<listen_host>127.0.0.1</listen_host><path>{place}/data/</path><tmp_path>{place}/tmp/</tmp_path>"
            f"<users_config>{place}/users.xml</users_config><default_profile>default</default_profile>"
            "<default_database>default</default_database><mark_cache_size>5368709</mark_cache_size></yandex>"
        )
    program = shutil.which("clickhouse-server", path=os.environ["PATH"] + ":/usr/sbin")
    server = subprocess.Popen([program, f"--config-file={place}/config.xml"], stderr=subprocess.DEVNULL)

    def ask(sql, body=b"", database="default"):
        address = f"http://127.0.0.1:{port}/?" + urllib.parse.urlencode({"database": database, "query": sql})
        try:
            return urllib.request.urlopen(urllib.request.Request(address, data=body), timeout=600).read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode().split("\n")[0]) from error

    for _ in range(100):
        try:
            ask("SELECT 1")
            break
        except OSError:
            time.sleep(0.2)
    for statement in statements("clickhouse.sql"):
        ask(statement)
    as_text = text_reader()
    for table, columns in COLUMNS.items():
        # A day of a machine at a time: each request becomes a part of the table.
        for folder in sorted(glob.glob(f"{FOLDER}/{table}/*/*")):
            for text in as_text(folder, columns):
                ask(f"INSERT INTO tally.{table} ({columns}) FORMAT TabSeparated", text)

    def end():
        server.terminate()
        server.wait()
        shutil.rmtree(place)

    return (lambda sql: rows_of_text(ask(sql + " FORMAT TabSeparated", database="tally"))), port, end


def text_reader():
    """Reads a folder's files as lines of values: by ClickHouse's engine, or without it by pyarrow, 20 times slower."""
    try:
        import chdb
    except ImportError:
        import pyarrow.parquet as parquet

        def by_pyarrow(folder, columns):
            for file in glob.glob(f"{folder}/*.parquet"):
                rows = parquet.ParquetFile(file).read().to_pylist()
                lines = ["\t".join(text_of(row[name]) for name in columns.split(", ")) + "\n" for row in rows]
                yield "".join(lines).encode()

        return by_pyarrow

    def by_chdb(folder, columns):
        own = "SETTINGS use_hive_partitioning = 0"
        # A pattern's marks in the folder's name stand for any letter. Old servers know whole seconds.
        pattern = re.sub(r"[*?{}]", "?", folder)
        values = columns.replace("time,", "toDateTime(time, 'UTC'),", 1)
        yield chdb.query(f"SELECT {values} FROM file('{pattern}/*.parquet', Parquet) {own}", "TabSeparated").bytes()

    return by_chdb


def text_of(value):
    if hasattr(value, "strftime"):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def rows_of_text(text):
    marks = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", "0": "\0", "b": "\b", "f": "\f", "r": "\r"}
    plain = lambda value: re.sub(r"\\(.)", lambda mark: marks[mark[1]], value)
    number = lambda value: int(value) if re.fullmatch(r"-?\d+", value) else value
    return [tuple(number(plain(value)) for value in line.split("\t")) for line in text.split("\n") if line]


def folded(*options):
    command = [TALLY, "fleet", "flame", "--from", FOLDER, "--folded", *options]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in lines)}


def largest(sums, count=30):
    return sorted(sums.items(), key=lambda item: (-item[1], item[0].encode()))[:count]


def wanted():
    """Tally's answers, exact to the nanosecond, from its folded stacks."""
    cpu, wall = folded(), folded("--event", "wall")
    own, total, waits = (collections.Counter() for _ in range(3))
    for stack, value in cpu.items():
        own[stack.split(";")[-1]] += value
        for name in set(stack.split(";")[1:]):
            total[name] += value
    for stack, value in wall.items():
        leaf = stack.split(";")[-1]
        if leaf in ("[futex]", "[GIL]"):
            waits["locks"] += value
    hosts = sorted({urllib.parse.unquote(os.path.basename(name)[5:]) for name in glob.glob(f"{FOLDER}/samples/*/host=*")})
    return {
        "whole": [],
        "top": largest(own),
        "total": largest(total),
        "hosts": largest({host: sum(folded("--host", host).values()) for host in hosts}, len(hosts)),
        "flame": sorted(cpu.items(), key=lambda item: item[0].encode()),
        "locks": waits["locks"],
    }


def check(ask, is_timed=False):
    tally = wanted()
    for name, sql in queries():
        began = time.time()
        try:
            rows = ask(sql)
        except Exception as error:
            note("FAILED", name, str(error).split("\n")[0])
            continue
        seconds = time.time() - began
        if name in ("top", "total"):
            # A folded stack has no semicolon in a name.
            is_equal = [(function.replace(";", ":"), value) for function, value in rows] == tally[name]
        elif name in ("whole", "hosts"):
            is_equal = rows == tally[name]
        elif name == "flame":
            is_equal = sorted(rows, key=lambda row: row[0].encode()) == tally[name]
        elif name == "locks":
            # The machine of a bench need not have waited for a lock.
            is_equal = sum(value for _, value in rows) == tally[name] and (is_timed or tally[name] > 0)
        elif name == "services":
            is_equal = sum(value for _, value in rows) == sum(value for _, value in tally["hosts"])
        else:
            is_equal = len(rows) > 0
        took = f"{seconds:.2f} s, {len(rows)} rows" if is_timed else ""
        note("ok" if is_equal else "FAILED", name, took if is_equal else f"{rows[:3]} {str(tally.get(name))[:200]}")


def main():
    engines = {"duckdb": duckdb, "chdb": chdb, "spark": spark, "clickhouse-server": clickhouse_server}
    if ENGINE == "clickhouse-server" and not shutil.which(ENGINE, path=os.environ["PATH"] + ":/usr/sbin"):
        return note("skipped", "all", "not on this machine")
    try:
        began = time.time()
        engine = engines[ENGINE]()
    except ImportError as error:
        return note("skipped", "all", str(error))
    is_timed = "time" in sys.argv[5:]
    if is_timed:
        note("ok", "begins", f"{time.time() - began:.2f} s")
    if ENGINE != "clickhouse-server":
        return check(engine, is_timed)
    ask, port, end = engine
    try:
        check(ask, is_timed)
        for question in (["top"], ["hosts"], ["locks"], ["flame", "--folded"], ["top", "--event", "wall"]):
            check_server(question, port)
    finally:
        end()


def check_server(question, port):
    """`tally fleet` answers from a server as from the folder."""
    answers, seconds = [], []
    for place in (FOLDER, f"clickhouse://127.0.0.1:{port}"):
        began = time.time()
        answers.append(subprocess.run([TALLY, "fleet", *question, "--from", place], capture_output=True, text=True))
        seconds.append(time.time() - began)
    is_equal = answers[0].stdout == answers[1].stdout and answers[0].returncode == 0
    pairs = zip(*(answer.stdout.splitlines() for answer in answers))
    odd = [pair for pair in pairs if pair[0] != pair[1]]
    took = "folder {:.2f} s, server {:.2f} s".format(*seconds) if "time" in sys.argv[5:] else ""
    why = took if is_equal else f"{odd[:2]} {answers[1].stderr}"
    note("ok" if is_equal else "FAILED", "tally fleet " + " ".join(question), why)


main()
