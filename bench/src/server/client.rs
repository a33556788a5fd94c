//! As little of a client as possible: what is measured is the server.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_bench::Error;

use crate::engine::QUESTION;

/// One connection, kept open.
pub(crate) struct Connection {
    socket: TcpStream,
    address: SocketAddr,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Error> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, address, buffer: Vec::new() })
    }

    /// The body of an answer that must be a 200 of a known length.
    pub(crate) async fn get(&mut self, path: &str) -> Result<String, Error> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        self.send(&request).await?;
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = String::from_utf8(self.buffer[..end].to_vec())?.to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.ok_or("an answer of unknown length")?.parse()?;
                if self.buffer.len() >= end + 4 + length {
                    if !head.starts_with("http/1.1 200") {
                        return Err(format!("{path}: {head}").into());
                    }
                    return Ok(String::from_utf8(self.buffer[end + 4..end + 4 + length].to_vec())?);
                }
            }
            self.receive().await?;
        }
    }

    /// Begins a session, and reads its stream to the end. Seconds until its first word.
    pub(crate) async fn first_word(&mut self) -> Result<f64, Error> {
        let body = format!(r#"{{"message":"{QUESTION}"}}"#);
        let request = format!(
            "POST /agents/bench/chat/stream?format=native HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let began = Instant::now();
        self.send(&request).await?;
        let mut first = None;
        // The last chunk of a body has no length.
        while !self.buffer.ends_with(b"\r\n0\r\n\r\n") {
            self.receive().await?;
            if first.is_none() && find(&self.buffer, b"event: text.delta").is_some() {
                first = Some(began.elapsed().as_secs_f64());
            }
        }
        match first {
            Some(first) if find(&self.buffer, br#""stop":"end"}"#).is_some() => Ok(first),
            _ => Err(String::from_utf8_lossy(&self.buffer).into_owned().into()),
        }
    }

    async fn send(&mut self, request: &str) -> Result<(), Error> {
        self.buffer.clear();
        Ok(self.socket.write_all(request.as_bytes()).await?)
    }

    async fn receive(&mut self) -> Result<(), Error> {
        match self.socket.read_buf(&mut self.buffer).await? {
            0 => Err(String::from_utf8_lossy(&self.buffer).into_owned().into()),
            _ => Ok(()),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
