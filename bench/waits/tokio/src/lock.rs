// SPDX-License-Identifier: MIT

//! lock.rs: mutexes and read-write locks: tokio's, which a task may hold while it
//! waits. They are first in, first out.

use crate::{each, per, took, work as compute, worked, Ask, Lines};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, RwLock};
use tokio::task::yield_now;
use tokio::time::sleep;

pub const SLACK: usize = 10;
const HOLD: Duration = Duration::from_micros(100);

pub async fn own(a: Ask) -> Lines {
    took(
        each(a.p, a.n, |_, n| async move {
            let m = Arc::new(Mutex::new(()));
            for _ in 0..n {
                drop(m.lock().await);
            }
        })
        .await,
    )
}

pub async fn shared(threads: usize, a: Ask) -> Lines {
    let m = Arc::new(Mutex::new(()));
    took(
        each(threads, a.n, |_, n| {
            let m = m.clone();
            async move {
                for _ in 0..n {
                    drop(m.lock().await);
                }
            }
        })
        .await,
    )
}

pub async fn work(a: Ask) -> Lines {
    let m = Arc::new(Mutex::new(()));
    took(
        each(a.p, a.n, |id, n| {
            let m = m.clone();
            async move {
                let mut x = id as u64;
                for _ in 0..n {
                    drop(m.lock().await);
                    x = compute(x);
                }
                worked(x);
            }
        })
        .await,
    )
}

/// All run until the n-th lock of them all, so they need not get equal shares.
pub async fn hold(a: Ask) -> Lines {
    let m = Arc::new(Mutex::new(a.n));
    let got: Arc<Vec<_>> = Arc::new((0..SLACK * a.p).map(|_| AtomicUsize::new(0)).collect());
    let t = each(SLACK * a.p, a.n, |id, _| {
        let (m, got) = (m.clone(), got.clone());
        async move {
            loop {
                let mut left = m.lock().await;
                yield_now().await;
                if *left == 0 {
                    break;
                }
                *left -= 1;
                got[id].fetch_add(1, Ordering::Relaxed);
            }
        }
    })
    .await;
    let counts = || got.iter().map(|g| g.load(Ordering::Relaxed));
    let (least, most) = (counts().min(), counts().max());
    let ratio = most.unwrap_or(0) as f64 / least.unwrap_or(0).max(1) as f64;
    vec![("", t), (".most_to_least", ratio)]
}

/// The first holds the lock nearly always; the second wants it now and then.
pub async fn skew(a: Ask) -> Lines {
    let m = Arc::new(Mutex::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let first = tokio::spawn({
        let (m, done) = (m.clone(), done.clone());
        async move {
            while !done.load(Ordering::Relaxed) {
                let mut held = m.lock().await;
                sleep(HOLD).await;
                *held += 1;
            }
        }
    });
    let start = Instant::now();
    for _ in 0..a.n {
        sleep(HOLD).await;
        drop(m.lock().await);
    }
    let t = per(start, a.n);
    done.store(true, Ordering::Relaxed);
    first.await.expect("a task");
    let held = *m.lock().await;
    vec![("", t), (".most_to_least", f64::from(held) / a.n as f64)]
}

pub async fn rw_own(a: Ask) -> Lines {
    took(
        each(a.p, a.n, |_, n| async move {
            let m = Arc::new(RwLock::new(()));
            for _ in 0..n {
                let first = m.read().await;
                let second = m.read().await;
                drop(second);
                drop(first);
                drop(m.write().await);
            }
        })
        .await,
    )
}

/// Each M-th operation writes.
pub async fn rw_write(a: Ask) -> Lines {
    let m = Arc::new(RwLock::new(()));
    took(
        each(a.p, a.n, |_, n| {
            let m = m.clone();
            async move {
                for i in 1..=n {
                    if i % a.m == 0 {
                        drop(m.write().await);
                    } else {
                        drop(m.read().await);
                    }
                }
            }
        })
        .await,
    )
}
