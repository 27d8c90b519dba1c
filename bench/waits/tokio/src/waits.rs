// SPDX-License-Identifier: MIT

//! waits.rs: the benchmarks of waits on tokio's tasks, a peer.
//!
//! WHAT IS MEASURED: see waits.h. A thread is a task. The runtime is the
//! current-thread runtime if P is 1, else the multi-thread runtime with P
//! workers. The root is a task, too: on the multi-thread runtime it runs on a
//! worker, and the main thread only waits.
//!
//! EXIT STATUS. A panic is a failure: 101. 77: there is no counterpart.

mod channel;
mod flow;
pub mod kind;
mod lock;
mod time;

use kind::Kind;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, process};
use tokio::runtime::Builder;

const USAGE: i32 = 2;
const NO_COUNTERPART: i32 = 77;
const WORK_STEPS: usize = 30;
const AHEAD: Duration = Duration::from_secs(60);

/// A question: NAME:M N P.
#[derive(Clone)]
struct Ask {
    name: String,
    m: usize,
    n: usize,
    p: usize,
}

/// What is printed: behind the name, the value.
type Lines = Vec<(&'static str, f64)>;

pub fn run<K: Kind>() {
    let args: Vec<String> = env::args().skip(1).collect();
    let a = arguments(&args);
    let mut builder = match a.p {
        1 => Builder::new_current_thread(),
        p => {
            let mut b = Builder::new_multi_thread();
            b.worker_threads(p);
            b
        }
    };
    let runtime = builder.enable_time().build().expect("the runtime");
    let root = async { tokio::spawn(answer::<K>(a)).await.expect("the root") };
    for (what, value) in runtime.block_on(root) {
        println!("{}{} {:.2}", args[0], what, value);
    }
    process::exit(0) // what waits forever is not dropped one by one
}

async fn answer<K: Kind>(a: Ask) -> Lines {
    match a.name.as_str() {
        "sync" => channel::sync::<K>(a).await,
        "asleep" => channel::asleep::<K>(a).await,
        "buffer" => channel::buffer::<K>(a).await,
        "uncontended" => channel::uncontended::<K>(a).await,
        "contended" => channel::contended::<K>(a).await,
        "fanin" => channel::fanin::<K>(a).await,
        "sieve" => flow::sieve::<K>(a).await,
        "pool" => flow::pool::<K>(a).await,
        "flag" | "futex" | "wake" => no_counterpart(),
        _ if K::OWN => own(a).await,
        _ => no_counterpart(),
    }
}

async fn own(a: Ask) -> Lines {
    match a.name.as_str() {
        "churn-random" => time::churn(a, true).await,
        "churn-same" => time::churn(a, false).await,
        "timed" => time::timed(a).await,
        "sleepers" => time::sleepers(a).await,
        "sem" => channel::sem(a).await,
        "select" => channel::select(a).await,
        "select-sync" => channel::select_sync(a).await,
        "select-buffer" => channel::select_buffer(a).await,
        "mutex-own" => lock::own(a).await,
        "mutex" => lock::shared(a.p, a).await,
        "mutex-slack" => lock::shared(lock::SLACK * a.p, a).await,
        "mutex-work" => lock::work(a).await,
        "mutex-hold" => lock::hold(a).await,
        "skew" => lock::skew(a).await,
        "rw-own" => lock::rw_own(a).await,
        "rw-write" => lock::rw_write(a).await,
        "powser" => flow::powser(a).await,
        _ => usage("no such benchmark"),
    }
}

fn arguments(args: &[String]) -> Ask {
    let [question, n, p] = args else {
        usage("too few or too many arguments")
    };
    let (name, m) = question.split_once(':').unwrap_or((question, "0"));
    Ask {
        name: name.to_string(),
        m: number(m, 0),
        n: number(n, 1),
        p: number(p, 1),
    }
}

fn number(text: &str, least: usize) -> usize {
    match text.parse() {
        Ok(v) if v >= least => v,
        _ => usage("not a number, or out of range"),
    }
}

fn usage(why: &str) -> ! {
    let name = env::args().next().unwrap_or_default();
    eprintln!("{name}: {why}\nusage: {name} NAME[:M] N P");
    process::exit(USAGE)
}

fn no_counterpart() -> ! {
    process::exit(NO_COUNTERPART)
}

fn took(nanoseconds: f64) -> Lines {
    vec![("", nanoseconds)]
}

fn per(start: Instant, n: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / n as f64
}

/// Returns how many of n things number id gets, if nr share them.
fn share(n: usize, nr: usize, id: usize) -> usize {
    n / nr + usize::from(id < n % nr)
}

/// Runs nr tasks, made by f of a number and its share of n. Returns the time, as
/// nanoseconds of one of n.
async fn each<F>(nr: usize, n: usize, f: impl Fn(usize, usize) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = Instant::now();
    let tasks: Vec<_> = (0..nr)
        .map(|id| tokio::spawn(f(id, share(n, nr, id))))
        .collect();
    for t in tasks {
        t.await.expect("a task");
    }
    per(start, n)
}

static WORKED: AtomicU64 = AtomicU64::new(0);

/// Computes for about 50 ns.
fn work(mut x: u64) -> u64 {
    for _ in 0..WORK_STEPS {
        x = (x ^ (x >> 31)).wrapping_mul(6364136223846793005);
    }
    x
}

fn worked(x: u64) {
    WORKED.fetch_add(x, Ordering::Relaxed);
}

/// A generator of Marsaglia's kind, for what need not be good.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
