//! A web server on loopback that says exactly what it is told to, and remembers what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What it answers.
pub(crate) enum Reply {
    /// These bytes, and then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing more.
    Stall(Vec<u8>),
    /// These bytes over and over, until nobody reads them.
    Endless(Vec<u8>),
}

/// The server. It is gone when this is.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers each request, given with its head and body as text, with what this makes of it.
    pub(crate) async fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&log), Arc::clone(&answer)));
            }
        });
        Self { address, asked, _tasks: tasks }
    }

    /// Always the same.
    pub(crate) async fn saying(head: &str, body: impl AsRef<[u8]>) -> Self {
        let bytes = reply(head, body.as_ref());
        Self::start(move |_| Reply::Bytes(bytes.clone())).await
    }

    /// What it was asked, whole requests.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// A URL of it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What a spec would list.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }
}

/// An answer: its first line without the version, with any headers after it, and its body.
pub(crate) fn reply(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len())
        .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<String>>>,
    answer: Arc<impl Fn(&str) -> Reply + Send + Sync + 'static>,
) {
    let Some(request) = whole_request(&mut stream).await else { return };
    log.lock().unwrap().push(request.clone());
    match answer(&request) {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Reply::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let mut rest = [0; 64];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
        }
        Reply::Endless(bytes) => while stream.write_all(&bytes).await.is_ok() {},
    }
}

async fn whole_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut part).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&part[..read]),
            _ => return None,
        }
    }
}
