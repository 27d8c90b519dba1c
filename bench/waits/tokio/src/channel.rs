// SPDX-License-Identifier: MIT

//! channel.rs: channels, and select.
//!
//! A message in turn in each direction (sync) needs two channels here: a task of
//! one channel with room would receive what it has sent.
//!
//! A semaphore is tokio's Semaphore, as a channel cannot be one.

use crate::kind::{Kind, Receive, Send1};
use crate::{each, no_counterpart, per, share, took, work, worked, Ask, Lines};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, Semaphore};

const BATCH: usize = 100;
const HOUR: Duration = Duration::from_secs(3600);

pub async fn sync<K: Kind>(a: Ask) -> Lines {
    let (there, mut arrived) = K::channel::<u64>(0);
    let (back, mut returned) = K::channel::<u64>(0);
    let n = a.n / 2;
    let start = Instant::now();
    let second = tokio::spawn(async move {
        for _ in 0..n {
            arrived.receive().await;
            back.send(0).await;
        }
    });
    let first = tokio::spawn(async move {
        for _ in 0..n {
            there.send(0).await;
            returned.receive().await;
        }
    });
    first.await.expect("a task");
    second.await.expect("a task");
    took(per(start, 2 * n))
}

/// The same, but who has received computes for M us before it sends.
pub async fn asleep<K: Kind>(a: Ask) -> Lines {
    let (there, mut arrived) = K::channel::<Instant>(0);
    let (back, mut returned) = K::channel::<Instant>(0);
    let n = a.n / 2;
    let compute = move || {
        let end = Instant::now() + Duration::from_micros(a.m as u64);
        while Instant::now() < end {}
    };
    let second = tokio::spawn(async move {
        let mut late = Duration::ZERO;
        for _ in 0..n {
            late += arrived.receive().await.expect("a time").elapsed();
            compute();
            back.send(Instant::now()).await;
        }
        late
    });
    let first = tokio::spawn(async move {
        let mut late = Duration::ZERO;
        for _ in 0..n {
            compute();
            there.send(Instant::now()).await;
            late += returned.receive().await.expect("a time").elapsed();
        }
        late
    });
    let late = first.await.expect("a task") + second.await.expect("a task");
    took(late.as_nanos() as f64 / (2 * n) as f64)
}

pub async fn buffer<K: Kind>(a: Ask) -> Lines {
    let (s, r) = K::channel::<usize>(a.m);
    let mut receivers = vec![];
    for _ in 1..a.p {
        receivers.push(r.another().unwrap_or_else(|| no_counterpart()));
    }
    receivers.push(r);
    let start = Instant::now();
    let mut tasks = vec![];
    for (id, mut r) in receivers.into_iter().enumerate() {
        let (s, n) = (s.clone(), share(a.n, a.p, id));
        tasks.push(tokio::spawn(async move {
            for i in 0..n {
                s.send(i).await;
            }
        }));
        tasks.push(tokio::spawn(async move {
            for _ in 0..n {
                r.receive().await;
            }
        }));
    }
    for t in tasks {
        t.await.expect("a task");
    }
    took(per(start, a.n))
}

async fn fill_and_drain(s: impl Send1<usize>, mut r: impl Receive<usize>, n: usize) {
    for _ in 0..n.div_ceil(BATCH) {
        for i in 0..BATCH {
            s.send(i).await;
        }
        for _ in 0..BATCH {
            r.receive().await;
        }
    }
}

pub async fn uncontended<K: Kind>(a: Ask) -> Lines {
    took(
        each(a.p, a.n, |_, n| {
            let (s, r) = K::channel(BATCH);
            fill_and_drain(s, r, n)
        })
        .await,
    )
}

