//! Connections to servers that the user named.

use anyhow::Context;
use exchange::http::HttpUrl;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Connects to the first of a server's addresses that answers.
///
/// # Errors
/// The name has no address, or none answers.
pub fn connect(url: &HttpUrl, patience: Duration) -> anyhow::Result<TcpStream> {
    let place = format!("{}:{}", url.host, url.port);
    let addresses = (url.host.as_str(), url.port).to_socket_addrs();
    let addresses = addresses.with_context(|| format!("can't find {place}"))?;
    let mut failure = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, patience.min(Duration::from_secs(10))) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                return Ok(stream);
            }
            Err(why) => failure = why,
        }
    }
    Err(failure).with_context(|| format!("can't connect to {place}"))
}
