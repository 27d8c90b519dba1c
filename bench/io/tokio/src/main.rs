// SPDX-License-Identifier: MIT

//! main.rs: the server as tasks of tokio, a peer.
//!
//! WHAT IT IS ASKED: see io.h. A connection is a task. The runtime is the
//! current-thread runtime if P is 1, else the multi-thread runtime with P
//! workers. The acceptor is a task, too: on the multi-thread runtime it runs on
//! a worker, and the main thread only waits.

use std::io::Result;
use std::time::{Duration, Instant};
use std::{env, hint, process};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, UnixListener};
use tokio::runtime::Builder;

const USAGE: i32 = 2;
const MESSAGE: usize = 100;
const ROOM: usize = 512;
const LINE: usize = 4096;
const SLICE: Duration = Duration::from_micros(50);
const BACKLOG: u32 = 4096;
const MOST: usize = 64;

#[derive(Clone, Copy)]
enum Mode {
    Echo,
    Line,
    Once,
}

#[derive(Clone)]
struct Ask {
    mode: Mode,
    address: String,
    p: usize,
    k: usize,
}

fn main() -> Result<()> {
    let a = arguments();
    let mut builder = match a.p {
        1 => Builder::new_current_thread(),
        p => {
            let mut b = Builder::new_multi_thread();
            b.worker_threads(p);
            b
        }
    };
    let runtime = builder.enable_io().build()?;
    runtime.block_on(async {
        for _ in 0..a.k {
            tokio::spawn(compute());
        }
        tokio::spawn(accept(a)).await?
    })
}

async fn accept(a: Ask) -> Result<()> {
    match a.address.strip_prefix("unix:") {
        Some(path) => accept_unix(path, a.mode).await,
        None => accept_tcp(a.mode).await,
    }
}

async fn accept_unix(path: &str, mode: Mode) -> Result<()> {
    let listener = UnixListener::bind(path)?;
    ready(&format!("unix:{path}"));
    loop {
        let (c, _) = listener.accept().await?;
        begin(c, mode);
    }
}

async fn accept_tcp(mode: Mode) -> Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    ready(&listener.local_addr()?.to_string());
    loop {
        let (c, _) = listener.accept().await?;
        c.set_nodelay(true)?;
        begin(c, mode);
    }
}

fn begin<C>(c: C, mode: Mode)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match mode {
        Mode::Echo => tokio::spawn(serve(c)),
        Mode::Line => tokio::spawn(serve_lines(c)),
        Mode::Once => tokio::spawn(serve_once(c)),
    };
}

/// The end of a connection, also by an error, is the end of its task.
async fn serve<C: AsyncRead + AsyncWrite + Unpin>(mut c: C) -> Result<()> {
    let mut bytes = [0; ROOM];
    loop {
        let n = c.read(&mut bytes).await?;
        if n == 0 {
            return Ok(());
        }
        c.write_all(&bytes[..n]).await?;
    }
}

/// A line that is longer than LINE, or has no end, is no line.
async fn serve_lines<C: AsyncRead + AsyncWrite + Unpin>(c: C) -> Result<()> {
    let mut c = BufReader::with_capacity(LINE, c);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut c).take(LINE as u64).read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        c.write_all(b"ok\n").await?;
        c.write_all(&line).await?;
    }
}

async fn serve_once<C: AsyncRead + AsyncWrite + Unpin>(mut c: C) -> Result<()> {
    let mut bytes = [0; MESSAGE];
    c.read_exact(&mut bytes).await?;
    c.write_all(&bytes).await
}

async fn compute() {
    let mut x = 1u64;
    loop {
        let start = Instant::now();
        while start.elapsed() < SLICE {
            for _ in 0..300 {
                x = (x ^ (x >> 31)).wrapping_mul(6364136223846793005);
            }
        }
        hint::black_box(x);
        tokio::task::yield_now().await;
    }
}

fn ready(address: &str) {
    println!("ready {address} {}", process::id());
}

fn arguments() -> Ask {
    let args: Vec<String> = env::args().skip(1).collect();
    let [mode, address, p, k] = &args[..] else {
        usage()
    };
    let known = address == "tcp" || address.starts_with("unix:");
    if !known {
        usage();
    }
    Ask {
        mode: match &mode[..] {
            "echo" => Mode::Echo,
            "line" => Mode::Line,
            "once" => Mode::Once,
            _ => usage(),
        },
        address: address.clone(),
        p: number(p, 1),
        k: number(k, 0),
    }
}

fn number(text: &str, least: usize) -> usize {
    match text.parse() {
        Ok(v) if (least..=MOST).contains(&v) => v,
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: server echo|line|once tcp|unix:PATH P K");
    process::exit(USAGE)
}
