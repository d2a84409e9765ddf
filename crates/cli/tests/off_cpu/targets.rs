//! Waits have names: files, sockets with their peers, pipes with their other ends.

use super::{TALLY, folder, has_bpf, output_of, outputs_of, program};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
#[ignore = "live: records on this machine"]
fn a_pipe_that_is_waited_for_is_named_after_its_writer() {
    if !has_bpf() {
        return;
    }
    let data = folder("targets").join("pipe.data");
    let pipeline = "for i in 1 2 3 4 5 6 7 8; do sleep 0.05; echo $i; done | cat";
    let mut record = Command::new(TALLY);
    record.args(["record", "-q", "--off-cpu", "-o"]).arg(&data).args(["--", "sh", "-c", pipeline]);
    output_of(record);
    let wall = wall_of(&data);
    assert!(wall.contains("cat waits for pipe from sh "), "{wall}");
}

#[test]
#[ignore = "live: records on this machine"]
fn processes_of_one_name_are_distinguished_by_their_first_argument() {
    if !has_bpf() {
        return;
    }
    let folder = folder("targets");
    let data = folder.join("scripts.data");
    let script = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("written");
        folder.join(name).display().to_string()
    };
    let feed = script("feed.sh", "sleep 0.3; echo last");
    let eat = script("eat.sh", "read line");
    let secret = script("with-option.sh", "sleep 0.1");
    let pipeline = format!("sh {feed} --password=x | sh {eat}; sh -e {secret}");
    let mut record = Command::new(TALLY);
    record.args(["record", "-q", "--off-cpu", "-o"]).arg(&data).args(["--", "sh", "-c", &pipeline]);
    output_of(record);
    let wall = wall_of(&data);
    assert!(["sh feed.sh ", "sh eat.sh "].iter().all(|name| wall.contains(name)), "{wall}");
    // Options, and what comes after them, are the program's own business.
    assert!(!wall.contains("with-option") && !wall.contains("password"), "{wall}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_socket_that_is_waited_for_is_named_after_its_peer() {
    if !has_bpf() {
        return;
    }
    let data = folder("targets").join("socket.data");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let server = std::thread::spawn(move || serve(&listener));
    let client =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; for i in 1 2 3 4 5 6 7 8; do read -r x <&3; done");
    let mut record = Command::new(TALLY);
    record.args(["record", "-q", "--off-cpu", "-o"]).arg(&data).args(["--", "bash", "-c", &client]);
    output_of(record);
    server.join().expect("no panic");
    let wall = wall_of(&data);
    // The server is this test.
    let expected = format!("bash waits for socket to 127.0.0.1:{port} (off_cpu");
    assert!(wall.contains(&expected), "{wall}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_file_in_the_middle_of_a_flight_recording_names_the_pipe() {
    if !has_bpf() {
        return;
    }
    let data = folder("targets").join("flight.data");
    // The writer's last line comes once it knows of the file.
    let pipeline = "while kill -0 $PPID && ! test -e \"$0\".end; do sleep 0.05; echo; done | cat > /dev/null";
    let end = data.with_extension("data.end");
    let _ = std::fs::remove_file(&end);
    let mut record = Command::new(TALLY);
    record.args(["record", "--off-cpu", "--overwrite", "--switch-output", "-o"]).arg(&data);
    record.args(["--", "sh", "-c", pipeline]).arg(&data);
    let mut tally = record.stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(3));
    let _ = Command::new("kill").args(["-USR2", &tally.id().to_string()]).status();
    let lines = BufReader::new(tally.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let dumped =
        |line: String| Some(line.strip_prefix("[ tally record: dumped ")?.strip_suffix(" ]")?.to_owned());
    let mut messages = lines.filter_map(dumped);
    let file = messages.next();
    std::fs::write(&end, "").expect("a file");
    messages.for_each(drop);
    let _ = tally.wait();
    let wall = wall_of(std::path::Path::new(&file.expect("a file")));
    assert!(wall.contains("cat waits for pipe from sh "), "{wall}");
}

/// Eight lines to whoever comes, with pauses.
fn serve(listener: &TcpListener) {
    let (mut stream, _): (TcpStream, _) = listener.accept().expect("the client comes");
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(60));
        if stream.write_all(b"line\n").is_err() {
            return;
        }
    }
    let _ = stream.read(&mut [0]);
}

fn wall_of(data: &std::path::Path) -> String {
    let mut report = Command::new(TALLY);
    report.args(["report", "--wall", "--stdio", "-i"]).arg(data).env("COLUMNS", "200");
    output_of(report)
}

#[test]
#[ignore = "live: records on this machine"]
fn a_file_that_processes_lock_in_turn_is_one_lock() {
    if !has_bpf() {
        return;
    }
    let folder = folder("file-lock");
    let Some(program) = program("file_lock", &folder) else { return };
    let (data, locked) = (folder.join("data"), folder.join("locked"));
    let mut record = Command::new(TALLY);
    record.args(["record", "--off-cpu", "-o"]).arg(&data).arg("--").arg(program).arg(&locked);
    outputs_of(record);
    let mut locks = Command::new(TALLY);
    locks.args(["locks", "-i"]).arg(&data);
    let text = output_of(locks);
    let rows = text.lines().filter(|line| line.contains("file lock of ")).count();
    assert!(rows == 1 && text.contains("/locked (3 processes)"), "{text}");
}