pub async fn contended<K: Kind>(a: Ask) -> Lines {
    let (s, r) = K::channel(BATCH * a.p);
    if a.p == 1 {
        let start = Instant::now();
        let task = tokio::spawn(fill_and_drain(s, r, a.n));
        task.await.expect("a task");
        return took(per(start, a.n));
    }
    took(
        each(a.p, a.n, |_, n| {
            let r = r.another().unwrap_or_else(|| no_counterpart());
            fill_and_drain(s.clone(), r, n)
        })
        .await,
    )
}

pub async fn fanin<K: Kind>(a: Ask) -> Lines {
    let (s, mut r) = K::channel::<usize>(10);
    let n = a.n;
    let start = Instant::now();
    let taker = tokio::spawn(async move {
        for _ in 0..n {
            r.receive().await;
        }
    });
    each(100 * a.p, n, |_, n| {
        let s = s.clone();
        async move {
            for i in 0..n {
                s.send(i).await;
            }
        }
    })
    .await;
    taker.await.expect("a task");
    took(per(start, n))
}

pub async fn sem(a: Ask) -> Lines {
    let sem = Arc::new(Semaphore::new(a.p));
    took(
        each(a.p, a.n, |_, n| {
            let sem = sem.clone();
            async move {
                for _ in 0..n {
                    drop(sem.acquire().await);
                }
            }
        })
        .await,
    )
}

pub async fn select(a: Ask) -> Lines {
    took(
        each(a.p, a.n, |_, n| async move {
            let (s1, mut r1) = mpsc::channel::<u64>(1);
            let (s2, mut r2) = mpsc::channel::<u64>(1);
            s1.send(0).await.expect("open");
            for _ in 0..n {
                tokio::select! {
                    _ = r1.recv() => s2.send(0).await.expect("open"),
                    _ = r2.recv() => s1.send(0).await.expect("open"),
                }
            }
        })
        .await,
    )
}

pub async fn select_sync(a: Ask) -> Lines {
    if a.p > 1 {
        no_counterpart();
    }
    let (s1, mut r1) = mpsc::channel::<u64>(1);
    let (s2, mut r2) = mpsc::channel::<u64>(1);
    let (s3, mut r3) = mpsc::channel::<u64>(1);
    let (_keep, mut done) = oneshot::channel::<()>();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Ok(p) = s1.reserve() => p.send(0),
                Ok(p) = s2.reserve() => p.send(0),
                Ok(p) = s3.reserve() => p.send(0),
                _ = &mut done => break,
                else => break,
            }
        }
    });
    let n = a.n;
    let start = Instant::now();
    let receiver = tokio::spawn(async move {
        for _ in 0..n {
            tokio::select! {
                _ = r1.recv() => (),
                _ = r2.recv() => (),
                _ = r3.recv() => (),
            }
        }
    });
    receiver.await.expect("a task");
    took(per(start, n))
}

pub async fn select_buffer(a: Ask) -> Lines {
    if a.p > 1 {
        no_counterpart();
    }
    let (s, mut r) = mpsc::channel::<usize>(a.m);
    let (_keep1, mut stop1) = oneshot::channel::<()>();
    let (_keep2, mut stop2) = oneshot::channel::<()>();
    let n = a.n;
    let start = Instant::now();
    let sender = tokio::spawn(async move {
        let timer = tokio::time::sleep(HOUR);
        let mut x = n as u64;
        tokio::pin!(timer);
        for i in 0..n {
            x = work(x);
            tokio::select! {
                _ = s.send(i) => (),
                _ = &mut timer => (),
                _ = &mut stop1 => (),
            }
        }
        worked(x);
    });
    let receiver = tokio::spawn(async move {
        let timer = tokio::time::sleep(HOUR);
        let mut x = n as u64;
        tokio::pin!(timer);
        for _ in 0..n {
            tokio::select! {
                _ = r.recv() => (),
                _ = &mut timer => (),
                _ = &mut stop2 => (),
            }
            x = work(x);
        }
        worked(x);
    });
    sender.await.expect("a task");
    receiver.await.expect("a task");
    took(per(start, n))
}
