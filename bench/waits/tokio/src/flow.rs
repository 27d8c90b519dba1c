// SPDX-License-Identifier: MIT

//! flow.rs: the prime sieve, power series, and a queue with workers.
//!
//! In the pool the workers of tokio's own channel share its receiver under a
//! mutex, as tokio's documentation has it.

use crate::kind::{Kind, Receive, Send1};
use crate::{per, took, work, worked, Ask, Lines};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, Mutex};

async fn numbers(to: impl Send1<u64>) {
    for i in 2.. {
        to.send(i).await;
    }
}

async fn filter(prime: u64, mut from: impl Receive<u64>, to: impl Send1<u64>) {
    while let Some(i) = from.receive().await {
        if i % prime != 0 {
            to.send(i).await;
        }
    }
}

/// What has not ended by then ends with the program.
pub async fn sieve<K: Kind>(a: Ask) -> Lines {
    let start = Instant::now();
    let (to, mut from) = K::channel::<u64>(0);
    let mut last = 0;
    tokio::spawn(numbers(to));
    for _ in 0..a.n {
        let prime = from.receive().await.expect("open");
        let (to, next) = K::channel::<u64>(0);
        tokio::spawn(filter(prime, from, to));
        from = next;
        last = prime;
    }
    let t = per(start, a.n);
    assert_eq!(last, nth_prime(a.n));
    took(t)
}

fn nth_prime(n: usize) -> u64 {
    let mut primes = vec![2];
    let mut i = 1;
    while primes.len() < n {
        i += 2;
        let divides = |p: &&u64| i % **p == 0;
        if primes
            .iter()
            .take_while(|p| **p * **p <= i)
            .find(divides)
            .is_none()
        {
            primes.push(i);
        }
    }
    primes[n - 1]
}

const MODULUS: u64 = 2147483647;

/// A series answers each ask with a coefficient.
struct Series {
    ask: mpsc::Sender<()>,
    value: mpsc::Receiver<u64>,
}

/// The other end of it.
struct Maker {
    asked: mpsc::Receiver<()>,
    give: mpsc::Sender<u64>,
}

fn series() -> (Series, Maker) {
    let (ask, asked) = mpsc::channel(1);
    let (give, value) = mpsc::channel(1);
    (Series { ask, value }, Maker { asked, give })
}

impl Series {
    async fn get(&mut self) -> u64 {
        self.ask.send(()).await.expect("open");
        self.value.recv().await.expect("open")
    }
}

impl Maker {
    async fn wanted(&mut self) {
        self.asked.recv().await.expect("open")
    }
    async fn give(&self, value: u64) {
        self.give.send(value % MODULUS).await.expect("open")
    }
}

/// Two copies, each of which may be ahead of the other. While one coefficient is
/// under way, the series may ask again.
fn split(s: Series) -> (Series, Series) {
    let ((first, a), (second, b)) = (series(), series());
    tokio::spawn(splitter(s, a, b));
    (first, second)
}

/// One of the two copies: how much it has got, and whether it waits for more.
#[derive(Default)]
struct Branch {
    at: usize,
    waits: bool,
}

impl Branch {
    async fn serve(&mut self, known: &[u64], to: &Maker) {
        if self.waits && self.at < known.len() {
            self.waits = false;
            to.give(known[self.at]).await;
            self.at += 1;
        }
    }
}

async fn splitter(mut s: Series, mut first: Maker, mut second: Maker) {
    let (mut a, mut b) = (Branch::default(), Branch::default());
    let mut known = vec![];
    let mut under = false;
    loop {
        tokio::select! {
            Some(()) = first.asked.recv() => a.waits = true,
            Some(()) = second.asked.recv() => b.waits = true,
            Some(v) = s.value.recv() => {
                known.push(v);
                under = false;
            }
            else => return,
        }
        a.serve(&known, &first).await;
        b.serve(&known, &second).await;
        if (a.waits || b.waits) && !under {
            under = true;
            s.ask.send(()).await.expect("open");
        }
    }
}

