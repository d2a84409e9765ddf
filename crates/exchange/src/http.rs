//! Requests of HTTP 1.1 to one server, over any stream.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// The most bytes of an answer that are read.
const MOST_BYTES: u64 = 1 << 30;

/// A server's address with a path: `http://USER:PASSWORD@HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// User and password.
    pub user: Option<(String, String)>,
    /// Name or address; that of IPv6 without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, without its first slash.
    pub path: String,
}

impl HttpUrl {
    /// Reads an address that begins with `scheme`, such as `http://`; `None` for other text.
    #[must_use]
    pub fn parse(text: &str, scheme: &str, usual_port: u16) -> Option<Self> {
        let rest = text.strip_prefix(scheme)?;
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = match server.rsplit_once('@') {
            Some((user, server)) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((name.to_owned(), password.to_owned())), server)
            }
            None => (None, server),
        };
        let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Some(usual_port), |port| port.parse().ok())?;
        let is_plain = !host.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace());
        is_plain.then(|| Self { user, host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// A request with POST.
pub struct HttpPost<'a> {
    /// Where to.
    pub url: &'a HttpUrl,
    /// Names and values, none with line ends.
    pub headers: &'a [(&'a str, &'a str)],
    /// Content.
    pub body: &'a [u8],
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// 200 is success.
    pub status: u16,
    /// Content.
    pub body: Vec<u8>,
}

impl HttpPost<'_> {
    /// Sends it, and reads the answer.
    ///
    /// # Errors
    /// The stream fails, the answer is none of HTTP, or there is none before the time limit of the stream.
    pub fn send(&self, stream: impl Read + Write) -> io::Result<HttpAnswer> {
        self.try_send(stream).map_err(|why| match why.kind() {
            // A socket with a time limit returns the error of one that doesn't wait at all.
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                io::Error::new(ErrorKind::TimedOut, "it is connected, but does not answer in time")
            }
            _ => why,
        })
    }

    fn try_send(&self, mut stream: impl Read + Write) -> io::Result<HttpAnswer> {
        let host =
            if self.url.host.contains(':') { format!("[{}]", self.url.host) } else { self.url.host.clone() };
        let mut head = format!("POST /{} HTTP/1.1\r\nHost: {host}:{}\r\n", self.url.path, self.url.port);
        for (name, value) in self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "Content-Length: {}\r\nConnection: close\r\n\r\n", self.body.len());
        stream.write_all(head.as_bytes())?;
        stream.write_all(self.body)?;
        stream.flush()?;
        read_answer(BufReader::new(stream))
    }
}

fn odd(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the answer is not of HTTP: {problem}"))
}

fn read_answer(mut stream: impl BufRead) -> io::Result<HttpAnswer> {
    let first = line(&mut stream)?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| odd("no status"))?;
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let header = line(&mut stream)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<u64>().ok(),
            "transfer-encoding" => is_chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        read_chunks(&mut stream, &mut body)?;
    } else {
        stream.take(length.unwrap_or(MOST_BYTES).min(MOST_BYTES)).read_to_end(&mut body)?;
        if length.is_some_and(|length| body.len() as u64 != length) {
            return Err(odd("it ends early, or is longer than 1 GiB"));
        }
    }
    Ok(HttpAnswer { status, body })
}

fn read_chunks(stream: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = line(stream)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| odd("a chunk without size"))?;
        if size == 0 {
            return Ok(());
        }
        if (body.len() as u64).saturating_add(size) > MOST_BYTES {
            return Err(odd("it is longer than 1 GiB"));
        }
        let before = body.len();
        stream.take(size).read_to_end(body)?;
        if (body.len() - before) as u64 != size {
            return Err(odd("it ends early"));
        }
        line(stream)?;
    }
}

/// A line without its end.
fn line(stream: &mut impl BufRead) -> io::Result<String> {
    const MOST: u64 = 16 << 10;
    let mut bytes = Vec::new();
    stream.take(MOST).read_until(b'\n', &mut bytes)?;
    let text = bytes.strip_suffix(b"\n").ok_or_else(|| odd("it ends early"))?;
    Ok(String::from_utf8_lossy(text.strip_suffix(b"\r").unwrap_or(text)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn answer(text: &str) -> io::Result<HttpAnswer> {
        read_answer(Cursor::new(text.as_bytes()))
    }

    /// A server that takes the request and never answers, through a socket with a time limit.
    struct SilentServer;

    impl Read for SilentServer {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }
    }

    impl Write for SilentServer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_server_that_never_answers_is_reported_as_such() {
        let url = HttpUrl::parse("http://h", "http://", 80).expect("an address");
        let why = HttpPost { url: &url, headers: &[], body: b"x" }.send(SilentServer).expect_err("no answer");
        assert_eq!(why.kind(), ErrorKind::TimedOut);
        assert_eq!(why.to_string(), "it is connected, but does not answer in time");
    }

    #[test]
    fn addresses_have_user_host_port_and_path() {
        let url = |text: &str| HttpUrl::parse(text, "http://", 80);
        let plain = url("http://h").expect("an address");
        assert_eq!((plain.host.as_str(), plain.port, plain.path.as_str()), ("h", 80, ""));
        let full = url("http://a:b@[::1]:8123/db/x").expect("an address");
        assert_eq!(full.user, Some(("a".to_owned(), "b".to_owned())));
        assert_eq!((full.host.as_str(), full.port, full.path.as_str()), ("::1", 8123, "db/x"));
        for other in ["https://h", "http://", "http://h:port", "http://h/a b", "http://h\r\nX: y"] {
            assert_eq!(url(other), None, "{other}");
        }
    }

    #[test]
    fn answers_are_read_by_length_by_chunks_and_to_their_end() {
        let body = |text| answer(text).map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
        let by_length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd";
        assert_eq!(body(by_length).ok().as_deref(), Some("abc"));
        let by_chunks =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n";
        assert_eq!(body(by_chunks).ok().as_deref(), Some("abc"));
        assert_eq!(body("HTTP/1.0 500 X\r\n\r\nabc").ok().as_deref(), Some("abc"));
        assert_eq!(answer("HTTP/1.0 500 X\r\n\r\n").ok().map(|answer| answer.status), Some(500));
    }

    #[test]
    fn answers_that_end_early_are_errors() {
        let whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n";
        assert!(answer(whole).is_ok());
        assert!((0..whole.len()).all(|len| answer(&whole[..len]).is_err()));
        assert!(answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").is_err());
        assert!(answer("SSH-2.0-x\r\n\r\n").is_err());
    }
}
