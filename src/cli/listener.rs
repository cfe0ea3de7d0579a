//! The addresses that commands listen on.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use midex_domain::{
    error::{Code, Error, Result, describe_io_error},
    limits,
};

/// Parses the address to listen on. Names are not resolved, except `localhost`.
pub(super) fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:");
    let loopback = port.map(|port| format!("127.0.0.1:{port}"));
    loopback.as_deref().unwrap_or(text).parse().map_err(|_| {
        "expected an address and a port, such as 127.0.0.1:8123 or [::1]:8123".to_owned()
    })
}

/// Listens on an address. Must be called on a runtime.
///
/// # Errors
/// `ADDRESS_UNUSABLE`.
pub(super) fn bind_listener(address: SocketAddr) -> Result<TcpListener> {
    try_bind(address).map_err(|error| {
        let message = format!("{address} cannot be listened on: {}", describe_io_error(&error));
        Error::new(Code::AddressUnusable, message).with_context("address", address.to_string())
    })
}

fn try_bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Allow the next server to bind the address at once, while connections of this one are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::HTTP_BACKLOG)
}
