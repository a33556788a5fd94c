//! A provider on loopback that takes a moment to think and then streams a short answer, in OpenAI's words.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use weir_bench::Error;

/// How long it thinks: little, next to what models take, so that what we add shows.
pub(crate) const THINKS: Duration = Duration::from_millis(20);

/// Starts it; the address to call.
pub(crate) async fn start() -> Result<String, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move { serve(stream).await.ok() });
        }
    });
    Ok(url)
}

async fn serve(mut stream: TcpStream) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let body = loop {
            if let Some(end) = complete(&buffer) {
                break end;
            }
            let mut piece = [0; 16 * 1024];
            let read = stream.read(&mut piece).await?;
            if read == 0 {
                return Ok(());
            }
            buffer.extend_from_slice(&piece[..read]);
        };
        buffer.drain(..body);
        tokio::time::sleep(THINKS).await;
        stream.write_all(answer().as_bytes()).await?;
    }
}

/// Where a complete request ends.
fn complete(buffer: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(buffer);
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head].lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.unwrap_or_default();
    (buffer.len() >= end).then_some(end)
}

/// The frames of the answer.
const FRAMES: [&str; 4] = [
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"It rains."}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":4,"total_tokens":44}}"#,
    "[DONE]",
];

fn answer() -> String {
    let mut answer =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    for frame in FRAMES {
        let frame = format!("data: {frame}\n\n");
        answer.push_str(&format!("{:x}\r\n{frame}\r\n", frame.len()));
    }
    answer + "0\r\n\r\n"
}