/// (f + xF)(g + xG) = fg + x(fG + gF) + x * x * FG. It is boxed, as it makes
/// another of its kind.
fn product(
    mut f: Series,
    mut g: Series,
    mut to: Maker,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        to.wanted().await;
        let (f0, g0) = (f.get().await, g.get().await);
        to.give(f0 * g0).await;
        to.wanted().await;
        let ((mut f1, f2), (mut g1, g2)) = (split(f), split(g));
        let sum = f0 * g1.get().await % MODULUS + g0 * f1.get().await % MODULUS;
        to.give(sum).await;
        to.wanted().await;
        let (mut rest, maker) = series();
        tokio::spawn(product(f2, g2, maker));
        loop {
            let sum = f0 * g1.get().await % MODULUS + g0 * f1.get().await % MODULUS;
            to.give(sum + rest.get().await).await;
            to.wanted().await;
        }
    })
}

/// Integrates 1 plus a series, from 0.
async fn integral(mut s: Series, mut to: Maker) {
    to.wanted().await;
    to.give(0).await;
    for i in 1.. {
        to.wanted().await;
        let v = s.get().await + u64::from(i == 1);
        to.give(v % MODULUS * inverse(i)).await;
    }
}

fn inverse(mut x: u64) -> u64 {
    let (mut r, mut n) = (1, MODULUS - 2);
    while n > 0 {
        if n % 2 == 1 {
            r = r * x % MODULUS;
        }
        x = x * x % MODULUS;
        n /= 2;
    }
    r
}

/// The tangent: T' = 1 + T * T.
pub async fn powser(a: Ask) -> Lines {
    let mut got = Vec::with_capacity(a.n);
    let start = Instant::now();
    let ((tangent, of_tangent), (square, of_square)) = (series(), series());
    let (mut all, factors) = split(tangent);
    let (f, g) = split(factors);
    tokio::spawn(product(f, g, of_square));
    tokio::spawn(integral(square, of_tangent));
    for _ in 0..a.n {
        got.push(all.get().await);
    }
    let t = per(start, a.n);
    assert!(right(&got), "that is not the tangent");
    took(t)
}

fn right(t: &[u64]) -> bool {
    t[0] == 0
        && (0..t.len() - 1).all(|i| {
            let sum = (0..=i).fold(u64::from(i == 0), |s, j| (s + t[j] * t[i - j]) % MODULUS);
            t[i + 1] * (i as u64 + 1) % MODULUS == sum
        })
}

/// A receiver of a worker's own, or one for all.
enum Jobs<R> {
    Own(R),
    Shared(Arc<Mutex<R>>),
}

impl<R: Receive<usize>> Jobs<R> {
    async fn next(&mut self) -> Option<usize> {
        match self {
            Jobs::Own(r) => r.receive().await,
            Jobs::Shared(r) => r.lock().await.receive().await,
        }
    }
}

fn deal<R: Receive<usize>>(r: R, workers: usize) -> Vec<Jobs<R>> {
    if r.another().is_some() {
        return (0..workers)
            .filter_map(|_| r.another())
            .map(Jobs::Own)
            .collect();
    }
    let shared = Arc::new(Mutex::new(r));
    (0..workers).map(|_| Jobs::Shared(shared.clone())).collect()
}

async fn worker<R: Receive<usize>>(mut jobs: Jobs<R>) -> (usize, u64) {
    let (mut mine, mut x) = (0, 0u64);
    while let Some(job) = jobs.next().await {
        x = x.wrapping_add(work(job as u64));
        mine += 1;
    }
    (mine, x)
}

pub async fn pool<K: Kind>(a: Ask) -> Lines {
    let start = Instant::now();
    let (s, r) = K::channel::<usize>(1000);
    let workers: Vec<_> = deal(r, a.m)
        .into_iter()
        .map(|jobs| tokio::spawn(worker(jobs)))
        .collect();
    for job in 0..a.n {
        s.send(job).await;
    }
    drop(s);
    let mut done = 0;
    for w in workers {
        let (mine, x) = w.await.expect("a worker");
        done += mine;
        worked(x);
    }
    let t = per(start, a.n);
    assert_eq!(done, a.n, "a job was lost");
    took(t)
}
