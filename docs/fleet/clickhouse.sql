-- Tables of a fleet for ClickHouse: clickhouse-client -n < docs/fleet/clickhouse.sql.
-- Each file is then a request: curl --data-binary @FILE 'http://HOST:8123/?query=INSERT+INTO+tally.samples+FORMAT+Parquet'
CREATE DATABASE IF NOT EXISTS tally;
CREATE TABLE IF NOT EXISTS tally.samples (
    time DateTime('UTC'), host String, service String, pid Int64, tid Int64, comm String, kind String, unit String,
    state String, waker String, value Int64, samples Int64, function String, stack String, modules String,
    folded String ALIAS concat(replaceAll(replaceAll(comm, ' ', '_'), ';', '_'), ';',
        replaceAll(replaceAll(stack, ';', ':'), '\n', ';'))
) ENGINE = MergeTree() PARTITION BY toYYYYMMDD(time) ORDER BY (service, host, time);
CREATE TABLE IF NOT EXISTS tally.recordings (
    time DateTime('UTC'), host String, kind String, total Int64, agent_cpu_ns Int64, agent_age_ns Int64, left_out Int64
) ENGINE = MergeTree() PARTITION BY toYYYYMMDD(time) ORDER BY (host, time);
-- One row for each distinct function of a stack.
CREATE VIEW IF NOT EXISTS tally.functions AS
SELECT kind, host, service, value, arrayJoin(arrayDistinct(splitByChar('\n', stack))) AS name FROM tally.samples;
