//! Programs whose screens are tried, from small test programs to servers under load.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process;

/// A command line to run under `tally run`, in an empty folder.
#[derive(Debug)]
pub struct Subject {
    /// For messages.
    pub name: &'static str,
    /// Programs that have to be in `PATH`. A name with a `/` is a folder or file.
    pub needs: &'static [&'static str],
    /// Files of the folder, each with its content.
    pub files: &'static [(&'static str, &'static str)],
    /// Shell line that runs before, outside of the recording.
    pub before: &'static str,
    /// Shell line of the recorded command. `$SOURCES` is the folder of the test programs' sources.
    pub line: &'static str,
}

impl Subject {
    /// A command without files.
    const fn plain(name: &'static str, needs: &'static [&'static str], line: &'static str) -> Self {
        Self { name, needs, files: &[], before: "", line }
    }

    /// The first program that is not on this machine.
    pub fn missing(&self) -> Option<&'static str> {
        let is_here = |name: &str| {
            if name.contains('/') { Path::new(name).exists() } else { process::find(name).is_some() }
        };
        self.needs.iter().copied().find(|name| !is_here(name))
    }

    /// Makes an empty `folder` with the subject's files.
    pub fn make_folder(&self, folder: &Path) -> Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(folder)?;
        for (name, content) in self.files {
            fs::write(folder.join(name), content)?;
        }
        Ok(())
    }
}

/// Test programs, then foreign ones. Servers end with their load, so that printed commands that run them again end too.
pub const SUBJECTS: &[Subject] = &[
    Subject::plain("split", &[], "split 1"),
    Subject::plain("convoy", &[], "convoy 4 200"),
    Subject::plain("pool", &[], "pool"),
    Subject::plain("words", &[], "words 10000"),
    Subject::plain("disk", &[], "disk"),
    Subject::plain("git", &["git"], "git --version"),
    Subject::plain("gzip", &["gzip"], "gzip -kc /usr/lib/x86_64-linux-gnu/libc.so.6"),
    Subject::plain(
        "sqlite3",
        &["sqlite3"],
        "sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c where x<300000) select sum(x) from c'",
    ),
    Subject::plain("python3", &["python3"], "python3 -c 'print(sum(i*i%7 for i in range(2000000)))'"),
    Subject::plain("node", &["node"], "node -p '[...Array(3e6).keys()].reduce((a,b)=>a+b%7)'"),
    Subject::plain("tar | gzip", &["tar", "gzip"], "sh -c 'tar cf - /usr/include 2>/dev/null | gzip'"),
    Subject::plain("g++", &["g++"], "g++ -O1 -c \"$SOURCES/forest.cpp\""),
    // Its cache is warm, as it is at a programmer's second build.
    Subject {
        before: "go build -o warm \"$SOURCES/primes.go\"",
        ..Subject::plain("go build", &["go"], "go build -o built \"$SOURCES/primes.go\"")
    },
    Subject {
        files: &[("Turns.java", TURNS)],
        before: "javac Turns.java",
        ..Subject::plain("java", &["java", "javac"], "java Turns")
    },
    Subject {
        files: &[("load.sh", REDIS)],
        ..Subject::plain("redis", &["redis-server", "redis-benchmark"], "sh load.sh")
    },
    Subject {
        files: &[("load.sh", POSTGRES)],
        before: "chmod 755 . && mkdir data && chown nobody data . && \
                 setpriv --reuid nobody --regid nogroup --clear-groups \
                 $(ls -d /usr/lib/postgresql/*/bin | tail -1)/initdb -D data -A trust -U nobody",
        ..Subject::plain(
            "postgres",
            &["pgbench", "setpriv", "/usr/lib/postgresql"],
            "setpriv --reuid nobody --regid nogroup --clear-groups sh load.sh",
        )
    },
];

/// Four threads take turns inside a monitor.
const TURNS: &str = "\
public class Turns {
    static long sum = 0;
    static long work(int n) { long s = 0; for (int i = 0; i < n; i++) s += i % 7 * s + i; return s; }
    static void turns() { for (int i = 0; i < 200; i++) synchronized (Turns.class) { sum += work(500000); } }
    public static void main(String[] args) throws Exception {
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) (threads[i] = new Thread(Turns::turns, \"turn-\" + i)).start();
        for (Thread thread : threads) thread.join();
        System.out.println(sum);
    }
}
";
const REDIS: &str = "\
redis-server --port 0 --unixsocket \"$PWD/socket\" --save '' >log &
until redis-cli -s socket ping >/dev/null 2>&1; do sleep 0.05; done
redis-benchmark -s socket -n 10000 -q -t set,get,lrange_100 >/dev/null
redis-cli -s socket shutdown nosave
wait
";
const POSTGRES: &str = "\
export PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH PGHOST=$PWD PGUSER=nobody
postgres -D data -k \"$PWD\" -c listen_addresses= -c fsync=off >log 2>&1 &
until psql -qc 'select 1' postgres >/dev/null 2>&1; do sleep 0.05; done
pgbench -i -q postgres 2>/dev/null
pgbench -c 4 -t 1000 postgres
kill -INT $!
wait
";
