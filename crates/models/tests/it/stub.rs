//! A server on the true wire: raw HTTP/1.1 on a socket, so that bytes can be cut anywhere.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a test waits for at most; nothing here takes long unless it is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// What the server does after it has read a request.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Written one after the other, each in a packet of its own.
    pub(crate) writes: Vec<Vec<u8>>,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Waits for the next request on the same connection.
    KeepOpen,
    /// Closes the connection, finished or not.
    Close,
    /// Says nothing more until the client goes away.
    Hang,
}

impl Reply {
    /// A stream of events, one HTTP chunk each.
    pub(crate) fn events(frames: &[String]) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut writes = vec![head.as_bytes().to_vec()];
        writes.extend(frames.iter().map(|frame| chunk(frame.as_bytes())));
        writes.push(b"0\r\n\r\n".to_vec());
        Self { writes, then: Then::KeepOpen }
    }

    /// The first `frames` events, and then the connection breaks.
    pub(crate) fn cut(frames: &[String], count: usize) -> Self {
        let mut reply = Self::events(frames);
        reply.writes.truncate(1 + count);
        Self { then: Then::Close, ..reply }
    }

    /// The first `frames` events, and then nothing.
    pub(crate) fn hang(frames: &[String], count: usize) -> Self {
        Self { then: Then::Hang, ..Self::cut(frames, count) }
    }

    /// A body that ends with the connection, as HTTP/1.0 has it.
    pub(crate) fn until_close(content_type: &str, body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
        Self { writes: vec![head.into_bytes(), body.to_vec()], then: Then::Close }
    }

    /// Any other answer.
    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Whatever\r\n{headers}content-length: {length}\r\n\r\n");
        Self { writes: vec![head.into_bytes(), body.as_bytes().to_vec()], then: Then::KeepOpen }
    }

    /// The same bytes, one at a time.
    pub(crate) fn byte_by_byte(self) -> Self {
        let writes = self.writes.concat().into_iter().map(|byte| vec![byte]).collect();
        Self { writes, ..self }
    }
}

pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// A request as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The server. It answers requests in order, whatever connection they come on.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    closed: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    replies: VecDeque<Reply>,
    seen: Vec<Seen>,
    connections: usize,
}

impl Stub {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(Mutex::new(State { replies: replies.into_iter().collect(), ..State::default() }));
        let (gone, closed) = watch::channel(0);
        let task = tokio::spawn(accept(listener, Arc::clone(&state), gone));
        Self { address, state, closed, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// Waits until a client has closed a connection on which the server hung.
    pub(crate) async fn client_went_away(&mut self) {
        let gone = self.closed.wait_for(|count| *count > 0);
        tokio::time::timeout(DEADLINE, gone).await.expect("the client never closed its connection").unwrap();
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>, gone: watch::Sender<usize>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        state.lock().unwrap().connections += 1;
        connections.spawn(serve(socket, Arc::clone(&state), gone.clone()));
    }
}

async fn serve(mut socket: TcpStream, state: Arc<Mutex<State>>, gone: watch::Sender<usize>) {
    while let Some(seen) = read(&mut socket).await {
        let reply = {
            let mut state = state.lock().unwrap();
            state.seen.push(seen);
            state.replies.pop_front()
        };
        let Some(reply) = reply else { return };
        for bytes in &reply.writes {
            if socket.write_all(bytes).await.is_err() {
                gone.send_modify(|count| *count += 1);
                return;
            }
            // Lets the client read what was written so far before there is more.
            tokio::task::yield_now().await;
        }
        match reply.then {
            Then::KeepOpen => {}
            Then::Close => return,
            Then::Hang => {
                while socket.read_u8().await.is_ok() {}
                gone.send_modify(|count| *count += 1);
                return;
            }
        }
    }
}

/// One request; none when the client has gone.
async fn read(socket: &mut TcpStream) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().to_owned();
    let header =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some(Seen { line, headers, body: String::from_utf8(body).unwrap() })
}
