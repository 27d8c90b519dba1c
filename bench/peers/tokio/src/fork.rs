// SPDX-License-Identifier: MIT

//! fork.rs: tokio-fork: forks and joins on tokio's tasks, a peer.
//!
//! WHAT IS MEASURED: see fork.h. A thread is a task. The runtime is the
//! current-thread runtime if P is 1, else the multi-thread runtime with P
//! workers. Its builder makes it without I/O and timers, as for the rings. The
//! root is a task: on the multi-thread runtime it runs on a worker, and the
//! main thread only waits.
//!
//! A JOIN is a JoinHandle for each child, awaited in the order in which they
//! were made. If the number of children is unknown to the compiler, they are in
//! a Vec.
//!
//! THE HASH is SHA-1 written here, as in C, without a crate. It takes 1.4 times
//! as long as with gcc, and as long as with clang.
//!
//! EXIT STATUS. A panic is a failure: 1. Without memory the standard library
//! aborts.

use ring::bench::fail;
use std::time::{Duration, Instant};
use std::{env, panic, process};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

const USAGE: i32 = 2;
const FIB_MAX: usize = 90;
const QUEENS: [u64; 17] = [
    1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184,
    14772512,
];
const SKY_LEAVES: u64 = 1_000_000;
const SKY_FAN: u64 = 10;

#[derive(Clone, Copy, PartialEq)]
enum What {
    Batches, // or all at once
    Fib,
    Queens,
    Uts,
    Skynet,
}

/// A question. It is copied into each task that reads it.
#[derive(Clone, Copy)]
struct Ask {
    what: What,
    n: usize,
    batch: usize,
    cut: usize,
    p: usize,
    tree: &'static Tree,
}

/// The parameters of a geometric tree of UTS.
struct Tree {
    name: &'static str,
    linear: bool,
    depth: usize,
    fan: f64,
    seed: u32,
    nodes: u64,
}

static TREES: [Tree; 2] = [
    Tree {
        name: "T1",
        linear: false,
        depth: 10,
        fan: 4.0,
        seed: 19,
        nodes: 4_130_071,
    },
    Tree {
        name: "T5",
        linear: true,
        depth: 20,
        fan: 4.0,
        seed: 34,
        nodes: 4_147_582,
    },
];

fn main() {
    panic::set_hook(Box::new(|why| fail(&why.to_string())));
    let ask = Ask::from_args();
    let (result, took) = if ask.plain() {
        let start = Instant::now();
        let result = ask.recurse();
        (result, start.elapsed())
    } else {
        run(ask)
    };
    if result != ask.known() {
        let known = ask.known();
        fail(&format!("the result is {result}, and should be {known}"));
    }
    println!("{:.6}", took.as_secs_f64());
}

fn run(ask: Ask) -> (u64, Duration) {
    let mut builder = match ask.p {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(ask.p).build().unwrap();
    runtime.block_on(async move { tokio::spawn(root(ask)).await.unwrap() })
}

async fn root(ask: Ask) -> (u64, Duration) {
    let start = Instant::now();
    let result = match ask.what {
        What::Batches => batches(ask).await,
        What::Fib => fib_task(ask.n, ask.cut).await,
        What::Queens => queens_task(ask, Board::new(ask.n), 0).await,
        What::Uts => {
            let logs: Logs = Box::leak(ask.tree.logs());
            uts_task(logs, ask.tree.root(), 0, ask.cut).await
        }
        What::Skynet => skynet_task(0, SKY_LEAVES).await,
    };
    (result, start.elapsed())
}

async fn batches(ask: Ask) -> u64 {
    let mut children = Vec::new();
    let mut ended = 0;
    while ended < ask.n {
        let batch = ask.batch.min(ask.n - ended);
        children.extend((0..batch).map(|_| tokio::spawn(async {})));
        for child in children.drain(..) {
            child.await.unwrap();
            ended += 1;
        }
    }
    ended as u64
}

#[inline(never)]
fn fib(n: usize) -> u64 {
    if n < 2 {
        n as u64
    } else {
        fib(n - 1) + fib(n - 2)
    }
}

async fn fib_task(n: usize, cut: usize) -> u64 {
    if n < 2 || n - 1 < cut {
        return fib(n);
    }
    let one = fib_spawn(n - 1, cut);
    if n - 2 < cut {
        let two = fib(n - 2);
        return one.await.unwrap() + two;
    }
    let two = fib_spawn(n - 2, cut);
    one.await.unwrap() + two.await.unwrap()
}

// The compiler must not need the type of a task in its own body. A task that
// makes tasks of its own type does so by this function, and those below.
fn fib_spawn(n: usize, cut: usize) -> JoinHandle<u64> {
    tokio::spawn(fib_task(n, cut))
}

/// Squares of this row: those not attacked, and those attacked in each way.
#[derive(Clone, Copy)]
struct Board {
    free: u32,
    column: u32,
    left: u32,
    right: u32,
}

impl Board {
    fn new(n: usize) -> Self {
        Board {
            free: (1 << n) - 1,
            column: 0,
            left: 0,
            right: 0,
        }
    }

    fn place(self, n: usize, bit: u32) -> Self {
        let column = self.column | bit;
        let left = (self.left | bit) << 1;
        let right = (self.right | bit) >> 1;
        Board {
            free: !(column | left | right) & ((1 << n) - 1),
            column,
            left,
            right,
        }
    }

    /// Boards with a queen on each free square of this row, one after another.
    fn placed(self, n: usize) -> impl Iterator<Item = Board> {
        let mut left = self.free;
        std::iter::from_fn(move || {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            (bit != 0).then(|| self.place(n, bit))
        })
    }
}

fn queens(b: Board, n: usize, row: usize) -> u64 {
    if row == n {
        return 1;
    }
    b.placed(n).map(|next| queens(next, n, row + 1)).sum()
}

async fn queens_task(ask: Ask, b: Board, row: usize) -> u64 {
    if row == ask.cut {
        return queens(b, ask.n, row);
    }
    sum(b.placed(ask.n)
        .map(|next| queens_spawn(ask, next, row + 1))
        .collect())
    .await
}

fn queens_spawn(ask: Ask, b: Board, row: usize) -> JoinHandle<u64> {
    tokio::spawn(queens_task(ask, b, row))
}

async fn sum(children: Vec<JoinHandle<u64>>) -> u64 {
    let mut sum = 0;
    for child in children {
        sum += child.await.unwrap();
    }
    sum
}

type Hash = [u32; 5];
type Logs = &'static [f64]; // by depth: the logarithm of 1 - p

impl Tree {
    fn logs(&self) -> Box<[f64]> {
        (0..=self.depth)
            .map(|d| match self.linear {
                true => self.fan * (1.0 - d as f64 / self.depth as f64),
                false if d < self.depth => self.fan,
                false => 0.0,
            })
            .map(|fan| (1.0 - 1.0 / (1.0 + fan)).ln()) // or -infinity
            .collect()
    }

    fn root(&self) -> Hash {
        sha1([0, 0, 0, 0, self.seed])
    }
}

fn child(parent: &Hash, i: u32) -> Hash {
    let [a, b, c, d, e] = *parent;
    sha1([a, b, c, d, e, i])
}

/// Returns the number of children.
fn fan(logs: Logs, hash: &Hash, depth: usize) -> u32 {
    let u = f64::from(hash[4] & i32::MAX as u32) / 2147483648.0;
    ((1.0 - u).ln() / logs[depth]) as u32
}

fn uts(logs: Logs, hash: &Hash, depth: usize) -> u64 {
    (0..fan(logs, hash, depth))
        .map(|i| uts(logs, &child(hash, i), depth + 1))
        .sum::<u64>()
        + 1
}

async fn uts_task(logs: Logs, hash: Hash, depth: usize, cut: usize) -> u64 {
    if depth == cut {
        return uts(logs, &hash, depth);
    }
    let nr = fan(logs, &hash, depth);
    if nr == 0 {
        return 1;
    }
    let children = (0..nr).map(|i| uts_spawn(logs, hash, i, depth + 1, cut));
    1 + sum(children.collect()).await
}

fn uts_spawn(
    logs: Logs,
    parent: Hash,
    i: u32,
    depth: usize,
    cut: usize,
) -> JoinHandle<u64> {
    tokio::spawn(async move {
        uts_task(logs, child(&parent, i), depth, cut).await
    })
}

/// SHA-1 of one block of 32-bit words.
fn sha1<const N: usize>(text: [u32; N]) -> Hash {
    const FIRST: Hash =
        [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
    let mut h = FIRST;
    let mut w = [0; 80];
    w[..N].copy_from_slice(&text);
    w[N] = 1 << 31;
    w[15] = N as u32 * 32;
    for i in 16..80 {
        w[i] = (w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16]).rotate_left(1);
    }
    for w in w[..20].chunks_exact(5) {
        rounds(&mut h, w, 0x5a827999, |b, c, d| d ^ (b & (c ^ d)));
    }
    for w in w[20..40].chunks_exact(5) {
        rounds(&mut h, w, 0x6ed9eba1, |b, c, d| b ^ c ^ d);
    }
    for w in w[40..60].chunks_exact(5) {
        rounds(&mut h, w, 0x8f1bbcdc, |b, c, d| (b & c) | (d & (b | c)));
    }
    for w in w[60..].chunks_exact(5) {
        rounds(&mut h, w, 0xca62c1d6, |b, c, d| b ^ c ^ d);
    }
    for (h, first) in h.iter_mut().zip(FIRST) {
        *h = h.wrapping_add(first);
    }
    h
}

/// Five rounds. After these, each word is in its place, so none is moved.
#[inline(always)]
fn rounds(h: &mut Hash, w: &[u32], k: u32, f: impl Fn(u32, u32, u32) -> u32) {
    for w in w {
        let [a, b, c, d, e] = *h;
        let sum = e.wrapping_add(k).wrapping_add(*w);
        let sum = sum.wrapping_add(f(b, c, d));
        *h = [
            sum.wrapping_add(a.rotate_left(5)),
            a,
            b.rotate_left(30),
            c,
            d,
        ];
    }
}

async fn skynet_task(first: u64, size: u64) -> u64 {
    if size == 1 {
        return first;
    }
    let size = size / SKY_FAN;
    let children = (0..SKY_FAN).map(|i| skynet_spawn(first + i * size, size));
    sum(children.collect()).await
}

fn skynet_spawn(first: u64, size: u64) -> JoinHandle<u64> {
    tokio::spawn(skynet_task(first, size))
}

impl Ask {
    /// Reads the command line, or ends the program.
    fn from_args() -> Self {
        let args: Vec<String> = env::args().skip(1).collect();
        let mut a = Ask {
            what: What::Batches,
            n: 1,
            batch: usize::MAX,
            cut: 0,
            p: 1,
            tree: &TREES[0],
        };
        a.fill(&args);
        a.check();
        a
    }

    fn fill(&mut self, args: &[String]) {
        let Ask {
            what,
            n,
            batch,
            cut,
            p,
            tree,
        } = self;
        let word = args.first().map(String::as_str);
        // The place of each number, and its minimum.
        let form = match word {
            Some("empty") => vec![(n, 1), (p, 1)],
            Some("batches") => vec![(n, 1), (batch, 1), (p, 1)],
            Some("fib") => vec![(n, 0), (cut, 0), (p, 1)],
            Some("queens") => vec![(n, 1), (cut, 0), (p, 1)],
            Some("uts") => vec![(cut, 0), (p, 1)],
            Some("skynet") => vec![(p, 1)],
            _ => usage("what?"),
        };
        let mut numbers = &args[1..];
        match word {
            Some("fib") => *what = What::Fib,
            Some("queens") => *what = What::Queens,
            Some("skynet") => *what = What::Skynet,
            Some("uts") => {
                let name = numbers.first().map(String::as_str);
                let found = TREES.iter().find(|t| Some(t.name) == name);
                *tree = found.unwrap_or_else(|| usage("which tree?"));
                *what = What::Uts;
                numbers = &numbers[1..];
            }
            _ => (),
        }
        if form.len() != numbers.len() {
            usage("too few or too many arguments");
        }
        for ((value, min), text) in form.into_iter().zip(numbers) {
            match number(text) {
                Some(v) if v >= min => *value = v,
                _ => usage("not a number, or out of range"),
            }
        }
    }

    fn check(&self) {
        let most = match self.what {
            What::Fib => FIB_MAX,
            What::Queens => QUEENS.len() - 1,
            _ => usize::MAX,
        };
        if self.n > most {
            usage("N is too large");
        }
        if self.what == What::Queens && self.cut > self.n {
            usage("there are no CUT rows");
        }
        if self.plain() && self.p != 1 {
            usage("no thread is made: P is 1");
        }
    }

    fn plain(&self) -> bool {
        match self.what {
            What::Fib => self.cut > self.n,
            What::Queens | What::Uts => self.cut == 0,
            _ => false,
        }
    }

    /// Runs the plain recursion.
    fn recurse(&self) -> u64 {
        match self.what {
            What::Fib => fib(self.n),
            What::Queens => queens(Board::new(self.n), self.n, 0),
            _ => {
                let logs = Box::leak(self.tree.logs());
                uts(logs, &self.tree.root(), 0)
            }
        }
    }

    /// Returns the right result.
    fn known(&self) -> u64 {
        match self.what {
            What::Batches => self.n as u64,
            What::Fib => (0..self.n).fold((0, 1), |(x, y), _| (y, x + y)).0,
            What::Queens => QUEENS[self.n],
            What::Uts => self.tree.nodes,
            What::Skynet => SKY_LEAVES * (SKY_LEAVES - 1) / 2,
        }
    }
}

/// A decimal number: digits only.
fn number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    let value = text.parse::<i32>().ok().filter(|_| digits)?;
    usize::try_from(value).ok()
}

fn usage(why: &str) -> ! {
    let name = env::args().next().unwrap_or_default();
    eprintln!(
        "{name}: {why}
usage:
  {name} empty NR P
  {name} batches NR B P
  {name} fib N CUT P
  {name} queens N CUT P
  {name} uts T1|T5 CUT P
  {name} skynet P
seconds. NR threads, at once or B at a time; N to {FIB_MAX} (fib) or
{} (queens); CUT: see fork.h; P native threads, 1 if no thread is made",
        QUEENS.len() - 1
    );
    process::exit(USAGE)
}
